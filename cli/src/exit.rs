//! Exit codes, in one table that `--help` repeats.

use std::process::ExitCode;

use gloveport::result::{Kind, RunResult, Status};

/// How the process ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// 0.
    Success,
    /// 1: the script could not be run, or failed without a code of its own.
    Failure,
    /// 2: what was typed or configured can't be used; nothing ran.
    Usage,
    /// The script's own code.
    Script(u8),
    /// 124, as `timeout(1)` has it.
    TimedOut,
    /// 130: Ctrl-C.
    Interrupted,
    /// 128 + the number of the signal that asked the process to end.
    Signal(u8),
    /// 141, as a process has that dies of SIGPIPE: nobody reads the output any more.
    BrokenPipe,
}

impl Exit {
    /// The exit of a run.
    pub(crate) fn of(result: &RunResult) -> Self {
        match result.status {
            Status::Success => Self::Success,
            Status::Timeout => Self::TimedOut,
            Status::Interrupted => Self::Interrupted,
            Status::Error => match (result.exit_code, result.kind) {
                (Some(code), _) => Self::of_script(code),
                // A request that was refused before anything started is a mistake in what was typed.
                (None, Some(Kind::Script | Kind::Protocol)) if result.output.is_none() => Self::Usage,
                (None, _) => Self::Failure,
            },
        }
    }

    /// A process can only give the low byte; a failure never looks like success.
    fn of_script(code: i32) -> Self {
        match u8::try_from(code & 0xff) {
            Ok(0) | Err(_) => Self::Failure,
            Ok(code) => Self::Script(code),
        }
    }

    fn code(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Failure => 1,
            Self::Usage => 2,
            Self::Script(code) => code,
            Self::TimedOut => 124,
            Self::Interrupted => 130,
            Self::Signal(number) => 128_u8.saturating_add(number),
            Self::BrokenPipe => 141,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_script_never_exits_with_zero() {
        for (code, exit) in [(3, 3), (255, 255), (256, 1), (-1, 255), (512, 1), (i32::MIN, 1), (257, 1)] {
            assert_eq!(Exit::of_script(code).code(), exit, "{code}");
        }
    }
}
