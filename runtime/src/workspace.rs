//! Where file tools act: the granted directory of this machine, a container, or a remote host.
//!
//! The trait is small on purpose: a remote implementation carries each operation as one frame. Implementations resolve every
//! path through a directory handle and give the same answer for existing and missing paths outside the workspace.

use std::os::fd::OwnedFd;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use bytes::Bytes;

use crate::job::Access;

/// What an entry is. Tools refuse everything that is neither a file nor a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link, not followed.
    Symlink,
    /// A FIFO, socket or device.
    Special,
}

/// What is known of one entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stat {
    /// What it is, after following links that stay inside.
    pub kind: FileKind,
    /// Bytes.
    pub len: u64,
    /// Last change, if the file system tells.
    pub modified: Option<SystemTime>,
    /// Unix permission bits.
    pub mode: u32,
}

/// One entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its name; bytes that are not UTF-8 are shown with replacement characters, and such an entry can't be opened.
    pub name: String,
    /// What it is, links not followed.
    pub kind: FileKind,
}

/// One change of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Replaces or makes a file in one step, with its parent directories. A link that stays inside keeps pointing to the file.
    Write {
        /// Where.
        path: String,
        /// All of its new content.
        content: Bytes,
        /// A file whose permission bits a new file takes; an existing file keeps its own.
        like: Option<String>,
    },
    /// Gives an entry another path, with the parent directories of that path. An entry that is there already is an error.
    Rename {
        /// The path that ends.
        from: String,
        /// The path that begins.
        to: String,
    },
    /// Removes a file, or a link itself.
    Remove {
        /// Where.
        path: String,
    },
}

/// What a transaction did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Applied {
    /// Directories that had to be made.
    pub directories: u32,
}

/// A command to run in the workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// Text for `sh -c`.
    pub command: String,
    /// Directory to run in, relative to the root or absolute inside it; the root when absent.
    pub workdir: Option<String>,
    /// When to kill it with everything it started.
    pub timeout: Duration,
    /// Its whole environment.
    pub env: Vec<(String, String)>,
    /// Bytes of output kept while it is produced: first and last.
    pub keep: (usize, usize),
    /// Whether the kernel has to hold it to the workspace, without network. A workspace that can't do that refuses.
    pub confined: bool,
}

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandOutput {
    /// stdout and stderr merged in order: the first bytes.
    pub head: Bytes,
    /// The last bytes, without those in `head`.
    pub tail: Bytes,
    /// Bytes produced in all.
    pub total: u64,
    /// Exit code, 128 + signal for a killed one, `None` after a time-out.
    pub exit_code: Option<i32>,
}

/// Why an operation on the workspace failed. The texts hold no path of the host that the caller did not name.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkspaceError {
    /// Outside the grant; the same for existing and missing paths.
    #[error("path is outside the workspace")]
    Outside,
    /// No such entry.
    #[error("no such file or directory")]
    NotFound,
    /// The grant is read-only, or the file system refuses.
    #[error("{0}")]
    Denied(String),
    /// Not a regular file or directory as needed.
    #[error("{0}")]
    WrongKind(String),
    /// Anything else that the file system or the link said.
    #[error("{message}")]
    Io {
        /// One sentence.
        message: String,
        /// The cause.
        #[source]
        source: Option<Box<dyn std::error::Error + Send + Sync>>,
    },
}

/// Where tools act.
#[async_trait]
pub trait Workspace: Send + Sync {
    /// The root as the script sees it: an absolute path.
    fn root(&self) -> &str;

    /// What may be done.
    fn access(&self) -> Access;

    /// What `path` is; links that stay inside are followed.
    async fn stat(&self, path: &str) -> Result<Stat, WorkspaceError>;

    /// Up to `max` bytes of a regular file from `offset`. Fewer than `max` means the end was reached.
    async fn read(&self, path: &str, offset: u64, max: usize) -> Result<Bytes, WorkspaceError>;

    /// Entries of a directory, at most `max`, sorted by name.
    async fn list(&self, path: &str, max: usize) -> Result<Vec<Entry>, WorkspaceError>;

    /// Makes all changes in order, or none of them.
    async fn apply(&self, changes: Vec<Change>) -> Result<Applied, WorkspaceError>;

    /// Runs a command.
    async fn run(&self, command: Command) -> Result<CommandOutput, WorkspaceError>;

    /// A handle on a directory if the workspace is on this machine, so that a search can use its threads. Nothing must be opened there but through
    /// the handle. `None` for a remote workspace, which is searched with `list` and `read`. May block like any file operation.
    fn open_host_dir(&self, path: &str) -> Option<Result<OwnedFd, WorkspaceError>> {
        let _ = path;
        None
    }
}
