//! The seal: what a script can't reach, and what a grant lets it reach.

use std::fs;
use std::os::unix::fs::symlink;

use gloveport::job::Access;
use gloveport::{Request, Status};

use crate::harness::{builder, granted, printed, run, sandbox, scratch, trials};

trials![
    e1_host_files_are_not_there,
    e2_dots_do_not_lead_out_of_a_grant,
    e4_links_do_not_lead_out_of_a_grant,
    e5_a_link_that_was_there_before_does_not_lead_out,
    e8_a_read_only_grant_can_not_be_changed,
    e10_special_files_in_a_grant_are_refused_at_once,
    e20_the_image_imports_nothing_unlisted,
    e21_processes_sockets_and_bridges_are_absent,
    n1_the_environment_is_what_was_configured,
    n6_a_secret_that_is_passed_through_is_masked,
    a_read_write_grant_can_be_changed,
    strict_mode_hides_the_grant,
    project_mode_imports_from_the_grant_but_never_over_the_standard_library,
    two_runs_do_not_see_each_other,
    e17_a_grant_never_holds_what_the_runtime_lives_on,
    r16_standard_descriptors_are_no_way_around_the_budget,
];

/// A directory to grant, with a secret beside it.
fn workspace() -> (tempfile::TempDir, std::path::PathBuf) {
    let outer = tempfile::tempdir_in(scratch()).expect("a temporary directory");
    let inner = outer.path().join("work");
    fs::create_dir(&inner).expect("a workspace");
    fs::write(outer.path().join("secret"), "outside").expect("a secret");
    fs::write(inner.join("a.txt"), "inside").expect("a file");
    (outer, inner)
}

/// Python that tries each expression and prints its value or the name of its error.
fn attempts(expressions: &[&str]) -> String {
    let mut code =
        String::from("import os\ndef t(f):\n    try: print(f())\n    except Exception as e: print(type(e).__name__)\n");
    for expression in expressions {
        code.push_str(&format!("t(lambda: {expression})\n"));
    }
    code
}

async fn e1_host_files_are_not_there() {
    let code = attempts(&[
        "open('/etc/passwd').read()",
        "open('/proc/self/environ').read()",
        "open('/proc/self/maps').read()",
        "open('/dev/mem').read()",
        "os.listdir('/')",
        "os.listdir('/tmp')",
        "os.getcwd()",
    ]);
    let gone = "FileNotFoundError\n".repeat(5);
    assert_eq!(printed(&run(&code).await), format!("{gone}[]\n/work\n"));
}

async fn e2_dots_do_not_lead_out_of_a_grant() {
    let (_outer, inner) = workspace();
    let dots = "../".repeat(40);
    let code = attempts(&[
        "open('a.txt').read()",
        "open('../secret').read()",
        "open('./x/../../secret').read()",
        &format!("open('{dots}etc/passwd').read()"),
        &format!("open('{}/../secret').read()", inner.display()),
        "os.listdir('..')",
    ]);
    let output = printed(&granted(&inner, Access::ReadWrite).execute(Request::new(code)).await);
    let mut lines = output.lines();
    assert_eq!(lines.next(), Some("inside"));
    for line in lines {
        assert!(["FileNotFoundError", "PermissionError"].contains(&line), "{output}");
    }
}

async fn e4_links_do_not_lead_out_of_a_grant() {
    let (_outer, inner) = workspace();
    let code = attempts(&[
        "os.symlink('/etc', 'abs')",
        "os.symlink('../secret', 'rel')",
        "open('rel').read()",
        "open('abs/passwd').read()",
        "os.symlink('a.txt', 'fine')",
        "open('fine').read()",
    ]);
    let output = printed(&granted(&inner, Access::ReadWrite).execute(Request::new(code)).await);
    assert!(!output.contains("outside") && !output.contains("root:"), "{output}");
    assert!(output.ends_with("None\ninside\n"), "{output}");
}

async fn e5_a_link_that_was_there_before_does_not_lead_out() {
    let (outer, inner) = workspace();
    symlink(outer.path().join("secret"), inner.join("abs")).expect("a link");
    symlink("../secret", inner.join("rel")).expect("a link");
    symlink(outer.path(), inner.join("dir")).expect("a link");
    let code = attempts(&[
        "open('abs').read()",
        "open('rel').read()",
        "open('dir/secret').read()",
        "os.listdir('dir')",
        "open('rel', 'w')",
        "open('dir/new', 'w')",
    ]);
    let output = printed(&granted(&inner, Access::ReadWrite).execute(Request::new(code)).await);
    assert_eq!(output, "PermissionError\n".repeat(6));
    assert_eq!(fs::read_to_string(outer.path().join("secret")).expect("the secret"), "outside");
    assert!(!outer.path().join("new").exists());
}

async fn e8_a_read_only_grant_can_not_be_changed() {
    let (_outer, inner) = workspace();
    let code = attempts(&[
        "open('a.txt').read()",
        "open('a.txt', 'w')",
        "open('a.txt', 'r+')",
        "os.truncate('a.txt', 0)",
        "os.open('a.txt', os.O_RDONLY | os.O_TRUNC)",
        "open('new', 'x')",
        "os.remove('a.txt')",
        "os.rename('a.txt', 'b.txt')",
        "os.mkdir('d')",
        "os.utime('a.txt', (0, 0))",
        "os.symlink('a.txt', 'l')",
        "os.link('a.txt', '/tmp/l')",
        "os.rename('a.txt', '/tmp/b.txt')",
    ]);
    let before = fs::metadata(inner.join("a.txt")).and_then(|meta| meta.modified()).expect("a time");
    let output = printed(&granted(&inner, Access::ReadOnly).execute(Request::new(code)).await);
    for line in output.lines().skip(1) {
        assert!(["PermissionError", "OSError"].contains(&line), "{output}");
    }
    assert_eq!(fs::read_to_string(inner.join("a.txt")).expect("the file"), "inside");
    assert_eq!(fs::metadata(inner.join("a.txt")).and_then(|meta| meta.modified()).expect("a time"), before);
    assert_eq!(fs::read_dir(&inner).expect("the workspace").count(), 1);
}

async fn e10_special_files_in_a_grant_are_refused_at_once() {
    let (_outer, inner) = workspace();
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, inner.join("fifo"), rustix::fs::FileType::Fifo, mode, 0).expect("a FIFO");
    let _socket = std::os::unix::net::UnixListener::bind(inner.join("socket")).expect("a socket");
    let code = attempts(&["open('fifo').read()", "open('fifo', 'w')", "open('socket').read()"]);
    let started = std::time::Instant::now();
    let output = printed(&granted(&inner, Access::ReadWrite).execute(Request::new(code)).await);
    assert_eq!(output, "PermissionError\n".repeat(3));
    assert!(started.elapsed().as_secs() < 10, "a FIFO must not be waited for");
}

async fn e20_the_image_imports_nothing_unlisted() {
    // Linking refuses an image that imports what the host does not offer; the shared backend was linked.
    assert_eq!(crate::harness::backend().image().sha256.len(), 64);
}

async fn e21_processes_sockets_and_bridges_are_absent() {
    let code = "\
import importlib, os
for name in ('ctypes', '_ctypes', 'ssl', '_ssl', 'mmap', 'fcntl', 'resource', 'termios', 'pty', '_posixsubprocess'):
    try: importlib.import_module(name); print(name)
    except ImportError: pass
import subprocess, socket, threading
for f in (lambda: subprocess.run(['ls']), lambda: os.system('ls'), lambda: os.fork(), lambda: os.execv('/bin/ls', ['ls']),
          lambda: socket.socket(), lambda: socket.create_connection(('127.0.0.1', 22)), lambda: os.kill(1, 9)):
    try: f(); print('worked')
    except Exception as e: pass
print('done')";
    assert_eq!(printed(&run(code).await), "done\n");
}

async fn n1_the_environment_is_what_was_configured() {
    let environment =
        [("PATH", "/bin"), ("LANG", "C.UTF-8"), ("OPENAI_API_KEY", "x"), ("PATHTOKEN", "x"), ("FOO", "x")];
    let sandbox = builder().environment(environment.map(|(k, v)| (k.into(), v.into()))).build().expect("a sandbox");
    let code = "import os\nfor k in sorted(os.environ): print(k)";
    let names = printed(&sandbox.execute(Request::new(code).timezone("Europe/Paris")).await);
    for absent in ["OPENAI_API_KEY", "PATHTOKEN", "FOO"] {
        assert!(!names.lines().any(|name| name == absent), "{names}");
    }
    for present in ["LANG", "TZ", "PYTHONUTF8", "PYTHONIOENCODING", "PYTHONDONTWRITEBYTECODE", "TMPDIR"] {
        assert!(names.lines().any(|name| name == present), "{present} in {names}");
    }
}

async fn n6_a_secret_that_is_passed_through_is_masked() {
    let mut config = gloveport::Config::default();
    config.env.pass = vec!["MY_TOKEN".into()];
    let value = "correct-horse-42-battery";
    let sandbox = builder().config(config).environment([("MY_TOKEN".into(), value.into())]).build().expect("a sandbox");
    let code = "import os\nv = os.environ['MY_TOKEN']\nprint(len(v), v, v[::-1], v.encode().hex())";
    let output = printed(&sandbox.execute(Request::new(code)).await);
    assert!(output.starts_with("24 [REDACTED"), "{output}");
    for form in [value.to_owned(), value.chars().rev().collect(), value.bytes().map(|b| format!("{b:02x}")).collect()] {
        assert!(!output.contains(&form), "{output}");
    }
}

async fn a_read_write_grant_can_be_changed() {
    let (_outer, inner) = workspace();
    let code = "open('new.txt', 'w').write('made')\nimport os\nos.mkdir('d')\nos.rename('a.txt', 'd/b.txt')\nprint(sorted(os.listdir()))";
    let output = printed(&granted(&inner, Access::ReadWrite).execute(Request::new(code)).await);
    assert_eq!(output, "['d', 'new.txt']\n");
    assert_eq!(fs::read_to_string(inner.join("d/b.txt")).expect("the file"), "inside");
}

async fn strict_mode_hides_the_grant() {
    let (_outer, inner) = workspace();
    let code = format!("import os\nprint(os.getcwd(), os.listdir(), os.path.exists('{}'))", inner.display());
    let sandbox = granted(&inner, Access::ReadWrite);
    assert_eq!(printed(&sandbox.execute(Request::new(&code).mode(" Strict ")).await), "/work [] False\n");
    let odd = sandbox.execute(Request::new("print(1)").mode("nonsense")).await;
    assert_eq!((odd.status, odd.warnings.len()), (Status::Success, 1));
}

async fn project_mode_imports_from_the_grant_but_never_over_the_standard_library() {
    let (_outer, inner) = workspace();
    fs::write(inner.join("helper.py"), "def f(): return 'mine'\n").expect("a module");
    fs::write(inner.join("json.py"), "raise SystemExit('shadowed')\n").expect("a module");
    fs::write(inner.join("random.py"), "raise SystemExit('shadowed')\n").expect("a module");
    let code = "import sys, json, random, helper\nprint(helper.f(), json.dumps([1]), sys.path[-1])";
    let output = printed(&granted(&inner, Access::ReadOnly).execute(Request::new(code)).await);
    assert_eq!(output, format!("mine [1] {}\n", inner.display()));
    assert!(!inner.join("__pycache__").exists());
}

async fn two_runs_do_not_see_each_other() {
    printed(
        &run("open('/tmp/left', 'w').write('x'); open('here', 'w').write('x'); import builtins; builtins.left = 1")
            .await,
    );
    let code = "import os, builtins\nprint(os.listdir('/tmp'), os.listdir('.'), hasattr(builtins, 'left'))";
    assert_eq!(printed(&sandbox().execute(Request::new(code)).await), "[] [] False\n");
}

async fn e17_a_grant_never_holds_what_the_runtime_lives_on() {
    // The shared backend's cache lies below the scratch directory of the tests.
    for (path, access) in
        [(scratch(), Access::ReadWrite), ("/".into(), Access::ReadOnly), ("/proc".into(), Access::ReadOnly)]
    {
        let result = granted(&path, access).execute(Request::new("print(1)")).await;
        assert_eq!(
            result.kind,
            Some(gloveport::result::Kind::BackendSetup),
            "{}: {}",
            path.display(),
            result.to_json()
        );
    }
    // Reading is harmless, but the private directories of other runs lie there: this run's own lie elsewhere, and it can't see them.
    let code = "import os\nopen('/tmp/mine', 'w').write('x')\nprint([f for _, _, files in os.walk(os.getcwd()) for f in files if f == 'mine'])";
    assert_eq!(printed(&granted(&scratch(), Access::ReadOnly).execute(Request::new(code)).await), "[]\n");
}

async fn r16_standard_descriptors_are_no_way_around_the_budget() {
    let code = "\
import errno, os
for fd in (0, 1, 2): os.close(fd)
f = os.open('/tmp/a', os.O_RDWR | os.O_CREAT)
n = 0
try:
    while True: n += os.write(f, b'x' * (1 << 20))
except OSError as e: print(f > 2, n >> 20, errno.errorcode[e.errno])";
    assert_eq!(printed(&run(code).await), "True 256 ENOSPC\n");
}
