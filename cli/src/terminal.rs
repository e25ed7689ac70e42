//! What is written where: data on stdout, everything else on stderr. The only place that prints.

use std::io::{self, IsTerminal as _, Write as _};

use gloveport::output::{Clean, Redactor, strip};

use crate::Host;
use crate::complaint::Complaint;
use crate::exit::Exit;
use crate::source::described;

/// Prints a complaint and gives its exit code.
pub(crate) fn complain(complaint: &Complaint) -> Exit {
    note("error", &complaint.text());
    complaint.exit
}

/// Foreign text that may be shown: names of files and keys can hold anything.
pub(crate) fn clean(text: &str) -> Clean {
    match Redactor::new() {
        Ok(redactor) => redactor.clean(text),
        Err(_) => Clean::from_static("(a text that can't be shown: redaction does not start)"),
    }
}

/// One line on stderr: `warning: text`. If nobody reads it, nothing is lost.
pub(crate) fn note(label: &str, text: &Clean) {
    let _ = writeln!(io::stderr(), "{label}: {}", text.as_str().trim_end());
}

/// Begins a new line on stderr where the screen stands in the middle of one.
pub(crate) fn end_line(mid_line: bool) {
    if mid_line {
        let _ = writeln!(io::stderr());
    }
}

/// Prints data on stdout. A closed pipe ends the command quietly.
pub(crate) fn print(text: &str) -> Exit {
    let mut stdout = io::stdout().lock();
    let written = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
    match written {
        Ok(()) => Exit::Success,
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Exit::BrokenPipe,
        Err(error) => unwritable(&error),
    }
}

/// Standard output takes nothing, for a reason that is not its reader's: a full disk, mostly.
pub(crate) fn unwritable(error: &io::Error) -> Exit {
    note("error", &clean(&format!("can't write to standard output: {}", described(error))));
    Exit::Failure
}

/// The last line on stderr, dim where that is wanted.
pub(crate) fn summary(text: &str, host: &Host) {
    let _ = if dims(host, io::stderr().is_terminal()) {
        writeln!(io::stderr(), "\x1b[2m{text}\x1b[0m")
    } else {
        writeln!(io::stderr(), "{text}")
    };
}

/// Foreign text for a line of a list: without terminal control, on one line.
pub(crate) fn one_line(text: &str) -> String {
    strip(text).split_whitespace().collect::<Vec<_>>().join(" ")
}

fn dims(host: &Host, is_terminal: bool) -> bool {
    is_terminal && host.variable("NO_COLOR").is_none() && host.variable("TERM") != Some("dumb")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dims_only_where_it_is_wanted() {
        let host = |variables: &[(&str, &str)]| Host {
            environment: variables.iter().map(|(name, value)| (name.into(), value.into())).collect(),
            cwd: "/".into(),
        };
        assert!(dims(&host(&[("TERM", "xterm")]), true));
        assert!(dims(&host(&[("NO_COLOR", "")]), true), "an empty NO_COLOR counts as not set (no-color.org)");
        assert!(!dims(&host(&[("NO_COLOR", "1")]), true));
        assert!(!dims(&host(&[("TERM", "dumb")]), true));
        assert!(!dims(&host(&[]), false));
    }
}
