//! The one door to the host: every tool call of every backend goes through [`Dispatcher`].
//!
//! It decodes, looks up, counts, checks arguments, asks for approval, runs the handler, bounds the answer and writes the call log, so that
//! no backend can forget a step. A backend holds a [`CallPort`], which turns request bytes into answer bytes and never fails.

mod answer;
mod clock;
mod request;
mod toolset;

use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use bytes::Bytes;
use futures_util::FutureExt as _;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

pub use clock::RunClock;
pub use toolset::{EnabledTools, ToolSet, ToolSetError};

use crate::approval::{Approval, Subject};
use crate::output::{Clean, Redactor};
use crate::tool::{ToolContext, ToolError};
use crate::workspace::Workspace;
use answer::{encode, refusal};
use request::ToolRequest;
use toolset::PreparedTool;

/// Refused calls that end a run: this many times the call limit, and never fewer than [`HARD_STOP_FLOOR`].
const HARD_STOP_FACTOR: u64 = 10;
/// A script with a small call limit may still be told "no" this often before its run is ended.
const HARD_STOP_FLOOR: u64 = 1_000;
/// Records kept in the call log. A run with more calls than this has a limit to match, and its counts stay exact.
const CALL_LOG_CAP: usize = 10_000;
/// Characters of the arguments that the call log shows.
const PREVIEW_CHARS: usize = 80;

/// How a call ended, for the call log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CallOutcome {
    /// The handler answered.
    Ok,
    /// The handler failed, or answered with an error.
    Error,
    /// It was never dispatched.
    Refused,
    /// It was dispatched and the run ended before its answer.
    Unknown,
}

/// One line of the call log.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct CallRecord {
    /// The tool's name; of a refused call the text that the script gave.
    pub tool: Clean,
    /// Start of the arguments, cut after redaction of the full text.
    pub arguments: Clean,
    /// Seconds that the call took.
    pub seconds: f64,
    /// How it ended.
    pub outcome: CallOutcome,
}

/// What one run's calls may do and how they are judged.
pub struct DispatchLimits {
    /// Calls that may be dispatched.
    pub max_tool_calls: u64,
    /// Bytes of one request.
    pub request_bytes: usize,
    /// Bytes of one answer.
    pub answer_bytes: usize,
}

/// What the dispatcher needs to know of a run.
pub struct DispatchConfig {
    /// Tools of this run.
    pub tools: EnabledTools,
    /// Bounds.
    pub limits: DispatchLimits,
    /// Cleans whatever goes to the call log.
    pub redactor: Redactor,
    /// Guards calls that need it.
    pub approval: Approval,
    /// The run's time.
    pub clock: Arc<RunClock>,
    /// Identifier of the run.
    pub run_id: Arc<str>,
    /// The environment of the run.
    pub task_id: Arc<str>,
    /// Where file tools act.
    pub workspace: Option<Arc<dyn Workspace>>,
    /// Whether to keep a call log.
    pub log_calls: bool,
}

/// Judges and runs the tool calls of one run.
pub struct Dispatcher {
    config: DispatchConfig,
    made: AtomicU64,
    refused: AtomicU64,
    log: Mutex<Vec<CallRecord>>,
    /// Cancelled when refused calls pass the hard stop.
    overrun: CancellationToken,
    /// Cancelled when the run has ended: tells work that a handler moved elsewhere to stop.
    ended: CancellationToken,
}

/// What was counted and logged, read when the run is over.
#[derive(Debug, Clone, Default)]
pub struct CallTally {
    /// Calls dispatched to a handler.
    pub made: u64,
    /// Calls refused.
    pub refused: u64,
    /// The call log, in order of dispatch.
    pub calls: Vec<CallRecord>,
}

impl Dispatcher {
    /// A dispatcher for one run.
    pub fn new(config: DispatchConfig) -> Arc<Self> {
        Arc::new(Self {
            config,
            made: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            log: Mutex::new(Vec::new()),
            overrun: CancellationToken::new(),
            ended: CancellationToken::new(),
        })
    }

    /// The port that a backend gets.
    pub fn port(self: &Arc<Self>) -> CallPort {
        CallPort { dispatcher: Arc::clone(self) }
    }

    /// Resolves when the script made so many refused calls that its run is to be ended.
    pub async fn overrun(&self) {
        self.overrun.cancelled().await;
    }

    /// Ends the dispatcher's part of the run and reads what it counted. Calls without an answer stay `unknown` in the log.
    pub fn finish(&self) -> CallTally {
        self.ended.cancel();
        CallTally {
            made: self.made.load(Ordering::Relaxed),
            refused: self.refused.load(Ordering::Relaxed),
            calls: std::mem::take(&mut *self.lock_log()),
        }
    }

    async fn call(&self, bytes: Bytes) -> Bytes {
        let request = match request::decode(&bytes, self.config.limits.request_bytes) {
            Ok(request) => request,
            Err(problem) => return self.refuse("", &Map::new(), &problem),
        };
        let (tool, args) = match self.admit(request) {
            Ok(admitted) => admitted,
            Err(refused) => return refused,
        };
        if let Err(denied) = self.approve(&tool, &args).await {
            return self.refuse(&tool.spec.name, &args, &denied);
        }
        // Counted only now, and atomically against other calls under way, so that a refusal never uses up the budget.
        if !self.take_budget() {
            return self.refuse(&tool.spec.name, &args, &self.limit_text());
        }
        self.run(&tool, args).await
    }

    /// Looks up the tool and checks its arguments.
    fn admit(&self, request: ToolRequest) -> Result<(Arc<PreparedTool>, Map<String, Value>), Bytes> {
        let ToolRequest { tool: name, mut args } = request;
        let Some(tool) = self.config.tools.get(&name) else {
            let text = format!(
                "Tool '{name}' is not available in execute_code. Available: {}",
                self.config.tools.names_text()
            );
            return Err(self.refuse(&name, &args, &text));
        };
        if self.made.load(Ordering::Relaxed) >= self.config.limits.max_tool_calls {
            return Err(self.refuse(&name, &args, &self.limit_text()));
        }
        for dropped in tool.spec.dropped_args {
            args.shift_remove(*dropped);
        }
        match tool.check(&args) {
            Ok(()) => Ok((Arc::clone(tool), args)),
            Err(text) => Err(self.refuse(&name, &args, &text)),
        }
    }

    async fn approve(&self, tool: &PreparedTool, args: &Map<String, Value>) -> Result<(), String> {
        let subject = Subject::tool(&tool.spec, args, tool.tool.caution(args));
        if self.config.approval.passes_unasked(&subject) {
            return Ok(());
        }
        // Waiting for a person is not the script's time.
        let _pause = self.config.clock.pause();
        self.config.approval.check(&subject, &self.config.redactor).await
    }

    async fn run(&self, tool: &PreparedTool, args: Map<String, Value>) -> Bytes {
        let started = Instant::now();
        let record = self.open_record(&tool.spec.name, &args);
        let context = ToolContext {
            run_id: Arc::clone(&self.config.run_id),
            task_id: Arc::clone(&self.config.task_id),
            workspace: self.config.workspace.clone(),
            cancelled: self.ended.clone(),
            deadline: self.config.clock.deadline(),
        };
        let outcome = AssertUnwindSafe(tool.tool.call(args, &context)).catch_unwind().await;
        let (answer, outcome) = match outcome {
            Ok(Ok(value)) => {
                let outcome = if tool.tool.is_error(&value) { CallOutcome::Error } else { CallOutcome::Ok };
                (encode(value, self.config.limits.answer_bytes), outcome)
            }
            Ok(Err(ToolError::Arguments(text) | ToolError::Denied(text))) => {
                // The handler never got to act: it is a refusal, and its place in the budget is given back.
                self.made.fetch_sub(1, Ordering::Relaxed);
                self.count_refusal();
                (refusal(&text), CallOutcome::Refused)
            }
            Ok(Err(ToolError::Failed(text))) => (refusal(&text), CallOutcome::Error),
            Err(_panic) => {
                // The panic's own text may hold anything; the script gets to know only that it happened.
                tracing::error!(tool = %tool.spec.name, "tool handler panicked");
                (refusal(&format!("Tool '{}' failed: internal error", tool.spec.name)), CallOutcome::Error)
            }
        };
        tracing::debug!(tool = %tool.spec.name, ?outcome, seconds = started.elapsed().as_secs_f64(), "a tool call ended");
        self.close_record(record, started, outcome);
        answer
    }

    fn refuse(&self, name: &str, args: &Map<String, Value>, text: &str) -> Bytes {
        tracing::debug!(reason = %self.config.redactor.preview(text, PREVIEW_CHARS), "a tool call was refused");
        self.count_refusal();
        let record = self.open_record(name, args);
        self.close_record(record, Instant::now(), CallOutcome::Refused);
        refusal(text)
    }

    fn count_refusal(&self) {
        let refused = self.refused.fetch_add(1, Ordering::Relaxed) + 1;
        let stop = self.config.limits.max_tool_calls.saturating_mul(HARD_STOP_FACTOR).max(HARD_STOP_FLOOR);
        if refused >= stop {
            self.overrun.cancel();
        }
    }

    fn take_budget(&self) -> bool {
        let limit = self.config.limits.max_tool_calls;
        self.made.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |made| (made < limit).then_some(made + 1)).is_ok()
    }

    fn limit_text(&self) -> String {
        let limit = self.config.limits.max_tool_calls;
        format!("Tool call limit reached ({limit}). No more tool calls allowed in this execution.")
    }

    fn open_record(&self, name: &str, args: &Map<String, Value>) -> Option<usize> {
        if !self.config.log_calls {
            return None;
        }
        let record = CallRecord {
            tool: self.config.redactor.preview(name, PREVIEW_CHARS),
            arguments: self.config.redactor.preview(&arguments_text(args), PREVIEW_CHARS),
            seconds: 0.0,
            outcome: CallOutcome::Unknown,
        };
        let mut log = self.lock_log();
        (log.len() < CALL_LOG_CAP).then(|| {
            log.push(record);
            log.len() - 1
        })
    }

    fn close_record(&self, index: Option<usize>, started: Instant, outcome: CallOutcome) {
        let Some(index) = index else { return };
        if let Some(record) = self.lock_log().get_mut(index) {
            record.seconds = (started.elapsed().as_secs_f64() * 1e6).round() / 1e6;
            record.outcome = outcome;
        }
    }

    fn lock_log(&self) -> std::sync::MutexGuard<'_, Vec<CallRecord>> {
        // Nothing that runs under this lock can panic half way, so a poisoned lock still holds a whole log.
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn arguments_text(args: &Map<String, Value>) -> String {
    serde_json::to_string(args).unwrap_or_default()
}

/// The only way from a script to a tool: request bytes in, answer bytes out.
#[derive(Clone)]
pub struct CallPort {
    dispatcher: Arc<Dispatcher>,
}

impl CallPort {
    /// Carries one call. The answer is always one JSON value, `{"error": text}` for a refused or broken request.
    pub async fn call(&self, request: Bytes) -> Bytes {
        self.dispatcher.call(request).await
    }
}
