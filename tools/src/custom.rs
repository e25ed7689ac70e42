//! Tools that are commands: `[[tool]]` of the configuration. One JSON object on standard input, one JSON value on standard output.

use std::io::{Seek, Write};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use gloveport::config::CustomTool;
use gloveport::tool::{Tool, ToolContext, ToolError, ToolSpec};
use gloveport::workspace::WorkspaceError;
use jsonschema::Validator;
use serde_json::{Map, Value};

use crate::host::open::refusal;
use crate::process::{self, Running, Start, stream};
use crate::text::{first_chars, grouped};

/// Bytes of an answer.
const MAX_ANSWER: usize = 16 << 20;
/// Bytes of standard error that are kept: what was said last says why it failed.
const STDERR: (usize, usize) = (0, 8_000);
/// Characters of standard error in an error.
const SHOWN: usize = 2_000;

/// Why a configured tool can't be offered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CustomToolError {
    /// Its command is empty.
    #[error("tool '{0}': 'command' names no program")]
    NoProgram(String),
    /// Its schema is no JSON schema, or not one of an object.
    #[error("tool '{name}': 'schema' is not usable: {problem}")]
    Schema {
        /// The tool.
        name: String,
        /// What is wrong.
        problem: String,
    },
    /// Its time limit is no time.
    #[error("tool '{0}': 'timeout' must be a positive number of seconds")]
    Timeout(String),
}

/// A command as a tool.
pub(crate) struct Custom {
    config: CustomTool,
    arguments: Validator,
    timeout: Duration,
    env: Arc<[(String, String)]>,
    directory: PathBuf,
}

impl Custom {
    /// Checks the configuration of one tool. `env` is the command's whole environment, `directory` where it runs.
    pub(crate) fn tool(
        config: &CustomTool,
        env: Arc<[(String, String)]>,
        directory: PathBuf,
    ) -> Result<Arc<dyn Tool>, CustomToolError> {
        let name = || config.name.clone();
        if config.command.first().is_none_or(String::is_empty) {
            return Err(CustomToolError::NoProgram(name()));
        }
        if config.schema.get("type").and_then(Value::as_str) != Some("object") {
            let problem = "its 'type' must be 'object'".to_owned();
            return Err(CustomToolError::Schema { name: name(), problem });
        }
        let arguments = jsonschema::options().build(&config.schema);
        let arguments =
            arguments.map_err(|error| CustomToolError::Schema { name: name(), problem: error.to_string() })?;
        let timeout = Duration::try_from_secs_f64(config.timeout).ok().filter(|limit| !limit.is_zero());
        let timeout = timeout.ok_or_else(|| CustomToolError::Timeout(name()))?;
        Ok(Arc::new(Self { config: config.clone(), arguments, timeout, env, directory }))
    }

    fn failed(&self, problem: &str) -> ToolError {
        ToolError::Failed(format!("Tool '{}' {problem}", self.config.name))
    }
}

#[async_trait]
impl Tool for Custom {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: self.config.name.clone(),
            description: self.config.description.clone(),
            schema: self.config.schema.clone(),
            effect: self.config.effect,
            dropped_args: &[],
            // The command may answer with any JSON value.
            returns: "object",
        }
    }

    async fn call(&self, args: Map<String, Value>, _: &ToolContext) -> Result<Value, ToolError> {
        let args = Value::Object(args);
        if let Some(error) = self.arguments.iter_errors(&args).next() {
            let place = error.instance_path().to_string();
            let argument = place.trim_start_matches('/');
            return Err(ToolError::Arguments(match argument {
                "" => error.to_string(),
                argument => format!("argument '{argument}': {error}"),
            }));
        }
        let (command, env, directory) = (self.config.command.clone(), Arc::clone(&self.env), self.directory.clone());
        let started = move || start(&command, &env, &directory, &args);
        let ended = process::run(started, self.timeout).await;
        let ended = ended.map_err(|error| self.failed(&format!("could not be started: {error}")))?;
        let mut outputs = ended.outputs.into_iter();
        let (answer, _, total) = outputs.next().unwrap_or_default().into_parts();
        let (_, stderr, _) = outputs.next().unwrap_or_default().into_parts();
        match ended.code {
            None => Err(self.failed(&format!("timed out after {}s and was killed", self.timeout.as_secs_f64()))),
            Some(0) if total > MAX_ANSWER as u64 => {
                Err(self.failed(&format!("answered with {} bytes, 16 MiB is the most", grouped(total))))
            }
            Some(0) => serde_json::from_slice(&answer)
                .map_err(|error| self.failed(&format!("gave no valid JSON on its standard output: {error}"))),
            Some(code) => Err(self.failed(&exit_text(code, &stderr))),
        }
    }
}

fn exit_text(code: i32, stderr: &[u8]) -> String {
    let text = gloveport::output::strip(&String::from_utf8_lossy(stderr)).trim().to_owned();
    match text.as_str() {
        "" => format!("failed with exit code {code}"),
        text => format!("failed with exit code {code}: {}", first_chars(text, SHOWN)),
    }
}

#[expect(clippy::disallowed_methods, reason = "this file owns the commands of configured tools")]
fn start(
    command: &[String],
    env: &[(String, String)],
    directory: &std::path::Path,
    args: &Value,
) -> Result<Running, WorkspaceError> {
    let failed = |e: std::io::Error| refusal(&e);
    // A file without a name, not a pipe: a command that never reads its input can't block anything.
    let mut input = tempfile::tempfile().map_err(failed)?;
    input.write_all(args.to_string().as_bytes()).and_then(|()| input.rewind()).map_err(failed)?;
    let (answer, stdout) = stream((MAX_ANSWER + 1, 0))?;
    let (problems, stderr) = stream(STDERR)?;
    let mut program = std::process::Command::new(&command[0]);
    program.args(&command[1..]).env_clear().current_dir(directory);
    program.envs(env.iter().map(|(name, value)| (name, value)));
    let start = Start {
        command: program,
        stdin: Stdio::from(input),
        stdout,
        stderr,
        streams: vec![answer, problems],
        scratch: None,
    };
    start.spawn(|mut program| program.spawn().map_err(failed))
}
