//! What of the file system a run sees, and how much of it it may use.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use gloveport_guest::stored::{LIBRARY_MOUNT, PRIVATE_CWD};
use wasmtime_wasi::{FsPerms, WasiCtxBuilder};

use super::private_dir::PrivateDirs;
use crate::backend::BackendError;
use crate::job::{Access, Job, JobLimits, Mode};

/// Where the private storage appears inside.
const TMP: &str = "/tmp";
/// The same, when the grant itself is `/tmp`.
const TMP_BESIDE_GRANT: &str = "/gloveport-tmp";

/// The layout of one run's file system.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Layout {
    /// Absolute path of the working directory, inside.
    pub(super) cwd: String,
    /// Absolute path of the temporary directory, inside.
    pub(super) tmp: &'static str,
    /// Entries for the end of `sys.path`.
    pub(super) import_path: Vec<String>,
    mounts: Vec<Mount>,
}

#[derive(Debug, PartialEq, Eq)]
struct Mount {
    host: PathBuf,
    guest: String,
    access: Access,
}

impl Layout {
    /// Decides what is mounted where.
    ///
    /// `library` is the directory that an image needs beside its snapshot.
    pub(super) fn new(job: &Job, private: &PrivateDirs, library: Option<&Path>) -> Self {
        let grant = job.workspace.as_ref().filter(|_| job.mode == Mode::Project);
        let tmp = if grant.is_some_and(|g| g.path == Path::new(TMP)) { TMP_BESIDE_GRANT } else { TMP };
        let mut mounts = vec![Mount { host: private.tmp.clone(), guest: tmp.into(), access: Access::ReadWrite }];
        if let Some(library) = library {
            let guest = LIBRARY_MOUNT.to_owned();
            mounts.push(Mount { host: library.to_path_buf(), guest, access: Access::ReadOnly });
        }
        let mut import_path = Vec::new();
        let cwd = match grant {
            Some(grant) => {
                let guest = grant.path.to_string_lossy().into_owned();
                mounts.push(Mount { host: grant.path.clone(), guest: guest.clone(), access: grant.access });
                guest
            }
            None => {
                mounts.push(Mount { host: private.cwd.clone(), guest: PRIVATE_CWD.into(), access: Access::ReadWrite });
                PRIVATE_CWD.into()
            }
        };
        import_path.push(cwd.clone());
        if job.mode == Mode::Project {
            for dir in &job.site_packages {
                let guest = dir.to_string_lossy().into_owned();
                mounts.push(Mount { host: dir.clone(), guest: guest.clone(), access: Access::ReadOnly });
                import_path.push(guest);
            }
        }
        Self { cwd, tmp, import_path, mounts }
    }

    /// Opens every mount for the guest.
    pub(super) fn preopen(&self, builder: &mut WasiCtxBuilder) -> Result<(), BackendError> {
        for mount in &self.mounts {
            let perms = match mount.access {
                Access::ReadOnly => FsPerms::ReadOnly,
                Access::ReadWrite => FsPerms::ReadWrite,
            };
            builder.preopened_dir(&mount.host, &mount.guest, perms).map_err(|error| BackendError::Setup {
                message: format!("the directory {} can't be granted to the script", mount.guest),
                source: Some(error.into()),
            })?;
        }
        Ok(())
    }
}

/// Counts what a run uses of disk, entries and descriptors.
///
/// Bytes are counted as they are written, not as they lie on the disk: rewriting counts again. It is a bound that needs no look at the disk.
#[derive(Debug)]
pub(super) struct FileBudget {
    bytes_left: u64,
    entries_left: u64,
    open: HashSet<u32>,
    max_open: usize,
}

impl FileBudget {
    pub(super) fn new(limits: &JobLimits) -> Self {
        Self {
            bytes_left: limits.disk,
            entries_left: limits.inodes,
            open: HashSet::new(),
            max_open: limits.descriptors as usize,
        }
    }

    /// Whether another descriptor may be opened.
    pub(super) fn may_open(&self) -> bool {
        self.open.len() < self.max_open
    }

    pub(super) fn opened(&mut self, fd: u32) {
        self.open.insert(fd);
    }

    pub(super) fn closed(&mut self, fd: u32) {
        self.open.remove(&fd);
    }

    /// Takes bytes from the budget; `false` = there are not that many left, and nothing was taken.
    pub(super) fn take_bytes(&mut self, bytes: u64) -> bool {
        self.bytes_left.checked_sub(bytes).map(|left| self.bytes_left = left).is_some()
    }

    /// Whether a file or directory may be made.
    pub(super) fn may_create(&self) -> bool {
        self.entries_left > 0
    }

    pub(super) fn created(&mut self) {
        self.entries_left = self.entries_left.saturating_sub(1);
    }

    pub(super) fn removed(&mut self) {
        self.entries_left += 1;
    }
}
