//! `terminal`: a command of the shell, in the workspace of the run.

mod normal;
mod output;
mod tables;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use gloveport::config::Terminal as TerminalMode;
use gloveport::tool::{Caution, Effect, Tool, ToolContext, ToolError, ToolSpec, parse_args};
use gloveport::workspace::{Command, WorkspaceError};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::answer::{no_nul, workspace};
use tables::{Judgment, judge};

/// Seconds for a command that asks for no time of its own.
const DEFAULT_TIMEOUT: f64 = 180.0;
/// Seconds for any command.
const MAX_TIMEOUT: f64 = 600.0;
/// Bytes of output that are kept while it is produced, twice what is shown: stripping makes it shorter.
const KEPT: (usize, usize) = (40_000, 60_000);
/// The exit code of a command that was out of time, as `timeout(1)` gives it.
const TIMED_OUT: i32 = 124;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TerminalArgs {
    /// Command for sh -c.
    command: String,
    /// Seconds until the command is killed, 180 by default, 600 at most.
    #[serde(default)]
    timeout: Option<f64>,
    /// Directory to run in, inside the workspace.
    #[serde(default)]
    workdir: Option<String>,
}

/// The tool.
pub(crate) struct Terminal {
    mode: TerminalMode,
    env: Vec<(String, String)>,
}

impl Terminal {
    /// `mode` says what happens to commands that would run on this machine; `env` is their whole environment, already scrubbed.
    pub(crate) fn tool(mode: TerminalMode, env: Vec<(String, String)>) -> Arc<dyn Tool> {
        Arc::new(Self { mode, env })
    }
}

#[async_trait]
impl Tool for Terminal {
    fn spec(&self) -> ToolSpec {
        let text = "Runs a shell command and waits for its end. Returns {output, exit_code, error}; output is stdout and stderr together. Exit code \
            124 means that its time was over.";
        ToolSpec::new::<TerminalArgs>("terminal", text).effect(Effect::Execute).dropped_args(&[
            "background",
            "pty",
            "notify_on_complete",
            "watch_patterns",
        ])
    }

    fn caution(&self, args: &Map<String, Value>) -> Caution {
        match args.get("command").and_then(Value::as_str).map(judge) {
            Some(Judgment::Dangerous(what)) => Caution::Ask(what),
            // Nobody needs to be asked about what is not going to run.
            Some(Judgment::Refused(_)) => Caution::Refused,
            Some(Judgment::Usual) | None => Caution::None,
        }
    }

    async fn call(&self, args: Map<String, Value>, cx: &ToolContext) -> Result<Value, ToolError> {
        let args: TerminalArgs = parse_args(args)?;
        check(&args)?;
        if let Judgment::Refused(what) = judge(&args.command) {
            return Ok(refused(&format!("Command refused: it {what}. No approval can allow this.")));
        }
        let workspace = workspace(cx)?;
        let here = workspace.open_host_dir(".").is_some();
        if here && self.mode == TerminalMode::Off {
            let text = "Command refused: the terminal is off, because commands would run on the host. Switch it on with \
                terminal = \"confined\" or terminal = \"host\".";
            return Ok(refused(text));
        }
        let confined = here && self.mode == TerminalMode::Confined;
        let timeout = Duration::from_secs_f64(args.timeout.unwrap_or(DEFAULT_TIMEOUT).min(MAX_TIMEOUT));
        let workdir = args.workdir.clone();
        let command = Command {
            command: args.command,
            workdir: args.workdir,
            timeout,
            env: self.env.clone(),
            keep: KEPT,
            confined,
        };
        let ran = match (here, confined) {
            (_, true) => "confined",
            (true, false) => "host",
            (false, false) => "workspace",
        };
        Ok(match workspace.run(command).await {
            Ok(done) => answer(&done, timeout, ran),
            Err(error) => refused(&explain(workdir.as_deref(), &error)),
        })
    }
}

fn check(args: &TerminalArgs) -> Result<(), ToolError> {
    no_nul("command", &args.command)?;
    if args.command.trim().is_empty() {
        return Err(ToolError::Arguments("argument 'command': must not be empty".into()));
    }
    match args.timeout {
        Some(seconds) if !(seconds.is_finite() && seconds > 0.0) => {
            Err(ToolError::Arguments("argument 'timeout': must be a positive number of seconds".into()))
        }
        _ => args.workdir.as_deref().map_or(Ok(()), |workdir| no_nul("workdir", workdir)),
    }
}

fn answer(done: &gloveport::workspace::CommandOutput, timeout: Duration, ran: &str) -> Value {
    let mut output = output::render(done);
    if done.exit_code.is_none() {
        if !output.is_empty() && !output.ends_with('\n') {
            output.push('\n');
        }
        output.push_str(&format!("[Command timed out after {}s]", timeout.as_secs_f64()));
    }
    json!({ "output": output, "exit_code": done.exit_code.unwrap_or(TIMED_OUT), "error": null, "ran": ran })
}

fn refused(text: &str) -> Value {
    json!({ "output": "", "exit_code": -1, "error": text })
}

fn explain(workdir: Option<&str>, error: &WorkspaceError) -> String {
    match (workdir, error) {
        (Some(dir), WorkspaceError::Outside) => format!("Command refused: workdir '{dir}' is outside the workspace"),
        (Some(dir), WorkspaceError::NotFound) => format!("Command refused: workdir '{dir}' does not exist"),
        (Some(dir), WorkspaceError::WrongKind(_)) => format!("Command refused: workdir '{dir}' is not a directory"),
        (_, other) => format!("Command refused: {other}"),
    }
}
