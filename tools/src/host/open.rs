//! Opening and looking: every path goes through the root handle, and only regular files and directories are opened.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use cap_std::fs::{Dir, FileTypeExt, Metadata, MetadataExt, OpenOptions, OpenOptionsExt};
use gloveport::workspace::{Entry, FileKind, Stat, WorkspaceError};
use rustix::fs::OFlags;

use super::Inner;

/// Links that a path may hold when absolute ones are rewritten; the kernel's own limit.
const MAX_LINKS: usize = 40;

impl Inner {
    /// Does `op` on the path under the root handle. A link that names a place inside by an absolute path is rewritten and tried once more;
    /// the handle confines the second try just as the first.
    pub(crate) fn at<T>(&self, path: &str, op: impl Fn(&Path) -> io::Result<T>) -> Result<T, WorkspaceError> {
        let relative = self.relative(path)?;
        match op(&relative) {
            Err(error) if is_escape(&error) => {
                let rewritten = self.follow_absolute_links(relative).ok_or(WorkspaceError::Outside)?;
                op(&rewritten).map_err(|e| refusal(&e))
            }
            other => other.map_err(|e| refusal(&e)),
        }
    }

    /// The path under the root handle.
    pub(crate) fn relative(&self, path: &str) -> Result<PathBuf, WorkspaceError> {
        if path.contains('\0') {
            return Err(WorkspaceError::Denied("a path must not contain a NUL character".into()));
        }
        if path.is_empty() {
            return Err(WorkspaceError::NotFound);
        }
        self.roots.relative(path).ok_or(WorkspaceError::Outside)
    }

    /// Replaces every link on the way by its target, until none is left or one leads outside.
    fn follow_absolute_links(&self, path: PathBuf) -> Option<PathBuf> {
        let mut path = path;
        'restart: for _ in 0..MAX_LINKS {
            let mut prefix = PathBuf::new();
            let mut rest = path.components();
            while let Some(component) = rest.next() {
                let parent = prefix.clone();
                prefix.push(component);
                let Ok(target) = self.dir.read_link_contents(&prefix) else { continue };
                let tail = rest.as_path();
                let target =
                    if target.is_absolute() { self.roots.relative(target.to_str()?)? } else { parent.join(target) };
                path = if tail.as_os_str().is_empty() { target } else { target.join(tail) };
                continue 'restart;
            }
            return Some(path);
        }
        None
    }

    /// Opens a regular file for reading. What is not one is refused before it is opened, and again after, should it have been swapped.
    pub(crate) fn open_file(&self, path: &str) -> Result<(File, Metadata), WorkspaceError> {
        let stat = self.at(path, |p| self.dir.metadata(p))?;
        require_file(&stat)?;
        let mut options = OpenOptions::new();
        options.read(true).custom_flags((OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed());
        let file = self.at(path, |p| self.dir.open_with(p, &options))?;
        let metadata = file.metadata().map_err(|e| refusal(&e))?;
        require_file(&metadata)?;
        if let Some(refused) = self.guard.read(&self.real_path(file.as_fd(), path)) {
            return Err(WorkspaceError::Denied(format!("it is a {}", refused.0)));
        }
        Ok((file.into_std(), metadata))
    }

    /// Where an open handle really is, for the guard. Without `/proc` it is the path's own text.
    pub(crate) fn real_path(&self, handle: impl AsFd, path: &str) -> PathBuf {
        handle_path(handle).unwrap_or_else(|| self.roots.spellings[0].join(path))
    }

    pub(crate) fn stat(&self, path: &str) -> Result<Stat, WorkspaceError> {
        let metadata = self.at(path, |p| self.dir.metadata(p))?;
        Ok(Stat {
            kind: kind_of(&metadata),
            len: metadata.len(),
            modified: metadata.modified().ok().map(cap_std::time::SystemTime::into_std),
            mode: metadata.mode() & 0o7777,
        })
    }

    pub(crate) fn read(&self, path: &str, offset: u64, max: usize) -> Result<Bytes, WorkspaceError> {
        let (mut file, metadata) = self.open_file(path)?;
        let expected = usize::try_from(metadata.len().saturating_sub(offset)).unwrap_or(max).min(max);
        let mut content = Vec::with_capacity(expected);
        file.seek(SeekFrom::Start(offset)).map_err(|e| refusal(&e))?;
        file.take(max as u64).read_to_end(&mut content).map_err(|e| refusal(&e))?;
        Ok(content.into())
    }

    pub(crate) fn list(&self, path: &str, max: usize) -> Result<Vec<Entry>, WorkspaceError> {
        let metadata = self.at(path, |p| self.dir.metadata(p))?;
        if !metadata.is_dir() {
            return Err(WorkspaceError::WrongKind("it is not a directory".into()));
        }
        let mut entries = Vec::new();
        for entry in self.at(path, |p| self.dir.read_dir(p))?.take(max) {
            let entry = entry.map_err(|e| refusal(&e))?;
            let kind = entry.file_type().map_or(FileKind::Special, |t| match t {
                t if t.is_file() => FileKind::File,
                t if t.is_dir() => FileKind::Directory,
                t if t.is_symlink() => FileKind::Symlink,
                _ => FileKind::Special,
            });
            entries.push(Entry { name: entry.file_name().to_string_lossy().into_owned(), kind });
        }
        entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }
}

/// Where an open handle is, free of links.
pub(crate) fn handle_path(handle: impl AsFd) -> Option<PathBuf> {
    use std::os::fd::AsRawFd;
    use std::os::unix::ffi::OsStringExt;
    let name = format!("/proc/self/fd/{}", handle.as_fd().as_raw_fd());
    let target = rustix::fs::readlink(name, Vec::new()).ok()?;
    Some(PathBuf::from(std::ffi::OsString::from_vec(target.into_bytes())))
}

/// What a descriptor is for, in the words of a refusal.
pub(crate) fn require_file(metadata: &Metadata) -> Result<(), WorkspaceError> {
    let file_type = metadata.file_type();
    let what = match file_type {
        t if t.is_file() => return Ok(()),
        t if t.is_dir() => "a directory",
        t if t.is_fifo() => "a FIFO",
        t if t.is_socket() => "a socket",
        t if t.is_char_device() || t.is_block_device() => "a device",
        _ => "a special file",
    };
    Err(WorkspaceError::WrongKind(format!("it is {what}, not a regular file")))
}

pub(crate) fn kind_of(metadata: &Metadata) -> FileKind {
    match metadata.file_type() {
        t if t.is_file() => FileKind::File,
        t if t.is_dir() => FileKind::Directory,
        t if t.is_symlink() => FileKind::Symlink,
        _ => FileKind::Special,
    }
}

/// Opens a directory below `dir` through the handle.
pub(crate) fn open_directory(dir: &Dir, path: &Path) -> io::Result<Dir> {
    if path.as_os_str().is_empty() { dir.open_dir(".") } else { dir.open_dir(path) }
}

/// Whether the handle refused because the path left the workspace: cap-std's own error has no number of the system.
pub(crate) fn is_escape(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::PermissionDenied && error.raw_os_error().is_none()
}

/// One sentence without host paths.
pub(crate) fn refusal(error: &io::Error) -> WorkspaceError {
    if is_escape(error) {
        return WorkspaceError::Outside;
    }
    let io = |message: &str| WorkspaceError::Io { message: message.to_owned(), source: None };
    match error.kind() {
        io::ErrorKind::NotFound => WorkspaceError::NotFound,
        io::ErrorKind::PermissionDenied => WorkspaceError::Denied("permission denied".into()),
        io::ErrorKind::ReadOnlyFilesystem => WorkspaceError::Denied("the file system is read-only".into()),
        io::ErrorKind::NotADirectory => WorkspaceError::WrongKind("a part of the path is not a directory".into()),
        io::ErrorKind::IsADirectory => WorkspaceError::WrongKind("it is a directory, not a regular file".into()),
        io::ErrorKind::DirectoryNotEmpty => WorkspaceError::WrongKind("the directory is not empty".into()),
        io::ErrorKind::AlreadyExists => WorkspaceError::WrongKind("it exists already".into()),
        io::ErrorKind::StorageFull => io("no space left on the device"),
        io::ErrorKind::QuotaExceeded => io("disk quota exceeded"),
        io::ErrorKind::InvalidFilename => io("the file name is too long"),
        io::ErrorKind::FileTooLarge => io("the file is too large"),
        _ if error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => io("too many symbolic links"),
        _ if error.raw_os_error() == Some(rustix::io::Errno::NXIO.raw_os_error()) => {
            WorkspaceError::WrongKind("it is a special file, not a regular file".into())
        }
        _ => {
            let text = error.to_string();
            let text = text.split(" (os error").next().unwrap_or_default().to_lowercase();
            WorkspaceError::Io { message: text, source: None }
        }
    }
}
