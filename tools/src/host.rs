//! The workspace on this machine: one granted directory, held as a handle from the start.
//!
//! Paths are resolved by the kernel beneath that handle (`openat2` through cap-std), never compared as text and then opened. Operations
//! run on a bounded set of blocking threads, so that a file system that hangs holds up its callers and nobody else.
//!
//! Not here: what the tools mean by a path, a line or a match. This is I/O with the write guard, and nothing more.

mod apply;
#[cfg(target_os = "linux")]
mod confine;
pub(crate) mod journal;
pub(crate) mod open;
pub(crate) mod path;
mod run;

use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use cap_std::ambient_authority;
use cap_std::fs::Dir;
use gloveport::job::Access;
use gloveport::workspace::{Applied, Change, Command, CommandOutput, Entry, Stat, Workspace, WorkspaceError};
use tokio::sync::Semaphore;

use crate::guard::Guard;
use path::Roots;

/// Operations on files that may be under way at the same time in one workspace.
const MAX_BLOCKING: usize = 16;

/// The granted directory of this machine.
#[derive(Clone)]
pub struct HostWorkspace {
    inner: Arc<Inner>,
    permits: Arc<Semaphore>,
}

pub(crate) struct Inner {
    pub(crate) dir: Dir,
    pub(crate) roots: Roots,
    root_text: String,
    pub(crate) access: Access,
    pub(crate) guard: Guard,
    pub(crate) readable: Vec<PathBuf>,
}

/// What a host workspace is made of. The defaults: read-only, nothing protected beyond the built-in tables, no home directory.
#[derive(Debug, Clone)]
pub struct HostWorkspaceOptions {
    root: PathBuf,
    access: Access,
    home: Option<PathBuf>,
    protected: Vec<PathBuf>,
    readable: Vec<PathBuf>,
}

impl HostWorkspaceOptions {
    /// Sets what may be done.
    #[must_use]
    pub fn access(mut self, access: Access) -> Self {
        self.access = access;
        self
    }

    /// Sets what `~` stands for in paths. Without it `~` is a name like any other.
    #[must_use]
    pub fn home(mut self, home: impl Into<PathBuf>) -> Self {
        self.home = Some(home.into());
        self
    }

    /// Names files and directories of the runtime that no tool may change.
    #[must_use]
    pub fn protect(mut self, paths: impl IntoIterator<Item = PathBuf>) -> Self {
        self.protected.extend(paths);
        self
    }

    /// Names directories that a confined command may read and execute from, on top of the system's own: toolchains in the user's home.
    #[must_use]
    pub fn confined_readable(mut self, paths: impl IntoIterator<Item = PathBuf>) -> Self {
        self.readable.extend(paths);
        self
    }

    /// Opens the directory, and repairs what a process that died in a write left behind.
    ///
    /// # Errors
    /// The directory can't be opened, or its path is not UTF-8.
    #[expect(
        clippy::disallowed_methods,
        reason = "the granted directory's own name, where the system can't tell it from the handle"
    )]
    pub fn open(self) -> std::io::Result<HostWorkspace> {
        let given = path::clean(&std::path::absolute(&self.root)?);
        let dir = Dir::open_ambient_dir(&given, ambient_authority())?;
        let root_text = given.to_str().map(str::to_owned).ok_or(std::io::ErrorKind::InvalidFilename)?;
        let real = open::handle_path(dir.as_fd()).map_or_else(|| given.canonicalize(), Ok)?;
        let mut spellings = vec![given];
        if !spellings.contains(&real) {
            spellings.push(real);
        }
        let inner = Inner {
            dir,
            roots: Roots { spellings, home: self.home },
            root_text,
            access: self.access,
            guard: Guard::new(self.protected),
            readable: self.readable,
        };
        if inner.access == Access::ReadWrite {
            let repaired = inner.recover();
            if repaired > 0 {
                tracing::warn!(repaired, "writes of a process that died were repaired");
            }
        }
        Ok(HostWorkspace { inner: Arc::new(inner), permits: Arc::new(Semaphore::new(MAX_BLOCKING)) })
    }
}

impl HostWorkspace {
    /// Begins to describe a workspace with this root; a relative one counts from the current directory, now.
    pub fn builder(root: impl AsRef<Path>) -> HostWorkspaceOptions {
        HostWorkspaceOptions {
            root: root.as_ref().to_owned(),
            access: Access::ReadOnly,
            home: None,
            protected: Vec::new(),
            readable: Vec::new(),
        }
    }

    /// Runs file operations on a blocking thread. A caller that goes away leaves the thread to end by itself.
    async fn blocking<T, F>(&self, work: F) -> Result<T, WorkspaceError>
    where
        T: Send + 'static,
        F: FnOnce(&Inner) -> Result<T, WorkspaceError> + Send + 'static,
    {
        let broken = |message: &str| WorkspaceError::Io { message: message.to_owned(), source: None };
        let permit = Arc::clone(&self.permits).acquire_owned().await.map_err(|_| broken("the workspace is closed"))?;
        let inner = Arc::clone(&self.inner);
        let task = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            work(&inner)
        });
        task.await.unwrap_or_else(|_| Err(broken("the operation broke off")))
    }
}

#[async_trait]
impl Workspace for HostWorkspace {
    fn root(&self) -> &str {
        &self.inner.root_text
    }

    fn access(&self) -> Access {
        self.inner.access
    }

    async fn stat(&self, path: &str) -> Result<Stat, WorkspaceError> {
        let path = path.to_owned();
        self.blocking(move |host| host.stat(&path)).await
    }

    async fn read(&self, path: &str, offset: u64, max: usize) -> Result<Bytes, WorkspaceError> {
        let path = path.to_owned();
        self.blocking(move |host| host.read(&path, offset, max)).await
    }

    async fn list(&self, path: &str, max: usize) -> Result<Vec<Entry>, WorkspaceError> {
        let path = path.to_owned();
        self.blocking(move |host| host.list(&path, max)).await
    }

    async fn apply(&self, changes: Vec<Change>) -> Result<Applied, WorkspaceError> {
        self.blocking(move |host| host.apply(&changes)).await
    }

    async fn run(&self, command: Command) -> Result<CommandOutput, WorkspaceError> {
        run::run(&self.inner, command).await
    }

    fn open_host_dir(&self, path: &str) -> Option<Result<OwnedFd, WorkspaceError>> {
        let opened = self.inner.at(path, |p| self.inner.dir.open_dir(p));
        Some(opened.map(|dir| dir.into_std_file().into()))
    }
}
