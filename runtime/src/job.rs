//! What a backend gets to know: the resolved job, and nothing of configuration, tools or secrets.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Whether a granted directory may be changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// Reading only.
    ReadOnly,
    /// Reading and writing.
    ReadWrite,
}

/// A directory of the host that a script may see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// Absolute path on the host, which is also its path inside.
    pub path: PathBuf,
    /// What may be done there.
    pub access: Access,
}

/// Where a script starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// The working directory is the session's.
    Project,
    /// The working directory is empty and private.
    Strict,
}

/// Limits that the backend enforces on the script.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct JobLimits {
    /// Wall-clock time for the whole run.
    pub timeout: Duration,
    /// Bytes of memory for the script, all memories and tables together.
    pub memory: u64,
    /// Bytes of private storage (`/tmp`, a private working directory) and of writes to grants.
    pub disk: u64,
    /// Files and directories that may be made.
    pub inodes: u64,
    /// Descriptors open at the same time.
    pub descriptors: u32,
    /// Bytes of one tool request.
    pub request_bytes: usize,
    /// Bytes of one tool answer.
    pub answer_bytes: usize,
    /// Tool calls under way at the same time.
    pub outstanding_calls: usize,
}

/// One run, resolved: everything a backend may know.
#[derive(Debug, Clone)]
pub struct Job {
    /// Random identifier, unguessable and unique.
    pub run_id: Arc<str>,
    /// The environment that runs share.
    pub task_id: Arc<str>,
    /// Python source.
    pub code: Arc<str>,
    /// Shown in tracebacks.
    pub filename: String,
    /// `sys.argv[1:]`.
    pub args: Vec<String>,
    /// The script's whole environment, already scrubbed, `TZ` included.
    pub env: Vec<(String, String)>,
    /// IANA zone name, valid.
    pub timezone: Option<String>,
    /// Where the script starts.
    pub mode: Mode,
    /// The working directory's grant in `project` mode; without one the directory is private even there.
    pub workspace: Option<Grant>,
    /// Directories for `sys.path` after the working directory, granted read-only: the site-packages of an active environment.
    pub site_packages: Vec<PathBuf>,
    /// Name of the tools module.
    pub module: String,
    /// Tools as the script's module presents them.
    pub tools: Arc<crate::stubs::ToolStubs>,
    /// What the backend enforces.
    pub limits: JobLimits,
}
