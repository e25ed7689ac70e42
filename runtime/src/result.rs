//! What a run returns: a typed result, and the JSON of the contract.
//!
//! A [`RunResult`] is put together from [`Clean`] text only, so nothing reaches a model, a log or a person that did not go through the output pipeline.
//! Its truth is in its fields: whatever a script prints is just text in `output`.

mod json;

use std::time::Duration;

use bytes::Bytes;
use serde::Serialize;

use crate::backend::{ExitCause, ImageUsed, Isolation};
use crate::dispatch::{CallRecord, CallTally};
use crate::output::{Captured, Clean};

/// How a run ended, in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// The script ended by itself with exit code 0.
    Success,
    /// It failed, or never ran.
    Error,
    /// Its time was over.
    Timeout,
    /// The caller stopped it.
    Interrupted,
}

/// Why a run did not succeed. No script can forge it: it never comes from text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Kind {
    /// The script itself failed, or its source can't be run.
    Script,
    /// It ran into its memory limit.
    Memory,
    /// It overran its stack.
    Stack,
    /// It made too many refused tool calls.
    ToolLimit,
    /// A request or a tool call had not the agreed form.
    Protocol,
    /// Somebody or a rule said no.
    Denied,
    /// The backend could not start it.
    BackendSetup,
    /// The backend went away while it ran.
    BackendLost,
    /// A fault of ours.
    Internal,
    /// Its time was over.
    Deadline,
    /// The caller stopped it.
    Interrupted,
}

/// The result of one run. [`RunResult::to_json`] gives the contract's object.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct RunResult {
    /// How it ended.
    pub status: Status,
    /// Why it did not succeed.
    pub kind: Option<Kind>,
    /// What goes back to the model; `None` when the script never started.
    pub output: Option<Clean>,
    /// One text about what went wrong.
    pub error: Option<Clean>,
    /// Exit code of a script that ended by itself. Any 32-bit value.
    pub exit_code: Option<i32>,
    /// Tool calls dispatched to a handler.
    pub tool_calls_made: u64,
    /// Tool calls refused.
    pub refused_calls: u64,
    /// The call log, if it was asked for.
    pub tool_calls: Option<Vec<CallRecord>>,
    /// Wall-clock time of the run.
    pub duration: Duration,
    /// Of that, the time spent waiting for people's approval.
    pub approval_wait: Duration,
    /// Standard output, cleaned and cut, with its counts; `None` when the script never started.
    pub stdout: Option<Captured>,
    /// The same of standard error, also where `output` does not show it.
    pub stderr: Option<Captured>,
    /// What ran it.
    pub backend: &'static str,
    /// The isolation level reached.
    pub isolation: Isolation,
    /// The image that ran it, where the backend has images and the script started.
    pub image: Option<ImageUsed>,
    /// The figures that were open at the end, as PNG, if they were asked for. They are not redacted: nobody can tell what is in a picture.
    pub figures: Vec<Bytes>,
    /// One line that helps a model not to repeat a common mistake, if it was asked for and there is one.
    pub hint: Option<Clean>,
    /// File with the whole output, cleaned, of at most 5 MB, if that is configured and `output` was cut.
    pub spill_path: Option<Clean>,
    /// What was ignored or replaced in the request.
    pub warnings: Vec<Clean>,
    /// Nothing but the error is in the JSON: there was no code at all.
    pub(crate) bare: bool,
}

/// How a started run ended, before it is put into words.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Ending {
    /// The backend says.
    Exit(ExitCause),
    /// The run's time was over.
    TimedOut(Duration),
    /// The caller stopped it.
    Interrupted(Clean),
    /// The backend failed while the script ran.
    Failed(Kind, Clean),
}

/// What a started run left behind.
pub(crate) struct Remains {
    pub(crate) ending: Ending,
    pub(crate) stdout: Captured,
    pub(crate) stderr: Captured,
    pub(crate) tally: CallTally,
    pub(crate) list_calls: bool,
    pub(crate) duration: Duration,
    pub(crate) approval_wait: Duration,
    pub(crate) hint: Option<Clean>,
    pub(crate) spill_path: Option<Clean>,
    pub(crate) warnings: Vec<Clean>,
    pub(crate) image: Option<ImageUsed>,
    pub(crate) figures: Vec<Bytes>,
}

impl RunResult {
    /// A run that never started.
    pub(crate) fn not_started(backend: &'static str, isolation: Isolation, kind: Kind, error: Clean) -> Self {
        Self {
            status: Status::Error,
            kind: Some(kind),
            output: None,
            error: Some(error),
            exit_code: None,
            tool_calls_made: 0,
            refused_calls: 0,
            tool_calls: None,
            duration: Duration::ZERO,
            approval_wait: Duration::ZERO,
            stdout: None,
            stderr: None,
            backend,
            isolation,
            image: None,
            figures: Vec::new(),
            hint: None,
            spill_path: None,
            warnings: Vec::new(),
            bare: false,
        }
    }

    /// The caller stopped it before it started.
    pub(crate) fn interrupted_early(backend: &'static str, isolation: Isolation, reason: &Clean) -> Self {
        Self {
            status: Status::Interrupted,
            kind: Some(Kind::Interrupted),
            output: Some(Clean::format("\n[execution interrupted — {}]", &[reason])),
            error: None,
            ..Self::not_started(backend, isolation, Kind::Interrupted, reason.clone())
        }
    }

    /// There was no code.
    pub(crate) fn no_code(backend: &'static str, isolation: Isolation) -> Self {
        let error = Clean::from_static("No code provided.");
        Self { bare: true, ..Self::not_started(backend, isolation, Kind::Script, error) }
    }

    /// A run that started, put into the contract's words.
    pub(crate) fn assemble(backend: &'static str, isolation: Isolation, remains: Remains) -> Self {
        let Remains {
            ending,
            stdout,
            stderr,
            tally,
            list_calls,
            duration,
            approval_wait,
            hint,
            spill_path,
            warnings,
            image,
            figures,
        } = remains;
        let Worded { status, kind, exit_code, output, error } = word(&ending, &stdout.text, &stderr.text);
        Self {
            status,
            kind,
            output: Some(output),
            error,
            exit_code,
            tool_calls_made: tally.made,
            refused_calls: tally.refused,
            tool_calls: list_calls.then_some(tally.calls),
            duration,
            approval_wait,
            stdout: Some(stdout),
            stderr: Some(stderr),
            backend,
            isolation,
            image,
            figures,
            hint,
            spill_path,
            warnings,
            bare: false,
        }
    }

    /// Whether anything of the output was left out.
    pub fn truncated(&self) -> bool {
        [&self.stdout, &self.stderr].into_iter().flatten().any(|captured| captured.truncated)
    }
}

struct Worded {
    status: Status,
    kind: Option<Kind>,
    exit_code: Option<i32>,
    output: Clean,
    error: Option<Clean>,
}

fn word(ending: &Ending, stdout: &Clean, stderr: &Clean) -> Worded {
    match ending {
        Ending::Exit(ExitCause::Code(0)) => {
            Worded { status: Status::Success, kind: None, exit_code: Some(0), output: stdout.clone(), error: None }
        }
        Ending::Exit(ExitCause::Code(code)) => exited(*code, Kind::Script, stdout, stderr),
        Ending::Exit(ExitCause::Memory(code)) => exited(*code, Kind::Memory, stdout, stderr),
        Ending::Exit(ExitCause::Stack) => {
            let error = Clean::from_static("The script's recursion overran its stack.");
            stopped(Kind::Stack, error, stdout, stderr)
        }
        Ending::Exit(ExitCause::ToolLimit) => {
            let error = Clean::from_static("The script went on making tool calls after too many of them were refused.");
            stopped(Kind::ToolLimit, error, stdout, stderr)
        }
        Ending::Exit(ExitCause::Protocol) => {
            let error = Clean::from_static("The script broke the protocol of tool calls.");
            stopped(Kind::Protocol, error, stdout, stderr)
        }
        Ending::Failed(kind, error) => stopped(*kind, error.clone(), stdout, stderr),
        Ending::TimedOut(limit) => timed_out(*limit, stdout),
        Ending::Interrupted(reason) => Worded {
            status: Status::Interrupted,
            kind: Some(Kind::Interrupted),
            exit_code: None,
            output: Clean::format("{}\n[execution interrupted — {}]", &[stdout, reason]),
            error: None,
        },
    }
}

fn exited(code: i32, kind: Kind, stdout: &Clean, stderr: &Clean) -> Worded {
    let error = if stderr.is_empty() {
        Clean::format("Script exited with code {}", &[&Clean::number(code)])
    } else {
        stderr.clone()
    };
    Worded {
        status: Status::Error,
        kind: Some(kind),
        exit_code: Some(code),
        output: with_stderr(stdout, stderr),
        error: Some(error),
    }
}

fn stopped(kind: Kind, error: Clean, stdout: &Clean, stderr: &Clean) -> Worded {
    let output = with_stderr(stdout, stderr);
    Worded { status: Status::Error, kind: Some(kind), exit_code: None, output, error: Some(error) }
}

fn with_stderr(stdout: &Clean, stderr: &Clean) -> Clean {
    if stderr.is_empty() { stdout.clone() } else { Clean::format("{}\n--- stderr ---\n{}", &[stdout, stderr]) }
}

fn timed_out(limit: Duration, stdout: &Clean) -> Worded {
    let error = Clean::format("Script timed out after {}s and was killed.", &[&seconds(limit)]);
    let output = if stdout.is_empty() {
        Clean::format("⏰ {}", &[&error])
    } else {
        Clean::format("{}\n\n⏰ {}", &[stdout, &error])
    };
    Worded { status: Status::Timeout, kind: Some(Kind::Deadline), exit_code: None, output, error: Some(error) }
}

/// `300`, `0.5`: no zeros that say nothing.
fn seconds(limit: Duration) -> Clean {
    let mut nanos = limit.subsec_nanos();
    let mut places = if nanos == 0 { 0 } else { 9 };
    while nanos != 0 && nanos.is_multiple_of(10) {
        nanos /= 10;
        places -= 1;
    }
    Clean::decimal(limit.as_secs_f64(), places)
}

#[cfg(test)]
mod tests;
