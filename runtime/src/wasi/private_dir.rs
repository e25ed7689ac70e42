//! Private storage of one run: made when it starts, gone when it ends, and swept later if this process died in between.

#![expect(clippy::disallowed_methods, reason = "this file owns the directories of runs")]

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use rustix::fs::{FlockOperation, flock};

/// Prefix of the directories of runs, so that a sweep touches nothing else.
const RUN_PREFIX: &str = "run-";
/// File that a live process holds locked inside its directory.
const LOCK_NAME: &str = ".lock";
/// A directory without a lock that is younger than this may be one that is just being made.
const SWEEP_AGE: Duration = Duration::from_secs(60);

/// Ready directories that are kept for later runs: making and removing them costs more than starting an instance.
const STOCK: usize = 32;

/// The directories of all runs of this process: one parent, locked while the process lives.
#[derive(Debug)]
pub(super) struct ScratchSpace {
    stock: Arc<Mutex<Vec<PathBuf>>>,
    root: tempfile::TempDir,
    _lock: fs::File,
}

impl ScratchSpace {
    /// Makes the parent under `base` (itself made if it is missing) and sweeps what dead processes left there.
    pub(super) fn new(base: &Path) -> io::Result<Self> {
        make_private(base)?;
        sweep(base);
        let root = tempfile::Builder::new().prefix(RUN_PREFIX).rand_bytes(16).tempdir_in(base)?;
        let lock = fs::File::create_new(root.path().join(LOCK_NAME))?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        Ok(Self { stock: Arc::default(), root, _lock: lock })
    }

    /// Where the directories of runs are.
    pub(super) fn root(&self) -> &Path {
        self.root.path()
    }

    /// Private directories for one run.
    pub(super) fn for_run(&self) -> io::Result<PrivateDirs> {
        let ready = lock(&self.stock).pop();
        let root = match ready {
            Some(root) => root,
            None => make(self.root.path())?,
        };
        Ok(PrivateDirs {
            tmp: root.join("tmp"),
            cwd: root.join("cwd"),
            root,
            stock: Arc::clone(&self.stock),
            end: End::Unknown,
        })
    }
}

fn make(parent: &Path) -> io::Result<PathBuf> {
    let root = parent.join(uuid::Uuid::new_v4().simple().to_string());
    let builder = private_builder();
    builder.create(&root)?;
    for dir in [root.join("tmp"), root.join("cwd")] {
        builder.create(&dir)?;
        reset_times(&dir)?;
    }
    Ok(root)
}

fn lock(stock: &Mutex<Vec<PathBuf>>) -> MutexGuard<'_, Vec<PathBuf>> {
    // Pushing and popping leave the list whole whatever happens.
    stock.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What is known about the end of a run.
#[derive(Debug, Clone, Copy)]
enum End {
    /// It may not have ended: the system calls of a stopped run can still make files.
    Unknown,
    Used,
    Unused,
}

/// One run's directories. Dropping removes them, or keeps them for another run when this one left no trace in them.
#[derive(Debug)]
pub(super) struct PrivateDirs {
    root: PathBuf,
    stock: Arc<Mutex<Vec<PathBuf>>>,
    end: End,
    /// What the script sees as `/tmp`.
    pub(super) tmp: PathBuf,
    /// Its private working directory, for a run without a grant.
    pub(super) cwd: PathBuf,
}

impl PrivateDirs {
    /// Tells that no system call of the run is under way any more, and whether there was one that could have left a trace.
    pub(super) fn ended_by_itself(&mut self, used_files: bool) {
        self.end = if used_files { End::Used } else { End::Unused };
    }

    fn is_untouched(&self) -> bool {
        match self.end {
            End::Unknown => false,
            End::Used => [&self.tmp, &self.cwd].into_iter().all(|dir| is_empty(dir) && reset_times(dir).is_ok()),
            End::Unused => true,
        }
    }
}

impl Drop for PrivateDirs {
    fn drop(&mut self) {
        if self.is_untouched() {
            let mut stock = lock(&self.stock);
            if stock.len() < STOCK {
                stock.push(std::mem::take(&mut self.root));
                return;
            }
        }
        // A large tree must not hold up the caller, who may be on the only thread of a runtime.
        let root = std::mem::take(&mut self.root);
        let spawned = std::thread::Builder::new().name("gloveport-cleanup".into()).spawn(move || remove_tree(&root));
        if let Err(error) = spawned {
            tracing::warn!(%error, "a run's private files are left to the next start's sweep");
        }
    }
}

fn is_empty(dir: &Path) -> bool {
    fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_none())
}

/// The times of a directory are what a script could leave a message in for the next run.
fn reset_times(dir: &Path) -> io::Result<()> {
    let epoch = rustix::fs::Timespec { tv_sec: 0, tv_nsec: 0 };
    let times = rustix::fs::Timestamps { last_access: epoch, last_modification: epoch };
    rustix::fs::utimensat(rustix::fs::CWD, dir, &times, rustix::fs::AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(())
}

/// Removes a tree even where a script took its own rights away.
fn remove_tree(root: &Path) {
    if fs::remove_dir_all(root).is_ok() {
        return;
    }
    open_up(root);
    if let Err(error) = fs::remove_dir_all(root)
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(%error, "a run's private files could not be removed; the next start sweeps them");
    }
}

fn open_up(root: &Path) {
    let mut pending = vec![root.to_path_buf()];
    while let Some(dir) = pending.pop() {
        let _ = fs::set_permissions(&dir, fs::Permissions::from_mode(0o700));
        let entries = fs::read_dir(&dir).into_iter().flatten().flatten();
        pending.extend(entries.filter(|e| e.file_type().is_ok_and(|t| t.is_dir())).map(|e| e.path()));
    }
}

/// Makes a directory of our own, or checks that an existing one is: owned by us, and nobody else may write there.
pub(super) fn make_private(dir: &Path) -> io::Result<()> {
    let mut builder = private_builder();
    builder.recursive(true).create(dir)?;
    let meta = fs::symlink_metadata(dir)?;
    let ours = meta.uid() == rustix::process::geteuid().as_raw();
    if !meta.is_dir() || !ours || meta.mode() & 0o022 != 0 {
        let problem = "the directory must be a real directory that belongs to this user and that nobody else can write";
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, format!("{}: {problem}", dir.display())));
    }
    Ok(())
}

fn private_builder() -> fs::DirBuilder {
    let mut builder = fs::DirBuilder::new();
    builder.mode(0o700);
    builder
}

/// Removes directories whose process is gone. Safe to run in several processes at once: whoever gets the lock removes.
fn sweep(base: &Path) {
    for entry in fs::read_dir(base).into_iter().flatten().flatten() {
        let dir = entry.path();
        let is_run = entry.file_name().to_str().is_some_and(|name| name.starts_with(RUN_PREFIX));
        if is_run && entry.file_type().is_ok_and(|t| t.is_dir()) && is_abandoned(&dir) {
            remove_tree(&dir);
        }
    }
}

fn is_abandoned(dir: &Path) -> bool {
    match fs::File::open(dir.join(LOCK_NAME)) {
        Ok(lock) => flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok(),
        Err(_) => fs::metadata(dir)
            .and_then(|meta| meta.modified())
            .is_ok_and(|made| SystemTime::now().duration_since(made).is_ok_and(|age| age > SWEEP_AGE)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_are_private_and_go_away() {
        let base = tempfile::tempdir().unwrap();
        let scratch = ScratchSpace::new(&base.path().join("a/b")).unwrap();
        let mut clean = scratch.for_run().unwrap();
        clean.ended_by_itself(true);
        let kept = clean.root.clone();
        assert_eq!(fs::metadata(&clean.tmp).unwrap().mode() & 0o777, 0o700);
        drop(clean);
        let mut again = scratch.for_run().unwrap();
        assert_eq!(again.root, kept, "a directory without traces is used again");
        again.ended_by_itself(true);
        fs::write(again.cwd.join("file"), "left").unwrap();
        drop(again);
        drop(scratch.for_run().unwrap());
        let gone = || fs::read_dir(scratch.root.path()).unwrap().count() == 1;
        let waited = |_| {
            std::thread::sleep(Duration::from_millis(10));
            gone()
        };
        assert!((0..500).any(waited), "one with traces, or of a stopped run, is not");
    }

    #[test]
    fn what_a_dead_process_left_is_swept_and_what_lives_is_kept() {
        let base = tempfile::tempdir().unwrap();
        let live = ScratchSpace::new(base.path()).unwrap();
        let dead = base.path().join("run-dead");
        fs::create_dir(&dead).unwrap();
        fs::write(dead.join(LOCK_NAME), "").unwrap();
        fs::write(base.path().join("other"), "").unwrap();
        let next = ScratchSpace::new(base.path()).unwrap();
        assert!(!dead.exists() && live.root.path().exists() && next.root.path().exists());
        assert!(base.path().join("other").exists());
    }

    #[test]
    fn a_directory_that_others_can_write_is_refused() {
        let base = tempfile::tempdir().unwrap();
        fs::set_permissions(base.path(), fs::Permissions::from_mode(0o777)).unwrap();
        assert_eq!(make_private(base.path()).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    }
}
