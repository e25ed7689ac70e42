//! Search on this machine: one thread walks in the order of paths, others search, and the page takes results in that order.
//!
//! The walker (crate `ignore`) goes by path, below `/proc/self/fd/N` of the searched directory's handle. What it reports is a hint only: each
//! file is opened beneath the handle without following any link, so a directory that becomes a link meanwhile shows nothing from outside.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt};
use gloveport::workspace::{Workspace, WorkspaceError};
use ignore::{DirEntry, Walk, WalkBuilder};
use rustix::fs::{FileType, OFlags};
use rustix::io::Errno;

use super::ignored::{Ancestors, MAX_IGNORE_FILE};
use super::lines::{self, FileHits};
use super::page::Page;
use super::query::{Listing, Query};
use super::{Stop, prefix};
use crate::guard::Guard;
use crate::host::journal::is_own;
use crate::host::open::{handle_path, is_escape};

/// Threads that search; two keep up with one that walks.
const MAX_WORKERS: usize = 4;
/// Files that wait for a thread.
const QUEUE: usize = 256;

/// A search under way.
struct Search<'a> {
    workspace: &'a dyn Workspace,
    guard: &'a Guard,
    query: &'a Query,
    stop: &'a Stop,
    /// The searched directory.
    dir: Dir,
    /// The root of the workspace, for ignore files above the searched directory.
    root: Dir,
    /// The searched directory's path under the root, free of links.
    base: PathBuf,
    /// What stands before each path in the answer.
    prefix: String,
}

/// Searches a directory of this machine.
pub(crate) fn search(
    workspace: &dyn Workspace,
    guard: &Guard,
    query: &Query,
    path: &str,
    stop: &Stop,
) -> Result<Page, WorkspaceError> {
    let gone = || WorkspaceError::Io { message: "the workspace is not on this machine".into(), source: None };
    let open = |path| workspace.open_host_dir(path).unwrap_or_else(|| Err(gone()));
    let (root, dir) = (open(".")?, open(path)?);
    let real = |handle: &OwnedFd| handle_path(handle);
    let base = real(&dir).zip(real(&root)).and_then(|(dir, root)| Some(dir.strip_prefix(root).ok()?.to_owned()));
    let base = base.unwrap_or_else(|| PathBuf::from(path));
    if guard.read(&Path::new(workspace.root()).join(&base).join("x")).is_some() {
        return Err(WorkspaceError::Denied("it is a credential file".into()));
    }
    let (root, dir) = (Dir::from_std_file(File::from(root)), Dir::from_std_file(File::from(dir)));
    let search = Search { workspace, guard, query, stop, dir, root, base, prefix: prefix(path) };
    Ok(match query.listing {
        Listing::Names => search.by_name(),
        _ => search.by_content(),
    })
}

impl Search<'_> {
    /// Walks files in the order of paths. Links and entries that must not be read are counted and left out.
    fn walk<'a>(&'a self, skipped: &'a Mutex<u64>) -> impl Iterator<Item = PathBuf> + 'a {
        let ancestors = Ancestors::new(&self.base, |path| read_small(&self.root, path));
        walk_below(&self.dir, ancestors, self.guard.clone(), Path::new(self.workspace.root()).join(&self.base))
            .take_while(|_| !self.stop.is_set() && !self.stop.is_late())
            .flatten()
            .filter_map(move |entry| {
                let relative = entry.path().strip_prefix(handle_root(&self.dir)).ok()?;
                let kind = entry.file_type()?;
                let shown = relative.to_string_lossy();
                let leads_out = || kind.is_symlink() && self.dir.metadata(relative).is_err_and(|e| is_escape(&e));
                let secret = || kind.is_file() && self.guard.is_secret_name(entry.file_name());
                if leads_out() || secret() {
                    *skipped.lock().unwrap_or_else(PoisonError::into_inner) += 1;
                    return None;
                }
                (kind.is_file() && !is_own(&entry.file_name().to_string_lossy()) && self.query.wants(&shown))
                    .then(|| relative.to_owned())
            })
    }

    /// A path as an answer names it. Bytes that are not UTF-8 are shown with replacement characters.
    fn shown(&self, path: &Path) -> String {
        format!("{}{}", self.prefix, path.display())
    }

    fn by_name(&self) -> Page {
        let skipped = Mutex::new(0);
        let reach = self.query.offset + self.query.limit;
        let mut newest = BinaryHeap::new();
        let mut total = 0;
        for path in self.walk(&skipped) {
            // Opening proves that the name is inside; the walker alone might have been led out.
            let Some(modified) = modified_beneath(&self.dir, &path) else { continue };
            total += 1;
            newest.push((Reverse(modified), path));
            if newest.len() > reach {
                newest.pop();
            }
        }
        let mut page = Page::new(self.query);
        page.skipped = skipped.into_inner().unwrap_or_else(PoisonError::into_inner);
        for (_, path) in newest.into_sorted_vec() {
            page.add_file(&self.shown(&path));
        }
        page.total = Some(total);
        page
    }

    fn by_content(&self) -> Page {
        let skipped = Mutex::new(0);
        let workers = std::thread::available_parallelism().map_or(1, usize::from).min(MAX_WORKERS);
        let (send_path, take_path) = sync_channel::<(usize, PathBuf)>(QUEUE);
        let (send_found, take_found) = sync_channel(QUEUE);
        let take_path = Mutex::new(take_path);
        let mut page = Page::new(self.query);
        std::thread::scope(|scope| {
            for _ in 0..workers {
                let send_found = send_found.clone();
                let take_path = &take_path;
                scope.spawn(move || self.work(take_path, &send_found));
            }
            drop(send_found);
            scope.spawn(|| {
                for numbered in self.walk(&skipped).enumerate() {
                    if send_path.send(numbered).is_err() {
                        break;
                    }
                }
                drop(send_path);
            });
            self.collect(&mut page, &take_found);
        });
        page.skipped += skipped.into_inner().unwrap_or_else(PoisonError::into_inner);
        page
    }

    /// Takes results in the order of paths, whatever order they come in. Once the page is full, the rest is only let run out.
    fn collect(&self, page: &mut Page, found: &Receiver<(usize, PathBuf, FileHits)>) {
        let mut waiting = BTreeMap::new();
        let mut next = 0;
        for (number, path, hits) in found {
            if page.is_full() {
                continue;
            }
            waiting.insert(number, (path, hits));
            while let Some((path, hits)) = waiting.remove(&next) {
                next += 1;
                page.add(&self.shown(&path), hits);
                if page.is_full() {
                    self.stop.set();
                    break;
                }
            }
        }
        for (path, hits) in waiting.into_values() {
            if !page.is_full() {
                page.add(&self.shown(&path), hits);
            }
        }
    }

    fn work(&self, paths: &Mutex<Receiver<(usize, PathBuf)>>, found: &SyncSender<(usize, PathBuf, FileHits)>) {
        let mut searcher = self.query.searcher();
        loop {
            let next = paths.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok((number, path)) = next else { return };
            let hits = match open_beneath(&self.dir, &path) {
                Some(file) if !self.stop.is_set() => lines::search(self.query, &mut searcher, file, self.stop),
                _ => FileHits::default(),
            };
            if found.send((number, path, hits)).is_err() {
                return;
            }
        }
    }
}

fn walk_below(dir: &Dir, ancestors: Ancestors, guard: Guard, base: PathBuf) -> Walk {
    let root = handle_root(dir);
    let top = root.clone();
    WalkBuilder::new(root)
        .follow_links(false)
        .hidden(true)
        .parents(false)
        .git_global(false)
        .require_git(false)
        .sort_by_file_name(Ord::cmp)
        .filter_entry(move |entry| keep_entry(entry, &top, &ancestors, &guard, &base))
        .build()
}

/// Whether the walk goes into a directory or reports a file.
fn keep_entry(entry: &DirEntry, top: &Path, ancestors: &Ancestors, guard: &Guard, base: &Path) -> bool {
    if entry.depth() == 0 {
        return true;
    }
    let Ok(relative) = entry.path().strip_prefix(top) else { return false };
    let is_dir = entry.file_type().is_some_and(|t| t.is_dir());
    !(ancestors.is_ignored(relative, is_dir) || is_dir && guard.read(&base.join(relative).join("x")).is_some())
}

/// A path that means the handle itself. The trailing `.` makes the kernel go through it instead of showing the link.
#[cfg(target_os = "linux")]
fn handle_root(dir: &Dir) -> PathBuf {
    use std::os::fd::AsRawFd;
    PathBuf::from(format!("/proc/self/fd/{}/.", dir.as_fd().as_raw_fd()))
}

/// Elsewhere the walk goes by the path that the handle had when it was opened; what it reports is opened through the handle all the same.
#[cfg(not(target_os = "linux"))]
fn handle_root(dir: &Dir) -> PathBuf {
    crate::host::open::handle_path(dir).unwrap_or_else(|| PathBuf::from("."))
}

/// Opens a regular file without following any link, within the directory.
fn open_beneath(dir: &Dir, path: &Path) -> Option<File> {
    let file = match openat2(dir, path, OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::RDONLY) {
        Ok(file) => File::from(file),
        Err(Errno::NOSYS | Errno::PERM) => {
            let mut options = OpenOptions::new();
            let flags = OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOFOLLOW;
            options.read(true).custom_flags(flags.bits().cast_signed());
            dir.open_with(path, &options).ok()?.into_std()
        }
        Err(_) => return None,
    };
    let stat = rustix::fs::fstat(&file).ok()?;
    FileType::from_raw_mode(stat.st_mode).is_file().then_some(file)
}

/// When a regular file within the directory was changed last. Nothing is read, so it need not be readable.
fn modified_beneath(dir: &Dir, path: &Path) -> Option<SystemTime> {
    let (mode, seconds, nanoseconds) = match openat2(dir, path, OFlags::PATH) {
        Ok(file) => {
            let stat = rustix::fs::fstat(&file).ok()?;
            (stat.st_mode, stat.st_mtime, u32::try_from(stat.st_mtime_nsec).ok()?)
        }
        Err(Errno::NOSYS | Errno::PERM) => {
            let metadata = dir.symlink_metadata(path).ok()?;
            return metadata
                .is_file()
                .then(|| metadata.modified().ok().map(cap_std::time::SystemTime::into_std))
                .flatten();
        }
        Err(_) => return None,
    };
    let since = Duration::new(u64::try_from(seconds).unwrap_or(0), nanoseconds);
    FileType::from_raw_mode(mode).is_file().then_some(SystemTime::UNIX_EPOCH + since)
}

/// The kernel's own resolution, which refuses every link. `NOSYS` or `PERM` where it is missing or forbidden.
#[cfg(target_os = "linux")]
fn openat2(dir: &Dir, path: &Path, how: OFlags) -> Result<OwnedFd, Errno> {
    use rustix::fs::{Mode, ResolveFlags};
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    rustix::fs::openat2(dir, path, how | OFlags::CLOEXEC | OFlags::NOFOLLOW, Mode::empty(), resolve)
}

/// Other systems resolve through cap-std.
#[cfg(not(target_os = "linux"))]
fn openat2(_: &Dir, _: &Path, _: OFlags) -> Result<OwnedFd, Errno> {
    Err(Errno::NOSYS)
}

fn read_small(root: &Dir, path: &Path) -> Option<String> {
    let mut text = String::new();
    open_beneath(root, path)?.take(MAX_IGNORE_FILE).read_to_string(&mut text).ok()?;
    Some(text)
}
