//! Search on this machine: one thread walks in the order of paths, others search, and the page takes results in that order.
//!
//! The walker (crate `ignore`) goes by path, below `/proc/self/fd/N` of the searched directory's handle. What it reports is a hint only: each
//! file is opened beneath the handle without following any link, so a directory that becomes a link meanwhile shows nothing from outside.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt};
use gloveport::workspace::{Workspace, WorkspaceError};
use grep_searcher::Searcher;
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
/// Files that a thread takes at once.
const BATCH: usize = 32;
/// Batches that wait for a thread.
const QUEUE: usize = 16;
/// Batches that may be ahead of the one whose turn it is.
const MAX_AHEAD: usize = 64;
/// Hits that may wait for their turn.
const MAX_WAITING: usize = 100_000;

/// What a path came to: the hits of a file, or `None` for what was skipped.
type Found = Option<(PathBuf, FileHits)>;
/// Paths with the number of their batch; `None` for what is skipped.
type Batch = (usize, Vec<Option<PathBuf>>);

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
    /// Walks files in the order of paths. `None` stands for a link that leads out or a file that must not be read.
    fn walk(&self) -> impl Iterator<Item = Option<PathBuf>> + '_ {
        let ancestors = Ancestors::new(&self.base, |path| read_small(&self.root, path));
        let top = handle_root(&self.dir);
        walk_below(&self.dir, ancestors, self.guard.clone(), Path::new(self.workspace.root()).join(&self.base))
            .take_while(|_| !self.stop.is_set() && !self.stop.is_late())
            .flatten()
            .filter_map(move |entry| {
                let relative = below(entry.path(), &top)?;
                let kind = entry.file_type()?;
                if kind.is_symlink() {
                    return self.dir.metadata(relative).is_err_and(|e| is_escape(&e)).then_some(None);
                }
                let own = || is_own(&entry.file_name().to_string_lossy());
                let wanted = kind.is_file() && self.query.wants(&relative.to_string_lossy()) && !own();
                if wanted && self.guard.is_secret_name(entry.file_name()) {
                    return Some(None);
                }
                wanted.then(|| Some(relative.to_owned()))
            })
    }

    /// A path as an answer names it. Bytes that are not UTF-8 are shown with replacement characters.
    fn shown(&self, path: &Path) -> String {
        format!("{}{}", self.prefix, path.display())
    }

    fn by_name(&self) -> Page {
        let mut page = Page::new(self.query);
        let reach = self.query.offset + self.query.limit;
        let mut newest = BinaryHeap::new();
        let mut total = 0;
        for path in self.walk() {
            let Some(path) = path else {
                page.skipped += 1;
                continue;
            };
            // Opening proves that the name is inside; the walker alone might have been led out.
            let Some(modified) = modified_beneath(&self.dir, &path) else { continue };
            total += 1;
            newest.push((Reverse(modified), path));
            if newest.len() > reach {
                newest.pop();
            }
        }
        for (_, path) in newest.into_sorted_vec() {
            page.add_file(&self.shown(&path));
        }
        page.total = Some(total);
        page
    }

    fn by_content(&self) -> Page {
        let workers = std::thread::available_parallelism().map_or(1, usize::from).min(MAX_WORKERS);
        let (send_path, take_path) = sync_channel(QUEUE);
        let (send_found, take_found) = sync_channel(QUEUE);
        let take_path = Mutex::new(take_path);
        let ahead = &Ahead::default();
        let mut page = Page::new(self.query);
        std::thread::scope(|scope| {
            for _ in 0..workers {
                let send_found = send_found.clone();
                let take_path = &take_path;
                scope.spawn(move || self.work(take_path, &send_found, ahead));
            }
            drop(send_found);
            scope.spawn(move || {
                // The first files go one by one, so that the first results are there at once.
                let mut walk = self.walk();
                for number in 0.. {
                    ahead.admit(number, self.stop);
                    let batch: Vec<_> = walk.by_ref().take(number.clamp(1, BATCH)).collect();
                    if batch.is_empty() || send_path.send((number, batch)).is_err() {
                        break;
                    }
                }
            });
            self.collect(&mut page, &take_found, ahead);
        });
        page
    }

    /// Takes results in the order of paths, whatever order they come in. Once the page is full, the rest is only let run out.
    fn collect(&self, page: &mut Page, found: &Receiver<(usize, Vec<Found>)>, ahead: &Ahead) {
        let mut waiting = BTreeMap::new();
        let mut next = 0;
        for (number, batch) in found {
            if page.is_full() {
                continue;
            }
            waiting.insert(number, batch);
            let mut taken = 0;
            while let Some(batch) = waiting.remove(&next) {
                next += 1;
                taken += batch.iter().flatten().map(|(_, found)| found.hits.len()).sum::<usize>();
                self.take(page, batch);
            }
            if page.is_full() {
                self.stop.set();
            }
            ahead.move_to(next, taken);
        }
        waiting.into_values().for_each(|batch| self.take(page, batch));
    }

    fn take(&self, page: &mut Page, batch: Vec<Found>) {
        for found in batch {
            match found {
                _ if page.is_full() => return,
                Some((path, hits)) => page.add(&self.shown(&path), hits),
                None => page.skipped += 1,
            }
        }
    }

    fn search_one(&self, searcher: &mut Searcher, path: PathBuf) -> (PathBuf, FileHits) {
        let hits = match open_beneath(&self.dir, &path) {
            Some(file) if !self.stop.is_set() => lines::search(self.query, searcher, file, self.stop),
            _ => FileHits::default(),
        };
        (path, hits)
    }

    fn work(&self, paths: &Mutex<Receiver<Batch>>, found: &SyncSender<(usize, Vec<Found>)>, ahead: &Ahead) {
        let mut searcher = self.query.searcher();
        loop {
            let next = paths.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok((number, batch)) = next else { return };
            let results = batch.into_iter().map(|path| {
                let path = path?;
                ahead.go_on(number, self.stop);
                let found = self.search_one(&mut searcher, path);
                ahead.add(found.1.hits.len());
                Some(found)
            });
            if found.send((number, results.collect())).is_err() {
                return;
            }
        }
    }
}

/// Keeps threads from running far ahead of the slowest one, so that results that wait for their turn are bounded.
#[derive(Default)]
struct Ahead {
    /// The batch whose turn it is, and the hits that wait for theirs.
    turn: Mutex<(usize, usize)>,
    moved: Condvar,
}

impl Ahead {
    /// Holds up the walk while too many batches are under way.
    fn admit(&self, number: usize, stop: &Stop) {
        self.wait_while(stop, |&(turn, _)| number >= turn + MAX_AHEAD);
    }

    /// Holds up work on a batch while too many hits wait. The one whose turn it is goes on, so all of them get there.
    fn go_on(&self, number: usize, stop: &Stop) {
        self.wait_while(stop, |&(turn, held)| held > MAX_WAITING && number != turn);
    }

    fn wait_while(&self, stop: &Stop, condition: impl Fn(&(usize, usize)) -> bool) {
        let mut turn = self.lock();
        while condition(&turn) && !stop.is_set() && !stop.is_late() {
            let waited = self.moved.wait_timeout(turn, Duration::from_millis(50));
            turn = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn add(&self, hits: usize) {
        if hits > 0 {
            self.lock().1 += hits;
        }
    }

    fn move_to(&self, number: usize, taken: usize) {
        let mut turn = self.lock();
        *turn = (number, turn.1 - taken.min(turn.1));
        drop(turn);
        self.moved.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, (usize, usize)> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
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

/// The part of a walked path below the top. The walker only ever adds to the top's own text, so no components have to be compared.
fn below<'a>(path: &'a Path, top: &Path) -> Option<&'a Path> {
    let rest = path.as_os_str().as_bytes().strip_prefix(top.as_os_str().as_bytes())?;
    Some(Path::new(OsStr::from_bytes(rest.strip_prefix(b"/").unwrap_or(rest))))
}

/// Whether the walk goes into a directory or reports a file.
fn keep_entry(entry: &DirEntry, top: &Path, ancestors: &Ancestors, guard: &Guard, base: &Path) -> bool {
    if entry.depth() == 0 {
        return true;
    }
    let Some(relative) = below(entry.path(), top) else { return false };
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
