//! Transactions: new content is staged beside each target, then everything is renamed into place, or nothing is.
//!
//! A step never opens a target for writing. It renames within the directory handle that was resolved when staging, so a directory
//! that is swapped for a link meanwhile changes nothing outside. The journal makes a killed transaction whole at the next start.

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt, Permissions, PermissionsExt};
use gloveport::job::Access;
use gloveport::workspace::{Applied, Change, WorkspaceError};
use rustix::fs::{AtFlags, OFlags, RenameFlags};

use super::Inner;
use super::journal::{Journal, Step};
use super::open::{is_escape, open_directory, refusal, require_file};

/// Links at the end of a path that a write follows.
const MAX_LINKS: usize = 16;

/// The place that a change ends up at.
struct Target {
    /// Its directory, resolved.
    dir: Dir,
    /// The directory's path under the root, for the journal.
    parent: PathBuf,
    /// Its name there.
    name: String,
    /// Permission bits of what is there.
    mode: Option<u32>,
}

/// A step and the handles it works on.
struct Staged {
    step: Step,
    dir: Dir,
    /// The directory of a rename's new path.
    to_dir: Option<Dir>,
}

impl Inner {
    pub(crate) fn apply(&self, changes: &[Change]) -> Result<Applied, WorkspaceError> {
        if self.access == Access::ReadOnly {
            return Err(WorkspaceError::Denied("the workspace is read-only".into()));
        }
        let mut transaction = Transaction {
            host: self,
            journal: Journal::begin(&self.dir).map_err(|e| refusal(&e))?,
            steps: Vec::new(),
            made: Vec::new(),
        };
        let done = changes.iter().try_for_each(|change| transaction.stage(change)).and_then(|()| transaction.commit());
        match done {
            Ok(()) => {
                transaction.journal.finish();
                Ok(Applied { directories: u32::try_from(transaction.made.len()).unwrap_or(u32::MAX) })
            }
            Err(error) => {
                transaction.abandon();
                Err(error)
            }
        }
    }
}

struct Transaction<'a> {
    host: &'a Inner,
    journal: Journal,
    steps: Vec<Staged>,
    /// Directories made, under the root, outermost first.
    made: Vec<PathBuf>,
}

impl Transaction<'_> {
    fn stage(&mut self, change: &Change) -> Result<(), WorkspaceError> {
        let staged = match change {
            Change::Write { path, content, like } => {
                let target = self.target(path, true)?;
                self.stage_write(target, content, like.as_deref())?
            }
            Change::Remove { path } => {
                let target = self.entry(path)?;
                let step = Step::Take { dir: text(&target.parent)?, name: target.name, old: self.journal.next("old") };
                Staged { step, dir: target.dir, to_dir: None }
            }
            Change::Rename { from, to } => {
                let source = self.entry(from)?;
                let target = self.target(to, false)?;
                if target.mode.is_some() {
                    return Err(WorkspaceError::WrongKind("it exists already".into()));
                }
                let step = Step::Move {
                    dir: text(&source.parent)?,
                    name: source.name,
                    to_dir: text(&target.parent)?,
                    to_name: target.name,
                };
                Staged { step, dir: source.dir, to_dir: Some(target.dir) }
            }
        };
        self.steps.push(staged);
        Ok(())
    }

    fn stage_write(&mut self, target: Target, content: &[u8], like: Option<&str>) -> Result<Staged, WorkspaceError> {
        if target.mode.is_some() {
            // A rename needs no write permission on the old file, but a file that its owner made read-only was meant so.
            rustix::fs::accessat(&target.dir, &*target.name, rustix::fs::Access::WRITE_OK, AtFlags::EACCESS)
                .map_err(|_| WorkspaceError::Denied("permission denied: the file is read-only".into()))?;
        }
        let mode = match (target.mode, like) {
            (None, Some(like)) => Some(self.host.stat(like)?.mode),
            (mode, _) => mode,
        };
        let dir = text(&target.parent)?;
        let new = self.journal.next("new");
        self.journal.announce(&dir);
        let written = write_new(&target.dir, &new, content, mode.map(|m| m & 0o777));
        let step =
            Step::Put { dir, name: target.name, new, old: target.mode.is_some().then(|| self.journal.next("old")) };
        self.steps.push(Staged { step, dir: target.dir, to_dir: None });
        written.map_err(|e| refusal(&e))?;
        fail::fail_point!("apply-staged");
        self.steps.pop().ok_or(WorkspaceError::NotFound)
    }

    /// The last directory and the name to write to, links at the end followed as long as they stay inside.
    fn target(&mut self, path: &str, follow: bool) -> Result<Target, WorkspaceError> {
        let mut relative = self.host.relative(path)?;
        for _ in 0..MAX_LINKS {
            let (parent, name) = split(&relative)?;
            let dir = self.directory(&parent)?;
            self.check(&dir, &name)?;
            let found = match dir.symlink_metadata(&name) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => None,
                other => Some(other.map_err(|e| refusal(&e))?),
            };
            match found {
                Some(metadata) if follow && metadata.is_symlink() => {
                    let link = dir.read_link_contents(&name).map_err(|e| refusal(&e))?;
                    let absolute = link.is_absolute();
                    let link = link.to_str().ok_or(WorkspaceError::Outside)?;
                    relative = if absolute { self.host.relative(link)? } else { parent.join(link) };
                }
                Some(metadata) => {
                    if follow {
                        require_file(&metadata)?;
                    }
                    let mode = Some(metadata.permissions().mode() & 0o7777);
                    return Ok(Target { dir, parent, name, mode });
                }
                None => return Ok(Target { dir, parent, name, mode: None }),
            }
        }
        Err(WorkspaceError::Io { message: "too many symbolic links".into(), source: None })
    }

    /// An entry that must be there: a file, or a link, which is meant itself.
    fn entry(&mut self, path: &str) -> Result<Target, WorkspaceError> {
        let (parent, name) = split(&self.host.relative(path)?)?;
        let dir = open_directory(&self.host.dir, &parent).map_err(|e| refusal(&e))?;
        self.check(&dir, &name)?;
        let metadata = dir.symlink_metadata(&name).map_err(|e| refusal(&e))?;
        if !metadata.is_symlink() {
            require_file(&metadata)?;
        }
        Ok(Target { dir, parent, name, mode: Some(metadata.permissions().mode()) })
    }

    /// Opens a directory, and makes what is missing of it.
    fn directory(&mut self, parent: &Path) -> Result<Dir, WorkspaceError> {
        match open_directory(&self.host.dir, parent) {
            Ok(dir) => return Ok(dir),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) if is_escape(&error) => {
                let inside = self.host.at(&text(parent)?, |p| self.host.dir.open_dir(p))?;
                return Ok(inside);
            }
            Err(error) => return Err(refusal(&error)),
        }
        let mut prefix = PathBuf::new();
        for component in parent.components() {
            prefix.push(component);
            if self.host.dir.metadata(&prefix).is_ok() {
                continue;
            }
            let (above, name) = split(&prefix)?;
            self.check(&open_directory(&self.host.dir, &above).map_err(|e| refusal(&e))?, &name)?;
            match self.host.dir.create_dir(&prefix) {
                Ok(()) => self.made.push(prefix.clone()),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(refusal(&error)),
            }
        }
        open_directory(&self.host.dir, parent).map_err(|e| refusal(&e))
    }

    fn check(&self, dir: &Dir, name: &str) -> Result<(), WorkspaceError> {
        self.host.check_write(dir, name)
    }

    /// Writes the steps down, then takes them; on a failure those taken are undone.
    fn commit(&mut self) -> Result<(), WorkspaceError> {
        let several = self.steps.len() > 1;
        if several {
            self.journal.commit(self.steps.iter().map(|s| &s.step)).map_err(|e| refusal(&e))?;
        }
        fail::fail_point!("apply-committed");
        for at in 0..self.steps.len() {
            if let Err(error) = self.steps[at].forward(several) {
                self.journal.undo();
                for step in self.steps[..at].iter().rev() {
                    step.backward();
                }
                return Err(refusal(&error));
            }
            fail::fail_point!("apply-step");
        }
        self.journal.done();
        fail::fail_point!("apply-done");
        self.steps.iter().for_each(Staged::tidy);
        Ok(())
    }

    fn abandon(mut self) {
        self.steps.iter().for_each(Staged::tidy);
        for directory in self.made.iter().rev() {
            _ = self.host.dir.remove_dir(directory);
        }
        self.journal.finish();
    }
}

impl Staged {
    fn forward(&self, several: bool) -> io::Result<()> {
        forward(&self.step, &self.dir, self.to_dir.as_ref(), several)
    }

    fn backward(&self) {
        backward(&self.step, &self.dir, self.to_dir.as_ref());
    }

    fn tidy(&self) {
        tidy(&self.step, &self.dir);
    }
}

/// Takes a step. With `keep_old` what it replaces stays under a second name until the transaction is over.
pub(crate) fn forward(step: &Step, dir: &Dir, to_dir: Option<&Dir>, keep_old: bool) -> io::Result<()> {
    match step {
        Step::Put { name, new, old, .. } => {
            if let (Some(old), true) = (old, keep_old)
                && rustix::fs::linkat(dir, &**name, dir, &**old, AtFlags::empty()).is_err()
            {
                dir.copy(name, dir, old)?;
            }
            dir.rename(new, dir, name)
        }
        Step::Take { name, old, .. } if keep_old => dir.rename(name, dir, old),
        Step::Take { name, .. } => dir.remove_file(name),
        Step::Move { name, to_name, .. } => rename_new(dir, name, to_dir.unwrap_or(dir), to_name),
    }
}

/// Takes back a step that was taken.
pub(crate) fn backward(step: &Step, dir: &Dir, to_dir: Option<&Dir>) {
    _ = match step {
        Step::Put { name, old: Some(old), .. } | Step::Take { name, old, .. } => dir.rename(old, dir, name),
        Step::Put { name, old: None, .. } => dir.remove_file(name),
        Step::Move { name, to_name, .. } => rename_new(to_dir.unwrap_or(dir), to_name, dir, name),
    };
}

/// Removes what only the transaction needed.
pub(crate) fn tidy(step: &Step, dir: &Dir) {
    match step {
        Step::Put { new, old, .. } => {
            _ = dir.remove_file(new);
            _ = old.as_ref().map(|old| dir.remove_file(old));
        }
        Step::Take { old, .. } => _ = dir.remove_file(old),
        Step::Move { .. } => {}
    }
}

/// Renames without replacing what is at the new name.
fn rename_new(dir: &Dir, name: &str, to_dir: &Dir, to_name: &str) -> io::Result<()> {
    match rustix::fs::renameat_with(dir, name, to_dir, to_name, RenameFlags::NOREPLACE) {
        Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) if to_dir.symlink_metadata(to_name).is_err() => {
            dir.rename(name, to_dir, to_name)
        }
        other => other.map_err(io::Error::from),
    }
}

/// Makes a new file with this content; the name is never followed.
fn write_new(dir: &Dir, name: &str, content: &[u8], mode: Option<u32>) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o666).custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
    let mut file = dir.open_with(name, &options)?;
    fail::fail_point!("apply-writing", |_| Err(io::ErrorKind::StorageFull.into()));
    file.write_all(content)?;
    if let Some(mode) = mode {
        file.set_permissions(Permissions::from_mode(mode))?;
    }
    Ok(())
}

/// Directory and name of a path; one that ends in `..` or is the root itself names a directory.
fn split(path: &Path) -> Result<(PathBuf, String), WorkspaceError> {
    let name = path.file_name().and_then(|n| n.to_str());
    let name = name.ok_or_else(|| WorkspaceError::WrongKind("it is a directory, not a regular file".into()))?;
    let trailing = path.as_os_str().as_encoded_bytes().ends_with(b"/");
    if trailing || path.as_os_str().as_encoded_bytes().ends_with(b"/.") {
        return Err(WorkspaceError::WrongKind("it is a directory, not a regular file".into()));
    }
    Ok((path.parent().map(Path::to_owned).unwrap_or_default(), name.to_owned()))
}

/// Paths come from text, so this fails for a link target that is not text only.
fn text(path: &Path) -> Result<String, WorkspaceError> {
    path.to_str().map(str::to_owned).ok_or(WorkspaceError::Outside)
}

impl Inner {
    /// Applies the write guard to an entry of a resolved directory.
    pub(crate) fn check_write(&self, dir: &Dir, name: &str) -> Result<(), WorkspaceError> {
        let path = super::open::handle_path(dir.as_fd()).unwrap_or_else(|| self.roots.spellings[0].clone()).join(name);
        match self.guard.write(&self.roots.spellings[0], &path) {
            Some(refused) => Err(WorkspaceError::Denied(format!("it is a {}", refused.0))),
            None => Ok(()),
        }
    }
}
