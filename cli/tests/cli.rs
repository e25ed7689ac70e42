//! The binary as a user meets it: whole output, exact.
#![expect(clippy::disallowed_methods, reason = "tests start the binary and make files of their own")]
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod support;

use std::process::Stdio;
use std::time::{Duration, Instant};

use support::{Place, Seen, seen, without_times};

#[test]
fn a_person_sees_what_is_printed_and_one_line_more() {
    let place = Place::new();
    assert_eq!(place.run(&["run", "-c", "print('hi')"]), seen(0, "hi\n", "gloveport: success, 0 tool calls, 0.00 s\n"));
    assert_eq!(place.run(&["run", "-q", "-c", "print('hi', end='')"]), seen(0, "hi", ""));
    assert_eq!(
        place.run(&["run", "-c", "import sys; print('a'); print('b', file=sys.stderr); sys.exit(3)"]),
        seen(3, "a\n", "b\ngloveport: exit code 3, 0 tool calls, 0.00 s\n")
    );
}

#[test]
fn a_program_gets_one_json_line() {
    let object = "{\"status\":\"success\",\"output\":\"hi\\n\",\"tool_calls_made\":0,\"duration_seconds\":0.00,\"exit_code\":0,\
                  \"stdout_bytes\":3,\"stdout_omitted\":0,\"stderr_bytes\":0,\"stderr_omitted\":0,\"backend\":\"wasi\",\
                  \"isolation\":\"wasm\",\"truncated\":false}\n";
    assert_eq!(Place::new().run(&["run", "-c", "print(\"hi\")", "--json"]), seen(0, object, ""));
}

#[test]
fn the_exit_code_is_the_scripts() {
    let place = Place::new();
    for (code, exit) in [
        ("pass", 0),
        ("raise SystemExit(255)", 255),
        ("import os; os._exit(7)", 7),
        ("1/0", 1),
        ("exit(256)", 1),
        ("exit(-1)", 255),
    ] {
        for json in [&[][..], &["--json"]] {
            let args = [&["run", "-c", code], json].concat();
            assert_eq!(place.run(&args).code, exit, "{args:?}");
        }
    }
}

#[test]
fn code_comes_from_a_file_standard_input_or_the_command_line() {
    let place = Place::new();
    place.file("greet.py", "import sys\nprint(sys.argv)");
    assert_eq!(place.run(&["run", "-q", "greet.py", "--", "--json", "é"]).stdout, "['greet.py', '--json', 'é']\n");
    place.file("bom.py", "\u{feff}print(1)\r\nprint(2)\r\n");
    assert_eq!(place.run(&["run", "-q", "bom.py"]).stdout, "1\n2\n");
    let mut command = place.command(&["run", "-q", "-"]);
    assert_eq!(place.finish(command.stdin(Stdio::piped()), b"print(40 + 2)"), seen(0, "42\n", ""));
}

#[test]
fn bad_input_gets_one_sentence_or_the_error_object() {
    let place = Place::new();
    place.file("empty.py", "");
    place.file("blank.py", " \n\t\n");
    place.bytes("latin.py", b"print('\xe9')");
    place.file("nul.py", "a = 1\nb = '\0'");
    place.file("big.py", &"#".repeat(10 << 20));
    place.file("plain.txt", "x");
    let cases: &[(&[&str], &str)] = &[
        (&["missing.py"], "can't read missing.py: no such file or directory"),
        (&["."], "can't read .: it is a directory"),
        (&["latin.py"], "latin.py is not UTF-8 text (first bad byte at offset 7)"),
        (&["big.py"], "big.py is too large: 10485760 bytes, the limit is 1048576 bytes"),
        (&["nul.py"], "The code contains a NUL character (line 2)."),
        (
            &["-c", "x", "--timeout", "0"],
            "Invalid timeout: 0. It has to be a number of seconds above 0 and at most 86400.",
        ),
        (
            &["-c", "x", "--timeout", "-1"],
            "Invalid timeout: -1. It has to be a number of seconds above 0 and at most 86400.",
        ),
        (
            &["-c", "x", "--timeout", "NaN"],
            "Invalid timeout: NaN. It has to be a number of seconds above 0 and at most 86400.",
        ),
        (
            &["-c", "x", "--timezone", "$(id)"],
            "Invalid timezone: \"$(id)\" is not an IANA time zone name such as Europe/Berlin.",
        ),
        (&["-c", "x", "--workspace", "missing"], "workspace missing: no such file or directory"),
        (&["-c", "x", "--workspace", "plain.txt:rw"], "workspace plain.txt: it is not a directory"),
        (&["-c", "x", "--memory", "1"], "`limits.memory`: 1 is not between 32 and 1048576"),
    ];
    for (args, sentence) in cases {
        let args = [&["run"], *args].concat();
        assert_eq!(place.run(&args), seen(2, "", &format!("error: {sentence}\n")), "{args:?}");
        let json = place.run(&[&args[..], &["--json"]].concat());
        let object: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
        assert_eq!((object["status"].as_str(), object["error"].as_str()), (Some("error"), Some(*sentence)), "{args:?}");
        assert_eq!((json.code, json.stdout.lines().count(), json.stderr.as_str()), (2, 1, ""), "{args:?}");
    }
    for file in ["empty.py", "blank.py"] {
        assert_eq!(place.run(&["run", file]), seen(2, "", "error: No code provided.\n"));
        assert_eq!(place.run(&["run", file, "--json"]), seen(2, "{\"error\":\"No code provided.\"}\n", ""));
    }
}

#[test]
fn unknown_flags_keys_and_variables_are_refused() {
    let place = Place::new();
    for args in [&["run", "-c", "x", "--fast"][..], &["run"], &["fly"], &["run", "-c", "x", "--timeout", "soon"], &[]] {
        let output = place.run(args);
        assert_eq!((output.code, output.stdout.as_str()), (2, ""), "{args:?}");
        assert!(!output.stderr.is_empty(), "{args:?}");
    }
    place.file("gloveport.toml", "[limts]\ntimeout = 1\n");
    let path = place.path("gloveport.toml");
    let sentence = format!("error: {path}: unknown key `limts.timeout`; did you mean `limits.timeout`?\n");
    assert_eq!(place.run(&["run", "-c", "x"]), seen(2, "", &sentence));
    assert_eq!(place.run(&["run", "-c", "pass", "-q", "--config", "none"]), seen(0, "", ""));
    let mut command = place.command(&["tools", "--config", "none"]);
    command.env("GLOVEPORT_TERMINL", "off");
    assert_eq!(
        place.finish(&mut command, b""),
        seen(2, "", "error: unknown variable `GLOVEPORT_TERMINL`; did you mean `GLOVEPORT_TERMINAL`?\n")
    );
}

#[test]
fn settings_reach_the_script() {
    let place = Place::new();
    place.file("gloveport.toml", "module = 'lab'\n[limits]\nmax_tool_calls = 1\n");
    place.file("data.txt", "one\ntwo\n");
    let code = "from lab import read_file\nprint(read_file('data.txt')['content'])\nprint(read_file('data.txt'))";
    assert_eq!(
        place.run(&["run", "-c", code]),
        seen(
            0,
            "one\ntwo\n\n{'error': 'Tool call limit reached (1). No more tool calls allowed in this execution.'}\n",
            "gloveport: success, 1 tool call and 1 refused, 0.00 s\n"
        )
    );
}

#[test]
fn a_script_may_read_here_and_nothing_else() {
    let place = Place::new();
    place.file("data.txt", "one\n");
    let code = "import os, hermes_tools\nprint(open('data.txt').read(), end='')\nprint(hasattr(hermes_tools, 'write_file'))\n\
                try: open('new.txt', 'w')\nexcept OSError: print('no')\ntry: open('/etc/passwd')\nexcept OSError: print('no')";
    assert_eq!(place.run(&["run", "-q", "-c", code]).stdout, "one\nFalse\nno\nno\n");
    let code = "from hermes_tools import write_file\nprint(write_file('new.txt', 'x')['bytes_written'])";
    assert_eq!(place.run(&["run", "-q", "-c", code, "--workspace", ".:rw"]).stdout, "1\n");
    let code = "import os\nprint(os.listdir('.'))";
    assert_eq!(place.run(&["run", "-q", "-c", code, "--workspace", "none", "--tools", "none"]).stdout, "[]\n");
}

#[test]
fn without_a_terminal_nobody_is_asked_and_that_means_no() {
    let place = Place::new();
    let code = "from hermes_tools import terminal\nanswer = terminal('echo hi')\nprint(answer.get('output', answer))";
    place.file("gloveport.toml", "terminal = 'host'\n");
    assert_eq!(
        place.run(&["run", "-q", "-c", code]),
        seen(0, "{'error': 'Approval denied for terminal: there is nobody to ask.'}\n", "")
    );
    place.file("gloveport.toml", "terminal = 'host'\n[approval]\nmode = 'off'\n");
    assert_eq!(place.run(&["run", "-q", "-c", code]).stdout.trim_end(), "hi");
}

#[cfg(unix)]
#[test]
fn a_command_can_be_a_tool() {
    let place = Place::new();
    let tool = "[[tool]]\nname = 'echo'\ndescription = 'Gives its arguments back.'\ncommand = ['cat']\neffect = 'read'\n\
                schema = { type = 'object', properties = { word = { type = 'string' }, times = { type = 'integer', default = 1 } }, \
                required = ['word'], additionalProperties = false }\n";
    place.file("gloveport.toml", tool);
    assert_eq!(
        place.run(&["tools", "--tools", "echo"]).stdout,
        "echo(word: str, times: int = 1) -> object\n    Gives its arguments back.\n"
    );
    let code = "from hermes_tools import echo\nprint(echo('a', 2))\nprint(echo(word=1))";
    let output = place.run(&["run", "-q", "-c", code]).stdout;
    assert_eq!(
        output,
        "{'word': 'a', 'times': 2}\n{'error': 'echo() argument \\'word\\': the value is not of type \"string\"'}\n"
    );
}

#[test]
fn tools_that_are_not_here_are_named() {
    let output = Place::new().run(&["run", "-c", "pass", "-q", "--tools", "read_file,fly"]);
    assert_eq!(
        output,
        seen(0, "", "warning: Unknown tools are ignored: \"fly\". Available: read_file, search_files.\n")
    );
}

#[test]
fn time_is_over() {
    let place = Place::new();
    let code = "print('so far')\nwhile True: pass";
    assert_eq!(
        place.run(&["run", "-c", code, "--timeout", "2"]),
        seen(
            124,
            "so far\n",
            "error: Script timed out after 2s and was killed.\nhint: The script ran out of time: do less in one run, or make tool calls at the same time.\n\
             gloveport: timeout, 0 tool calls, 0.00 s\n"
        )
    );
    let json = place.run(&["run", "-c", code, "--timeout", "2", "--json"]);
    assert_eq!(json.code, 124);
    assert!(
        json.stdout.starts_with("{\"status\":\"timeout\",\"output\":\"so far\\n\\n\\n⏰ Script timed out after 2s"),
        "{}",
        json.stdout
    );
}

#[test]
fn a_secret_of_the_environment_never_shows() {
    let place = Place::new();
    let secret = "correct-horse-battery-staple-93741";
    for json in [&[][..], &["--json"]] {
        let code = "import os, sys\nv = os.environ['MY_DATA']\nprint(v)\nsys.stdout.write(v[:9]); sys.stdout.flush()\nprint(v[9:])\nprint(v, file=sys.stderr)\nexit(1)";
        let mut command = place.command(&[&["run", "-c", code, "--env", "MY_DATA"], json].concat());
        command.env("MY_DATA", secret);
        let output = place.finish(&mut command, b"");
        assert!(!format!("{output:?}").contains("horse"), "{output:?}");
        assert!(output.stdout.contains("[REDACTED:"), "{output:?}");
    }
    let mut command = place.command(&["doctor", "--env"]);
    command.env("MY_API_KEY", secret);
    let output = place.finish(&mut command, b"");
    assert!(
        output
            .stdout
            .lines()
            .any(|line| line.split_whitespace().eq("MY_API_KEY the name says that it holds a secret".split(' ')))
            && !output.stdout.contains("horse"),
        "{output:?}"
    );
}

#[cfg(unix)]
#[test]
fn signals_stop_the_script_and_show_what_there_is() {
    use rustix::process::Signal;
    let place = Place::new();
    let code = "print('so far', flush=True)\nimport time\ntime.sleep(60)";
    let started = Instant::now();
    assert_eq!(
        place.signalled(&["run", "-c", code], Signal::INT),
        seen(130, "so far\n", "gloveport: interrupted, 0 tool calls, 0.00 s\n")
    );
    let json = place.signalled(&["run", "-c", code, "--json"], Signal::INT);
    assert_eq!(json.code, 130);
    assert!(
        json.stdout
            .starts_with("{\"status\":\"interrupted\",\"output\":\"so far\\n\\n[execution interrupted — Ctrl-C]\""),
        "{json:?}"
    );
    assert_eq!(place.signalled(&["run", "-c", code], Signal::TERM).code, 143);
    assert!(started.elapsed() < Duration::from_secs(30));
}

#[test]
fn nobody_reads_the_output() {
    let place = Place::new();
    for args in [
        &["run", "-c", "while True: print('x' * 1000)"][..],
        &["run", "--json", "-c", "print('x' * 40000)"],
        &["schema"],
        &["tools", "--stubs"],
        &["completions", "bash"],
    ] {
        let output = place.unread(args);
        assert_eq!((output.code, output.stderr.as_str()), (141, ""), "{args:?}");
    }
}

#[test]
fn what_a_model_is_told() {
    let place = Place::new();
    for (format, name) in [("openai", "/function/name"), ("anthropic", "/name"), ("mcp", "/name")] {
        let output = place.run(&["schema", "--format", format, "--timeout", "10", "--mode", "strict"]);
        let definition: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
        assert_eq!(definition.pointer(name).and_then(|name| name.as_str()), Some("execute_code"), "{output:?}");
        assert!(output.stdout.contains("Limits per script: 10 seconds, 50 tool calls"), "{output:?}");
        for word in ["sandbox", "isolated", "cloud"] {
            assert!(!output.stdout.to_lowercase().contains(word), "{word}: {output:?}");
        }
    }
}

#[test]
fn the_tools_are_listed() {
    let place = Place::new();
    let names = |args: &[&str]| -> Vec<String> {
        let listed = place.run(args).stdout;
        let signatures = listed.lines().filter(|line| !line.starts_with(' '));
        signatures.map(|line| line.split('(').next().unwrap_or_default().to_owned()).collect()
    };
    assert_eq!(names(&["tools"]), ["read_file", "search_files"]);
    assert_eq!(names(&["tools", "--workspace", ".:rw"])[..3], ["read_file", "search_files", "write_file"]);
    assert_eq!(place.run(&["tools", "--tools", "none"]), seen(0, "no tools: scripts can only compute\n", ""));
    let stubs = place.run(&["tools", "--stubs", "--tools", "read_file"]).stdout;
    assert!(stubs.contains("\ndef read_file(path: str, ") && !stubs.contains("def search_files"), "{stubs}");
}

#[test]
fn settings_can_be_shown() {
    let place = Place::new();
    place.file("gloveport.toml", "[web.providers.brave]\napi_key = 'a-key-that-nobody-should-see'\n");
    let shown = place.run(&["config"]).stdout;
    assert!(shown.starts_with(&format!("# defaults, {}\n", place.path("gloveport.toml"))), "{shown}");
    assert!(
        shown.contains("timeout = 300.0\n") && shown.contains("api_key = \"[hidden]\"") && !shown.contains("nobody"),
        "{shown}"
    );
    let schema: serde_json::Value = serde_json::from_str(&place.run(&["config", "--schema"]).stdout).unwrap();
    assert!(schema["properties"]["limits"].is_object());
}

#[test]
fn the_doctor_runs_a_script() {
    let output = Place::new().run(&["doctor"]);
    assert_eq!((output.code, output.stderr.as_str()), (0, ""), "{output:?}");
    assert!(output.stdout.contains("script     works: cpython 3."), "{output:?}");
}

#[test]
fn help_teaches_by_example() {
    let place = Place::new();
    for (args, example) in [
        (&["--help"][..], "gloveport run -c 'print(6 * 7)'"),
        (&["run", "--help"], "124   its time was over"),
        (&["config", "--help"], "GLOVEPORT_LIMITS_TIMEOUT=10"),
    ] {
        let Seen { code, stdout, stderr } = place.run(args);
        assert_eq!((code, stderr.as_str()), (0, ""));
        assert!(stdout.contains(example), "{stdout}");
    }
    assert_eq!(without_times(&place.run(&["--version"]).stdout), format!("gloveport {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn remote_backends_say_what_they_need() {
    let place = Place::new();
    let usage = |args: &[&str], text: &str| {
        assert_eq!(place.run(args), seen(2, "", &format!("error: {text}\n")), "{args:?}");
    };
    usage(&["run", "-c", "1", "--host", "me@host"], "--host is for backend ssh, and this is wasi; add --backend ssh");
    usage(
        &["run", "-c", "1", "--backend", "docker", "--workspace", "."],
        "--workspace names a directory of this machine, which backend docker does not have: scripts work in /workspace of the container; \
         `unsafe_mounts` under [docker] mounts a directory there",
    );
    let setup = |args: &[&str], text: &str| {
        assert_eq!(place.run(args), seen(1, "", &format!("error: {text}\n")), "{args:?}");
    };
    setup(
        &["run", "-c", "1", "--backend", "ssh"],
        "The ssh backend needs a host: --host user@host, or `host` under [ssh] in gloveport.toml.",
    );
    setup(
        &["run", "-c", "1", "--backend", "local"],
        "The local backend isolates nothing: scripts run with your own rights. If you want that, set `unsafe_no_isolation = true` \
         under [local] in gloveport.toml.",
    );
    setup(
        &["run", "-c", "1", "--backend", "ssh", "--host=-oProxyCommand=id"],
        "The ssh host \"-oProxyCommand=id\" is not usable: letters, digits, '.', '_' and '-' make up a host or a user, and it does not \
         begin with '-'.",
    );
}

#[test]
fn a_backend_without_its_engine_is_explained() {
    let place = Place::new();
    let nowhere = "unix:///nowhere/docker.sock";
    let explained = format!(
        "No container engine can be reached at {nowhere}: Socket not found: /nowhere/docker.sock. Start Docker (systemctl start docker) \
         or Podman (systemctl --user start podman.socket), or say where it is with DOCKER_HOST."
    );
    for args in [&["env", "list"][..], &["run", "-c", "1", "--backend", "docker"]] {
        let found = place.finish(place.command(args).env("DOCKER_HOST", nowhere), b"");
        assert_eq!(found, seen(1, "", &format!("error: {explained}\n")), "{args:?}");
    }
    let doctor = place.finish(place.command(&["doctor", "--backend", "docker"]).env("DOCKER_HOST", nowhere), b"");
    assert_eq!(doctor.code, 1);
    assert!(
        doctor.stdout.ends_with(&format!("backend    docker\nengine     failed: {explained}\n")),
        "{}",
        doctor.stdout
    );
}

#[test]
fn a_policy_that_a_backend_can_not_enforce_is_refused() {
    let place = Place::new();
    place.file("gloveport.toml", "backend = 'local'\n[local]\nunsafe_no_isolation = true\n[limits]\nmemory = 64\n");
    assert_eq!(
        place.run(&["run", "-c", "1"]),
        seen(
            2,
            "",
            "error: backend `local` can't enforce `limits.memory`; remove it from the configuration or choose another backend\n"
        )
    );
    place.file("gloveport.toml", "isolation_floor = 'wasm'\n");
    assert_eq!(
        place.run(&["run", "-c", "1", "--backend", "docker"]),
        seen(
            2,
            "",
            "error: backend `docker` reaches isolation level `container`, but `isolation_floor` asks for at least `wasm`\n"
        )
    );
}

#[test]
fn the_local_backend_runs_what_was_approved() {
    let place = Place::new();
    place.file("data.txt", "one\ntwo\n");
    place.file("gloveport.toml", "backend = 'local'\n[local]\nunsafe_no_isolation = true\n");
    let code = "from hermes_tools import read_file\nimport sys\nprint(read_file('data.txt')['total_lines'], open('data.txt').read(3))\nsys.exit(3)";
    let path = std::env::var_os("PATH").unwrap();
    // Where Python comes from pyenv, its shim looks for the installation in the home directory unless it is told.
    let pyenv = std::env::var_os("PYENV_ROOT").unwrap_or_else(|| {
        std::path::Path::new(&std::env::var_os("HOME").unwrap_or_default()).join(".pyenv").into_os_string()
    });
    let run = |mode: &str| {
        let mut command = place.command(&["run", "-c", code]);
        command.env("PATH", &path).env("PYENV_ROOT", &pyenv).env("GLOVEPORT_ENV_PASS", "PYENV_ROOT");
        place.finish(command.env("GLOVEPORT_APPROVAL_MODE", mode), b"")
    };
    assert_eq!(run("ask"), seen(1, "", "error: Approval denied for script: there is nobody to ask.\n"));
    assert_eq!(run("off"), seen(3, "2 one\n", "gloveport: exit code 3, 1 tool call, 0.00 s\n"));
}

#[test]
fn a_figure_that_can_not_be_written_does_not_cost_the_result() {
    let place = Place::new();
    place.file("taken", "");
    // The message that the figures of matplotlib are sent with.
    let code = "import _gloveport\nprint(_gloveport.call(b'\\x07\\x89PNG\\r\\n\\x1a\\n'))";
    let person = place.run(&["run", "-q", "--out", "taken", "-c", code]);
    assert_eq!((person.code, person.stdout.as_str()), (1, "b''\n"));
    assert!(person.stderr.starts_with("error: --out "), "{}", person.stderr);
    let program = place.run(&["run", "--json", "--out", "taken", "-c", code]);
    assert_eq!(program.code, 1);
    assert!(program.stdout.starts_with("{\"status\":\"success\",\"output\":\"b''\\n\""), "{}", program.stdout);
}

/// `.cargo/config.toml` asks rustc for less and the linker for all of it: nothing that the dynamic linker filled in may stay writable.
#[cfg(all(target_os = "linux", target_pointer_width = "64", target_endian = "little"))]
#[test]
fn addresses_are_read_only_once_the_program_has_started() {
    const DYNAMIC: usize = 2;
    const RELRO: usize = 0x6474_e552;
    const FLAGS: usize = 30;
    const BIND_NOW: usize = 8;
    let program = std::fs::read(env!("CARGO_BIN_EXE_gloveport")).unwrap();
    let number = |at: usize, bytes: usize| {
        let mut word = [0; 8];
        word[..bytes].copy_from_slice(&program[at..][..bytes]);
        usize::from_le_bytes(word)
    };
    let (table, count) = (number(32, 8), number(56, 2));
    let segment = |wanted| (0..count).map(|index| table + 56 * index).find(|at| number(*at, 4) == wanted);
    assert!(segment(RELRO).is_some());
    let dynamic = segment(DYNAMIC).unwrap();
    let (from, length) = (number(dynamic + 8, 8), number(dynamic + 32, 8));
    let flags = (from..from + length).step_by(16).find(|at| number(*at, 8) == FLAGS).map(|at| number(at + 8, 8));
    assert_eq!(flags.unwrap_or(0) & BIND_NOW, BIND_NOW);
}
