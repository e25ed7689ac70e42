//! The journal of a transaction: a locked file in the root for as long as it lasts, and what the next start makes of a dead one.
//!
//! Whoever can write to the workspace can forge a journal, so replaying one does no more than they could do themselves: every step passes
//! the write guard and goes through the root handle.

use std::io::{self, Read, Write};
use std::sync::atomic::{AtomicU64, Ordering};

use cap_std::fs::{Dir, File, MetadataExt, OpenOptions, OpenOptionsExt};
use rustix::fs::{FlockOperation, OFlags};
use serde::{Deserialize, Serialize};

use super::Inner;
use super::apply::{backward, forward, tidy};
use super::open::open_directory;

/// Begins the name of every file that a transaction makes.
const PREFIX: &str = ".gloveport-";

/// A journal of 10,000 steps is far below this; a longer one is not ours.
const MAX_BYTES: u64 = 4 << 20;

/// Entries of the root that a start looks at.
const MAX_ENTRIES: usize = 100_000;

/// One thing that a transaction does, by names alone. Directories are relative to the root.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Step {
    /// `new` replaces `name`; what was there stays as `old` until the end.
    Put { dir: String, name: String, new: String, old: Option<String> },
    /// `name` becomes `old`, which is removed at the end.
    Take { dir: String, name: String, old: String },
    /// `name` becomes `to_name`.
    Move { dir: String, name: String, to_dir: String, to_name: String },
}

/// One line of the journal.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    /// Files may be staged in this directory from now on.
    Stage(String),
    /// All is staged, and these steps begin.
    Commit(Vec<Step>),
    /// A step failed, and those taken are being undone.
    Undo,
    /// All steps were taken.
    Done,
}

/// The journal of a transaction under way. Where the root can't be written, there is none, and a killed transaction is not repaired.
pub(crate) struct Journal {
    id: String,
    root: Dir,
    file: Option<File>,
    names: u32,
}

impl Journal {
    pub(crate) fn begin(root: &Dir) -> io::Result<Self> {
        let root = root.try_clone()?;
        loop {
            let id = fresh_id();
            let mut options = OpenOptions::new();
            options.write(true).create_new(true).mode(0o600).custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
            let file = match root.open_with(journal_name(&id), &options) {
                Ok(file) => file,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(error) if error.kind() == io::ErrorKind::StorageFull => return Err(error),
                Err(_) => return Ok(Self { id, root, file: None, names: 0 }),
            };
            // A start elsewhere may have taken the file for a dead one before it was locked.
            if rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok()
                && file.metadata()?.nlink() == 1
            {
                return Ok(Self { id, root, file: Some(file), names: 0 });
            }
        }
    }

    /// A name for a file of this transaction, unique in every directory.
    pub(crate) fn next(&mut self, kind: &str) -> String {
        self.names += 1;
        format!("{PREFIX}{}.{}.{kind}", self.id, self.names)
    }

    /// Tells where a file is about to be staged.
    pub(crate) fn announce(&mut self, dir: &str) {
        _ = self.line(&Line::Stage(dir.to_owned()));
    }

    /// Tells what is about to be done. From here on a killed transaction is finished at the next start.
    pub(crate) fn commit<'a>(&mut self, steps: impl Iterator<Item = &'a Step>) -> io::Result<()> {
        self.line(&Line::Commit(steps.cloned().collect()))
    }

    pub(crate) fn undo(&mut self) {
        _ = self.line(&Line::Undo);
    }

    pub(crate) fn done(&mut self) {
        _ = self.line(&Line::Done);
    }

    /// Ends the transaction.
    pub(crate) fn finish(&mut self) {
        if self.file.is_some() {
            _ = self.root.remove_file(journal_name(&self.id));
        }
    }

    fn line(&mut self, line: &Line) -> io::Result<()> {
        let Some(file) = &mut self.file else { return Ok(()) };
        let mut text = serde_json::to_string(line)?;
        text.push('\n');
        file.write_all(text.as_bytes())
    }
}

fn journal_name(id: &str) -> String {
    format!("{PREFIX}journal-{id}")
}

/// Unique in this process; between processes the file's exclusive creation decides.
fn fresh_id() -> String {
    format!("{:016x}", fresh_number())
}

/// A number that no other call gives, and that is not the same after a restart.
pub(crate) fn fresh_number() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let mut hasher = std::collections::hash_map::RandomState::new().build_hasher();
    hasher.write_u64(COUNT.fetch_add(1, Ordering::Relaxed));
    hasher.write_u32(std::process::id());
    hasher.finish()
}

/// Whether a name is one that transactions make, so that searches leave it out.
pub(crate) fn is_own(name: &str) -> bool {
    name.starts_with(PREFIX)
}

impl Inner {
    /// Repairs what transactions of dead processes left in this workspace. Returns how many there were.
    pub(crate) fn recover(&self) -> usize {
        let Ok(entries) = self.dir.entries() else { return 0 };
        let journal = format!("{PREFIX}journal-");
        let names = entries.take(MAX_ENTRIES).flatten().filter_map(|e| e.file_name().into_string().ok());
        let dead: Vec<String> = names.filter(|name| name.starts_with(&journal)).collect();
        dead.iter().filter(|name| self.recover_one(name).is_some()).count()
    }

    fn recover_one(&self, name: &str) -> Option<()> {
        let id = name.strip_prefix(PREFIX)?.strip_prefix("journal-")?;
        let mut options = OpenOptions::new();
        options.read(true).custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed());
        let file = self.dir.open_with(name, &options).ok()?;
        let metadata = file.metadata().ok()?;
        let ours = metadata.is_file() && metadata.uid() == rustix::process::geteuid().as_raw();
        if !ours || metadata.len() > MAX_BYTES {
            return None;
        }
        rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).ok()?;
        let mut text = String::new();
        file.take(MAX_BYTES).read_to_string(&mut text).ok()?;
        self.replay(id, &text);
        self.dir.remove_file(name).ok()
    }

    /// Finishes a transaction that had begun its steps, and undoes one that had not. A cut last line counts as not written.
    fn replay(&self, id: &str, text: &str) {
        let complete = text.rfind('\n').map_or("", |end| &text[..end]);
        let (mut dirs, mut steps, mut undo, mut done) = (Vec::new(), Vec::new(), false, false);
        for line in complete.lines().filter_map(|line| serde_json::from_str(line).ok()) {
            match line {
                Line::Stage(dir) => dirs.push(dir),
                Line::Commit(planned) => steps = planned,
                Line::Undo => undo = true,
                Line::Done => done = true,
            }
        }
        steps.retain(|step| self.is_replayable(id, step));
        if undo {
            steps.iter().rev().for_each(|step| self.with_dirs(step, |dir, to| undo_taken(step, dir, to)));
        } else if !done {
            steps.iter().for_each(|step| self.with_dirs(step, |dir, to| redo_missing(step, dir, to)));
        }
        steps.iter().for_each(|step| self.with_dirs(step, |dir, _| tidy(step, dir)));
        dirs.sort_unstable();
        dirs.dedup();
        dirs.iter().for_each(|dir| self.sweep(dir, id));
    }

    /// Removes what was staged in a directory.
    fn sweep(&self, dir: &str, id: &str) {
        let Ok(relative) = self.relative(if dir.is_empty() { "." } else { dir }) else { return };
        let Ok(dir) = open_directory(&self.dir, &relative) else { return };
        let Ok(entries) = dir.entries() else { return };
        let staged = format!("{PREFIX}{id}.");
        for name in entries.take(MAX_ENTRIES).flatten().filter_map(|e| e.file_name().into_string().ok()) {
            if name.starts_with(&staged) {
                _ = dir.remove_file(name);
            }
        }
    }

    fn is_replayable(&self, id: &str, step: &Step) -> bool {
        let own = |name: &String| name.starts_with(&format!("{PREFIX}{id}.")) && !name.contains('/');
        let (targets, owned) = match step {
            Step::Put { dir, name, new, old } => (vec![(dir, name)], own(new) && old.iter().all(own)),
            Step::Take { dir, name, old } => (vec![(dir, name)], own(old)),
            Step::Move { dir, name, to_dir, to_name } => (vec![(dir, name), (to_dir, to_name)], true),
        };
        owned
            && targets.into_iter().all(|(dir, name)| {
                let plain = !name.contains('/') && name != ".." && name != "." && !name.is_empty();
                let relative = self.relative(if dir.is_empty() { "." } else { dir });
                let opened = relative.ok().and_then(|r| open_directory(&self.dir, &r).ok());
                plain && opened.is_some_and(|dir| self.check_write(&dir, name).is_ok())
            })
    }

    fn with_dirs(&self, step: &Step, op: impl Fn(&Dir, Option<&Dir>)) {
        let open =
            |dir: &String| open_directory(&self.dir, &self.relative(if dir.is_empty() { "." } else { dir }).ok()?).ok();
        let (dir, to_dir) = match step {
            Step::Put { dir, .. } | Step::Take { dir, .. } => (open(dir), None),
            Step::Move { dir, to_dir, .. } => (open(dir), open(to_dir)),
        };
        if let Some(dir) = dir {
            op(&dir, to_dir.as_ref());
        }
    }
}

/// Takes a step unless it was taken before the process died.
fn redo_missing(step: &Step, dir: &Dir, to_dir: Option<&Dir>) {
    let pending = match step {
        Step::Put { new, .. } => dir.symlink_metadata(new).is_ok(),
        Step::Take { old, .. } => dir.symlink_metadata(old).is_err(),
        Step::Move { .. } => true,
    };
    // What was there need not be kept: nothing is undone from here on.
    if pending {
        _ = forward(step, dir, to_dir, matches!(step, Step::Take { .. }));
    }
}

/// Undoes a step if it was taken.
fn undo_taken(step: &Step, dir: &Dir, to_dir: Option<&Dir>) {
    let taken = match step {
        Step::Put { new, .. } => dir.symlink_metadata(new).is_err(),
        Step::Take { old, .. } => dir.symlink_metadata(old).is_ok(),
        Step::Move { name, .. } => dir.symlink_metadata(name).is_err(),
    };
    if taken {
        backward(step, dir, to_dir);
    }
}
