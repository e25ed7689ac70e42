//! `terminal`: what runs, where, for how long, and what is left of it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use gloveport::config::Terminal;
use gloveport::job::Access;
use gloveport::tool::Tool;
use serde_json::{Value, json};

use crate::support::{Bench, call, context};

fn tool(mode: Terminal) -> Vec<Arc<dyn Tool>> {
    let env = [("PATH", "/usr/local/bin:/usr/bin:/bin"), ("LANG", "C.UTF-8")];
    vec![gloveport_tools::terminal_tool(mode, env.map(|(n, v)| (n.to_owned(), v.to_owned())).to_vec())]
}

async fn run(bench: &Bench, mode: Terminal, args: Value) -> Value {
    call(&tool(mode), "terminal", args, &bench.context()).await
}

#[tokio::test]
async fn a_command_gives_its_output_and_exit_code() {
    let bench = Bench::new();
    std::fs::create_dir(bench.ws("sub")).unwrap();
    let cases = [
        (
            json!({ "command": "echo out; echo err >&2; exit 3" }),
            json!({ "output": "out\nerr\n", "exit_code": 3, "error": null, "ran": "host" }),
        ),
        (
            json!({ "command": "printf '\\033[31mred\\033[0m'" }),
            json!({ "output": "red", "exit_code": 0, "error": null, "ran": "host" }),
        ),
        (
            json!({ "command": "basename \"$PWD\"", "workdir": "sub" }),
            json!({ "output": "sub\n", "exit_code": 0, "error": null, "ran": "host" }),
        ),
        (json!({ "command": "kill -9 $$" }), json!({ "output": "", "exit_code": 137, "error": null, "ran": "host" })),
        (json!({ "command": "cat" }), json!({ "output": "", "exit_code": 0, "error": null, "ran": "host" })),
    ];
    for (args, expected) in cases {
        assert_eq!(run(&bench, Terminal::Host, args.clone()).await, expected, "{args}");
    }
    let env = run(&bench, Terminal::Host, json!({ "command": "env | cut -d= -f1 | sort" })).await;
    assert_eq!(env["output"], "GLOVEPORT_COMMAND\nLANG\nPATH\nPWD\n", "nothing of this process's environment");
}

#[tokio::test]
async fn each_refusal_has_its_text() {
    let bench = Bench::new();
    bench.put("file", "x");
    let refused = |text: &str| json!({ "output": "", "exit_code": -1, "error": text });
    let cases = [
        (
            Terminal::Off,
            json!({ "command": "ls" }),
            refused(
                "Command refused: the terminal is off, because commands would run on the host. Switch it on with terminal = \"confined\" or terminal = \"host\".",
            ),
        ),
        (
            Terminal::Host,
            json!({ "command": "rm -rf /" }),
            refused("Command refused: it removes a root, home or system directory. No approval can allow this."),
        ),
        (
            Terminal::Host,
            json!({ "command": "ls", "workdir": "/etc" }),
            refused("Command refused: workdir '/etc' is outside the workspace"),
        ),
        (
            Terminal::Host,
            json!({ "command": "ls", "workdir": "nope" }),
            refused("Command refused: workdir 'nope' does not exist"),
        ),
        (
            Terminal::Host,
            json!({ "command": "ls", "workdir": "file" }),
            refused("Command refused: workdir 'file' is not a directory"),
        ),
        (Terminal::Host, json!({ "command": " " }), json!({ "error": "argument 'command': must not be empty" })),
        (
            Terminal::Host,
            json!({ "command": "a\0b" }),
            json!({ "error": "argument 'command': must not contain a NUL character" }),
        ),
        (
            Terminal::Host,
            json!({ "command": "ls", "timeout": 0 }),
            json!({ "error": "argument 'timeout': must be a positive number of seconds" }),
        ),
    ];
    for (mode, args, expected) in cases {
        assert_eq!(run(&bench, mode, args.clone()).await, expected, "{args}");
    }
}

#[tokio::test]
async fn a_late_command_is_killed_with_everything_it_started() {
    let bench = Bench::new();
    let began = Instant::now();
    let late = run(
        &bench,
        Terminal::Host,
        json!({ "command": "echo begun; sleep 321.5 & setsid sleep 321.5 & sleep 321.5", "timeout": 0.3 }),
    )
    .await;
    assert_eq!(
        late,
        json!({ "output": "begun\n[Command timed out after 0.3s]", "exit_code": 124, "error": null, "ran": "host" })
    );
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    assert_eq!(alive("321.5"), 0);
    let began = Instant::now();
    let left =
        run(&bench, Terminal::Host, json!({ "command": "(setsid sleep 322.5 &) ; sleep 322.5 & echo done" })).await;
    assert_eq!(left["output"], "done\n");
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    assert_eq!(alive("322.5"), 0);
}

#[tokio::test]
async fn dropping_the_call_kills_the_command() {
    let bench = Bench::new();
    let waiting = run(&bench, Terminal::Host, json!({ "command": "sleep 323.5" }));
    assert!(tokio::time::timeout(Duration::from_millis(300), waiting).await.is_err());
    for _ in 0..100 {
        if alive("323.5") == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("the command is still alive");
}

/// Processes with this argument.
fn alive(argument: &str) -> usize {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let has = |line: Vec<u8>| line.split(|&b| b == 0).any(|word| word == argument.as_bytes());
    processes.filter(|p| std::fs::read(p.path().join("cmdline")).is_ok_and(has)).count()
}

#[tokio::test]
async fn output_is_bounded_while_it_is_produced() {
    let bench = Bench::new();
    let flood = run(&bench, Terminal::Host, json!({ "command": "head -c 300000000 /dev/zero | tr '\\0' x" })).await;
    let output = flood["output"].as_str().unwrap();
    assert!(output.contains("\n\n... [OUTPUT TRUNCATED - 299,950,000 chars omitted out of 300,000,000 total] ...\n\n"));
    assert_eq!(
        output.len(),
        50_000 + "\n\n... [OUTPUT TRUNCATED - 299,950,000 chars omitted out of 300,000,000 total] ...\n\n".len()
    );
}

/// Whether this kernel can confine. Without it the answer has to be a refusal.
async fn confined(bench: &Bench, command: &str) -> Option<Value> {
    let answer = run(bench, Terminal::Confined, json!({ "command": command })).await;
    if answer["exit_code"] == -1 {
        assert!(
            answer["error"].as_str().unwrap().starts_with("Command refused: this kernel can't confine commands"),
            "{answer}"
        );
        return None;
    }
    Some(answer)
}

#[tokio::test]
async fn a_confined_command_stays_in_the_workspace() {
    let bench = Bench::new();
    let secret = bench.outside("secret.txt");
    let Some(inside) = confined(&bench, "echo hi > made && cat made && mkdir d && mv made d/m && ls d").await else {
        return;
    };
    assert_eq!(inside, json!({ "output": "hi\nm\n", "exit_code": 0, "error": null, "ran": "confined" }));
    let refused = [
        format!("cat {}", secret.display()),
        format!("echo x > {}", secret.display()),
        format!("echo x > {}", bench.outside("new").display()),
        format!("ln -s {} l && cat l", secret.display()),
        format!("ln {} h && cat h", secret.display()),
        format!("mv d/m {}", bench.outside("m").display()),
        "cat /etc/hostname".to_owned(),
        "ls /proc/1/root/".to_owned(),
        "cat /proc/$PPID/environ".to_owned(),
        "echo x > /tmp/gloveport-confined-test".to_owned(),
        "exec 3<>/dev/tcp/127.0.0.1/1".to_owned(),
        "unshare -r true".to_owned(),
    ];
    for command in refused {
        let answer = confined(&bench, &command).await.unwrap();
        assert_ne!(answer["exit_code"], 0, "{command}: {answer}");
    }
    assert_eq!(std::fs::read_to_string(&secret).unwrap(), "outside\n");
    assert!(!bench.outside("new").exists() && !bench.outside("m").exists());
    let scratch = confined(&bench, "touch \"$TMPDIR/x\" && echo $TMPDIR").await.unwrap();
    assert_eq!(scratch["exit_code"], 0, "{scratch}");
    assert!(
        !std::path::Path::new(scratch["output"].as_str().unwrap().trim()).exists(),
        "the private directory is gone"
    );
    let python = "python3 -c 'import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM)' 2>&1; python3 -c 'import socket; socket.socket(socket.AF_UNIX)' 2>&1";
    let sockets = confined(&bench, python).await.unwrap();
    assert_ne!(sockets["exit_code"], 0, "{sockets}");
}

#[tokio::test]
async fn a_confined_command_of_a_read_only_workspace_writes_nothing() {
    let bench = Bench::with(Access::ReadOnly);
    bench.put("f", "x\n");
    let Some(read) = confined(&bench, "cat f").await else { return };
    assert_eq!(read["output"], "x\n");
    assert_ne!(confined(&bench, "echo y > f").await.unwrap()["exit_code"], 0);
    assert_ne!(confined(&bench, "touch g").await.unwrap()["exit_code"], 0);
    assert_eq!(bench.get("f"), "x\n");
}

#[test]
fn dangerous_commands_are_asked_about_and_refused_ones_are_not() {
    use gloveport::tool::Caution;
    let terminal = &tool(Terminal::Host)[0];
    let caution = |command: &str| terminal.caution(json!({ "command": command }).as_object().unwrap());
    assert_eq!(caution("rm -rf ./build"), Caution::Ask("removes directories with everything in them"));
    assert_eq!(caution("grep -r rm ."), Caution::None);
    assert_eq!(caution("rm -rf /"), Caution::Refused);
    let spec = terminal.spec();
    assert_eq!(spec.dropped_args, ["background", "pty", "notify_on_complete", "watch_patterns"]);
}

#[tokio::test]
async fn without_a_workspace_nothing_runs() {
    let answer = call(&tool(Terminal::Host), "terminal", json!({ "command": "ls" }), &context(None)).await;
    assert_eq!(answer["error"], "No workspace is granted to this run, so there are no files to act on.");
}
