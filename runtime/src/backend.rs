//! The seam between the pipeline and what really runs a script.

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;

use crate::dispatch::CallPort;
use crate::job::Job;
use crate::workspace::Workspace;

/// How well a backend seals a script, weakest first. A policy may set a floor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub enum Isolation {
    /// A plain process with the user's rights.
    #[serde(rename = "none")]
    None,
    /// Another account or host.
    #[serde(rename = "account")]
    Account,
    /// Kernel namespaces.
    #[serde(rename = "container")]
    Container,
    /// WebAssembly inside this process.
    #[serde(rename = "wasm")]
    Wasm,
    /// WebAssembly inside a confined process of its own.
    #[serde(rename = "wasm+process")]
    WasmProcess,
}

impl Isolation {
    /// The name that results and configuration use.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Account => "account",
            Self::Container => "container",
            Self::Wasm => "wasm",
            Self::WasmProcess => "wasm+process",
        }
    }
}

impl fmt::Display for Isolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What a backend really enforces. A policy that asks for more is an error before the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// The level it reaches.
    pub isolation: Isolation,
    /// Whether it bounds memory.
    pub memory: bool,
    /// Whether it bounds private storage.
    pub disk: bool,
    /// Whether it bounds processes and threads.
    pub processes: bool,
    /// Whether the network is out of reach.
    pub network_denied: bool,
    /// Whether files outside the grant are out of reach.
    pub files_confined: bool,
    /// Whether scripts need approval before they start.
    pub needs_approval: bool,
}

/// Which of the two standard streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// Where a backend puts the script's bytes. Never blocks; memory is bounded.
pub trait ByteSink: Send + Sync {
    /// Takes bytes of one stream, in the order in which the script wrote them.
    fn write(&self, stream: Stream, bytes: &[u8]);
}

/// All that a backend holds of the host while it runs a job.
#[derive(Clone)]
pub struct RunIo {
    /// Where the script's output goes.
    pub output: Arc<dyn ByteSink>,
    /// The only way from the script to a tool.
    pub calls: CallPort,
    /// Where a backend that has images says which one it took.
    pub image: Arc<OnceLock<ImageUsed>>,
    /// What the caller asked to see beyond the output. Backends that can't show it leave it out.
    pub show: Arc<Show>,
}

/// What a run shows beyond its output, and where it goes: the figures that are open at its end, and tables.
#[derive(Debug, Default)]
pub struct Show {
    /// Figures that are kept at most.
    pub figures: usize,
    /// Whether a table that is the script's last expression is printed, as Markdown.
    pub tables: bool,
    kept: Mutex<Vec<Bytes>>,
}

/// Bytes of all figures of one run together.
const MAX_FIGURE_BYTES: usize = 32 << 20;
/// How every PNG begins.
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n";

impl Show {
    /// What a request asked for.
    #[must_use]
    pub fn new(figures: usize, tables: bool) -> Self {
        Self { figures, tables, kept: Mutex::default() }
    }

    /// Keeps a figure; `false` when it is no PNG, or too much.
    pub fn keep(&self, figure: Bytes) -> bool {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes: usize = kept.iter().map(Bytes::len).sum();
        let fits = kept.len() < self.figures && bytes + figure.len() <= MAX_FIGURE_BYTES && figure.starts_with(PNG);
        if fits {
            kept.push(figure);
        }
        fits
    }

    /// Hands over what was kept.
    pub fn take(&self) -> Vec<Bytes> {
        std::mem::take(&mut *self.kept.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The image that ran a script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageUsed {
    /// Its name.
    pub name: String,
    /// SHA-256 of its machine code, in hexadecimal.
    pub sha256: String,
}

impl fmt::Display for ImageUsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@sha256:{}", self.name, self.sha256)
    }
}

/// How a script ended. A script that failed is data.
#[derive(Debug, Clone, PartialEq)]
pub struct Exit {
    /// What ended it.
    pub cause: ExitCause,
}

/// What ended a script.
#[derive(Debug, Clone, PartialEq)]
pub enum ExitCause {
    /// It ended by itself with this code.
    Code(i32),
    /// It died of its memory limit; the code is what its process would have had.
    Memory(i32),
    /// It overran its stack.
    Stack,
    /// It broke the protocol of tool calls; the log says how.
    Protocol,
    /// Its refused calls passed the hard stop.
    ToolLimit,
}

/// Why a backend could not run a script to its end. Whose fault it is decides the result's `kind`.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackendError {
    /// The script never started.
    #[error("{message}")]
    Setup {
        /// One sentence for the user: what was found and what is needed.
        message: String,
        /// The cause.
        #[source]
        source: Option<Box<dyn std::error::Error + Send + Sync>>,
    },
    /// The remote went away during the run.
    #[error("{message}")]
    Lost {
        /// What was lost.
        message: String,
        /// The cause.
        #[source]
        source: Option<Box<dyn std::error::Error + Send + Sync>>,
    },
    /// A fault of ours.
    #[error("{message}")]
    Internal {
        /// What went wrong.
        message: String,
        /// The cause.
        #[source]
        source: Option<Box<dyn std::error::Error + Send + Sync>>,
    },
}

impl BackendError {
    /// A setup error without a deeper cause.
    pub fn setup(message: impl Into<String>) -> Self {
        Self::Setup { message: message.into(), source: None }
    }

    /// An internal error without a deeper cause.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::Internal { message: message.into(), source: None }
    }
}

/// Runs scripts somewhere.
#[async_trait]
pub trait Backend: Send + Sync {
    /// `wasi`, `docker`, `ssh`, `local` or `command`.
    fn name(&self) -> &'static str;

    /// What it can really enforce.
    fn capabilities(&self) -> Capabilities;

    /// Where the tools act for this environment; `None` = the host directory that the sandbox was given.
    async fn workspace(&self, task_id: &str) -> Result<Option<Arc<dyn Workspace>>, BackendError> {
        let _ = task_id;
        Ok(None)
    }

    /// Runs one job. Dropping the future stops the script.
    async fn run(&self, job: &Job, io: RunIo) -> Result<Exit, BackendError>;
}

/// One request or answer of a tool call.
pub type CallBytes = Bytes;
