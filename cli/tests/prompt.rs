//! The approval prompt on a real terminal, which `script` (util-linux) makes.
#![cfg(target_os = "linux")]
#![expect(clippy::disallowed_methods, reason = "tests start the binary and make files of their own")]
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

#[allow(dead_code, unreachable_pub, reason = "shared with the other suite, which uses all of it")]
mod support;

use std::io::{Read as _, Write as _};
use std::process::Stdio;

use support::Place;

/// Runs the binary on a terminal and presses one of the keys at each question. Gives what the terminal showed.
fn at_a_terminal(place: &Place, args: &[&str], keys: &str) -> String {
    let binary = place.command(args);
    let words: Vec<String> = std::iter::once(binary.get_program())
        .chain(binary.get_args())
        .map(|word| format!("'{}'", word.to_str().unwrap().replace('\'', r"'\''")))
        .collect();
    let mut command = std::process::Command::new("script");
    command.args(["--quiet", "--return", "--command", &words.join(" "), "/dev/null"]);
    command.current_dir(binary.get_current_dir().unwrap()).env_clear();
    for (name, value) in binary.get_envs() {
        command.env(name, value.unwrap());
    }
    command.env("PATH", "/usr/bin:/bin").env("SHELL", "/bin/sh").env("GLOVEPORT_TERMINAL", "host");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("`script` of util-linux");
    let (mut stdin, mut stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let (mut shown, mut buffer) = (String::new(), [0; 4096]);
    let mut keys = keys.bytes();
    let mut asked = 0;
    loop {
        let length = stdout.read(&mut buffer).unwrap();
        if length == 0 {
            break;
        }
        shown.push_str(&String::from_utf8_lossy(&buffer[..length]));
        while shown.matches("[n] no > ").count() > asked {
            asked += 1;
            // Keys that come before the question is read don't count.
            std::thread::sleep(std::time::Duration::from_millis(500));
            let key = keys.next().expect("another question");
            stdin.write_all(&[key]).unwrap();
            if key == b'x' {
                // No answer: the question stays open.
                stdin.write_all(&[keys.next().unwrap()]).unwrap();
            }
        }
    }
    drop(stdin);
    child.wait().unwrap();
    shown.replace("\r\n", "\n").replace('\r', "")
}

const SCRIPT: &str =
    "from hermes_tools import terminal\nfor word in ('one', 'one', 'two'):\n    print(terminal('echo ' + word))";

fn question(word: &str) -> String {
    format!(
        "\napproval needed for terminal: the tool runs code outside the sealed guest\n\n  | echo {word}\n\n\
         [y] once  [s] this session  [a] always  [n] no > "
    )
}

#[test]
fn one_key_answers_a_question() {
    let place = Place::new();
    let args = ["run", "-q", "--workspace", ".:rw", "-c", SCRIPT];
    let (one, two) = (question("one"), question("two"));
    let ran = "{'output': 'one\\n', 'exit_code': 0, 'error': None, 'ran': 'host'}\n";
    let refused = "{'error': 'Approval denied for terminal: the user said no.'}\n";
    // Once is for one call; the same command asks again.
    assert_eq!(
        at_a_terminal(&place, &args, "ysn"),
        format!("{one}yes\n{ran}{one}yes, for this session\n{ran}{two}no\n{refused}")
    );
    // A session's answer ends with the process, and is for that command alone.
    assert_eq!(at_a_terminal(&place, &args, "xan"), format!("{one}yes, always\n{ran}{ran}{two}no\n{refused}"));
    assert_eq!(at_a_terminal(&place, &args, "n"), format!("{ran}{ran}{two}no\n{refused}"));
}
