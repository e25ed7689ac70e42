//! A script over a real project: a function of this repository is renamed in a clone of it.
#![expect(clippy::disallowed_methods, reason = "tests start the binary and make files of their own")]
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

#[allow(dead_code, unreachable_pub, reason = "shared with the other suite, which uses all of it")]
mod support;

use std::path::Path;
use std::process::Command;

use support::{Place, seen};

fn git(directory: &Path, args: &[&str]) -> String {
    let output = Command::new("git").current_dir(directory).args(args).output().expect("git");
    assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_function_is_renamed_across_a_clone_of_this_repository() {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let place = Place::new();
    let clone = place.path("clone");
    git(&repository, &["clone", "--quiet", "--no-hardlinks", ".", &clone]);
    let script = repository.join("examples/rename.py");
    let workspace = format!("{clone}:rw");
    // Not written as one word: this file is part of the clone too.
    let (old, new) = (["make", "private"].join("_"), ["keep", "private"].join("_"));
    let uses = git(Path::new(&clone), &["grep", "-cw", &old, "--", "*.rs"]);
    let uses: Vec<(&str, usize)> =
        uses.lines().map(|line| line.rsplit_once(':').unwrap()).map(|(path, n)| (path, n.parse().unwrap())).collect();
    assert!(uses.len() > 2, "{uses:?}");
    let args = ["run", script.to_str().unwrap(), "-q", "--workspace", &workspace, "--", &old, &new];
    let mut command = place.command(&args);
    // rustfmt is found as the user finds it.
    for name in ["PATH", "HOME", "RUSTUP_HOME", "CARGO_HOME"] {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    command.env("GLOVEPORT_TERMINAL", "host").env("GLOVEPORT_APPROVAL_MODE", "off");
    let ran = place.finish(&mut command, b"");
    let files: String = uses.iter().map(|(path, lines)| format!("{path}: {lines} lines\n")).collect();
    let total: usize = uses.iter().map(|(_, lines)| lines).sum();
    let expected = format!("rustfmt: done\n{files}{old} -> {new}: {total} lines in {} files, 0 left\n", uses.len());
    assert_eq!(ran, seen(0, &expected, ""));
    let clone = Path::new(&clone);
    let changed = git(clone, &["diff", "--name-only"]);
    let expected: Vec<&str> = uses.iter().map(|(path, _)| *path).collect();
    assert_eq!(changed.lines().collect::<Vec<_>>(), expected);
    assert_eq!(git(clone, &["grep", "-cw", &new, "--", "*.rs"]).lines().count(), uses.len());
}
