//! Host tools: what a script can call.
//!
//! A tool is a [`ToolSpec`] (name, text, JSON schema of its arguments) and an async function from a JSON object to a JSON value. Most tools are
//! made from a typed closure with [`tool_fn`]; a type that implements [`Tool`] can hold state and build its schema itself.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use crate::workspace::Workspace;

/// What a tool can change, which decides how approval treats it by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// Changes nothing: reading, searching.
    Read,
    /// Changes what it was made to change: files inside the read-write grant, or whatever the embedder's own tool is for.
    Write,
    /// Runs code that the script supplies. Each call is asked for, unless configuration says otherwise.
    Execute,
    /// Talks to the network, but changes nothing.
    Network,
}

/// How a tool presents itself to scripts, to models and to the dispatcher.
#[derive(Debug, Clone)]
pub struct ToolSpec {
    /// Python identifier under which scripts import it.
    pub name: String,
    /// One or more sentences for the docstring and for the model.
    pub description: String,
    /// JSON schema (an object schema) of the arguments. Property order is the order of positional parameters.
    pub schema: Value,
    /// What it can change.
    pub effect: Effect,
    /// Arguments that are dropped silently before the schema check, because prompts of the original agent pass them.
    pub dropped_args: &'static [&'static str],
    /// Shape of the answer as a Python annotation, `dict` for nearly every tool.
    pub returns: &'static str,
}

impl ToolSpec {
    /// A spec for arguments of type `A`, with the schema derived from it. Its effect is [`Effect::Write`] until declared otherwise.
    pub fn new<A: JsonSchema>(name: impl Into<String>, description: impl Into<String>) -> Self {
        let schema = schemars::generate::SchemaSettings::draft2020_12()
            .with(|s| {
                s.inline_subschemas = true;
                s.meta_schema = None;
            })
            .into_generator()
            .into_root_schema_for::<A>();
        Self {
            name: name.into(),
            description: description.into(),
            schema: schema.to_value(),
            effect: Effect::Write,
            dropped_args: &[],
            returns: "dict",
        }
    }

    /// Declares what the tool can change.
    #[must_use]
    pub fn effect(mut self, effect: Effect) -> Self {
        self.effect = effect;
        self
    }

    /// Names arguments that are dropped silently.
    #[must_use]
    pub fn dropped_args(mut self, names: &'static [&'static str]) -> Self {
        self.dropped_args = names;
        self
    }
}

/// What a tool may know about the run that calls it.
#[derive(Clone)]
pub struct ToolContext {
    /// Random identifier of the run.
    pub run_id: Arc<str>,
    /// The environment that the run belongs to.
    pub task_id: Arc<str>,
    /// Where file tools act: the granted directory, the container or the remote host. `None` when nothing is granted.
    pub workspace: Option<Arc<dyn Workspace>>,
    /// Cancelled when the run has ended for whatever reason. The future of the call is dropped as well; this is for work that it handed to threads.
    pub cancelled: CancellationToken,
    /// When the call has to be done.
    pub deadline: tokio::time::Instant,
}

impl fmt::Debug for ToolContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolContext")
            .field("run_id", &self.run_id)
            .field("task_id", &self.task_id)
            .finish_non_exhaustive()
    }
}

/// Why a tool call failed. The text is what the script gets as `{"error": text}`, so it must hold nothing that a script may not know.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ToolError {
    /// The arguments do not fit; counted as a refused call.
    #[error("{0}")]
    Arguments(String),
    /// The tool ran and could not do what was asked.
    #[error("{0}")]
    Failed(String),
    /// An approver or a guard said no; counted as a refused call.
    #[error("{0}")]
    Denied(String),
}

impl ToolError {
    /// A failure with a text for the script.
    pub fn failed(text: impl fmt::Display) -> Self {
        Self::Failed(text.to_string())
    }
}

impl From<anyhow::Error> for ToolError {
    fn from(error: anyhow::Error) -> Self {
        Self::Failed(format!("{error:#}"))
    }
}

/// What a tool says of one call before it is approved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Caution {
    /// A call like any other.
    #[default]
    None,
    /// It does this, and is asked about even where the tool's calls are allowed.
    Ask(&'static str),
    /// The tool will refuse it whatever is decided, so nobody is asked.
    Refused,
}

/// A function of the host that scripts may call.
///
/// The dispatcher has checked the arguments against the schema before `call`. The future is dropped when the run ends or its time is over, and
/// a panic in it becomes an error answer of that one call.
#[async_trait]
pub trait Tool: Send + Sync {
    /// Name, text and schema; read once when the sandbox is built.
    fn spec(&self) -> ToolSpec;

    /// What has to be known of a call before it is approved. Cheap, and without effects.
    fn caution(&self, args: &Map<String, Value>) -> Caution {
        let _ = args;
        Caution::None
    }

    /// Does the work. An `Err` reaches the script as `{"error": text}`.
    async fn call(&self, args: Map<String, Value>, cx: &ToolContext) -> Result<Value, ToolError>;

    /// Whether an `Ok` answer tells of a failure, which the call log then marks as `error`: by default `{"error": …}` that is not null.
    fn is_error(&self, answer: &Value) -> bool {
        answer.get("error").is_some_and(|e| !e.is_null())
    }
}

/// Makes a tool from a typed async closure. The schema of its arguments comes from the type.
///
/// ```
/// use gloveport::tool::{Effect, ToolSpec, tool_fn};
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// #[serde(deny_unknown_fields)]
/// struct Add { a: i64, b: i64 }
///
/// let add = tool_fn(ToolSpec::new::<Add>("add", "Adds two integers.").effect(Effect::Read), |args: Add, _cx| async move {
///     Ok(args.a.wrapping_add(args.b).into())
/// });
/// # let _ = add;
/// ```
pub fn tool_fn<A, F, Fut>(spec: ToolSpec, function: F) -> Arc<dyn Tool>
where
    A: DeserializeOwned + Send + 'static,
    F: Fn(A, ToolContext) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Value, ToolError>> + Send + 'static,
{
    Arc::new(FnTool { spec, function, args: std::marker::PhantomData })
}

struct FnTool<A, F> {
    spec: ToolSpec,
    function: F,
    args: std::marker::PhantomData<fn(A)>,
}

#[async_trait]
impl<A, F, Fut> Tool for FnTool<A, F>
where
    A: DeserializeOwned + Send + 'static,
    F: Fn(A, ToolContext) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Value, ToolError>> + Send + 'static,
{
    fn spec(&self) -> ToolSpec {
        self.spec.clone()
    }

    async fn call(&self, args: Map<String, Value>, cx: &ToolContext) -> Result<Value, ToolError> {
        (self.function)(parse_args(args)?, cx.clone()).await
    }
}

/// Turns checked arguments into a tool's own type; the error names the argument.
pub fn parse_args<A: DeserializeOwned>(args: Map<String, Value>) -> Result<A, ToolError> {
    serde_path_to_error::deserialize(Value::Object(args)).map_err(|error| {
        let path = error.path().to_string();
        ToolError::Arguments(match path.as_str() {
            "." => error.inner().to_string(),
            _ => format!("argument '{path}': {}", error.inner()),
        })
    })
}
