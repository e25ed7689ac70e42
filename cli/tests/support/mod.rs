//! Starts the binary in a directory of its own, with an environment of its own.

use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

/// What a user saw. Times are `0.00`: they differ from run to run.
#[derive(Debug, PartialEq)]
pub(crate) struct Seen {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

pub(crate) fn seen(code: i32, stdout: &str, stderr: &str) -> Seen {
    Seen { code, stdout: stdout.to_owned(), stderr: stderr.to_owned() }
}

/// `0.12 s` and `"duration_seconds":0.12` with their digits set to zero.
pub(crate) fn without_times(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(|c: char| c.is_ascii_digit()) {
        let (before, from_digit) = rest.split_at(at);
        let end = from_digit.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(from_digit.len());
        let (number, after) = from_digit.split_at(end);
        let is_time = before.ends_with("\"duration_seconds\":") || number.contains('.') && after.starts_with(" s");
        out.push_str(before);
        out.push_str(if is_time { "0.00" } else { number });
        rest = after;
    }
    out + rest
}

/// A working directory and a home, both empty.
pub(crate) struct Place {
    directory: tempfile::TempDir,
    home: tempfile::TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap(), home: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> String {
        // What the binary reports is where it is, links resolved.
        self.directory.path().canonicalize().unwrap().join(name).display().to_string()
    }

    pub(crate) fn file(&self, name: &str, text: &str) {
        self.bytes(name, text.as_bytes());
    }

    pub(crate) fn bytes(&self, name: &str, bytes: &[u8]) {
        std::fs::write(self.directory.path().join(name), bytes).unwrap();
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gloveport"));
        command.args(args).current_dir(self.directory.path()).env_clear().stdin(Stdio::null());
        // The guest image is unpacked once for all tests.
        let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache");
        command.env("HOME", self.home.path()).env("XDG_CACHE_HOME", cache).env("LANG", "C.UTF-8");
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Seen {
        self.finish(&mut self.command(args), b"")
    }

    pub(crate) fn finish(&self, command: &mut Command, stdin: &[u8]) -> Seen {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        if let Some(mut pipe) = child.stdin.take() {
            pipe.write_all(stdin).unwrap();
        }
        let output = child.wait_with_output().unwrap();
        let text = |bytes: &[u8]| without_times(std::str::from_utf8(bytes).unwrap());
        Seen { code: output.status.code().unwrap(), stdout: text(&output.stdout), stderr: text(&output.stderr) }
    }

    /// Sends a signal once the script runs.
    #[cfg(unix)]
    pub(crate) fn signalled(&self, args: &[&str], signal: rustix::process::Signal) -> Seen {
        let mut child = self.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // Long enough for the script to print and fall asleep, also on a busy machine.
        std::thread::sleep(std::time::Duration::from_secs(2));
        let pid = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(pid, signal).unwrap();
        let mut stdout = String::new();
        child.stdout.take().unwrap().read_to_string(&mut stdout).unwrap();
        let output = child.wait_with_output().unwrap();
        let stderr = without_times(&String::from_utf8(output.stderr).unwrap());
        Seen { code: output.status.code().unwrap(), stdout: without_times(&stdout), stderr }
    }

    /// Closes the reading end of stdout before anything is written.
    pub(crate) fn unread(&self, args: &[&str]) -> Seen {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let child = self.command(args).stdout(writer).stderr(Stdio::piped()).spawn().unwrap();
        let output = child.wait_with_output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        Seen { code: output.status.code().unwrap(), stdout: String::new(), stderr }
    }
}
