//! Search through a workspace's own operations: for remote workspaces, and for single files everywhere.

use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

use gloveport::workspace::{FileKind, Stat, Workspace, WorkspaceError};
use ignore::Match;
use ignore::gitignore::Gitignore;
use tokio::runtime::Handle;

use super::ignored::{Ancestors, IGNORE_FILES, MAX_IGNORE_FILE, compile, judge};
use super::lines;
use super::page::Page;
use super::query::{Listing, Query};
use super::{Stop, prefix};
use crate::guard::Guard;
use crate::host::journal::is_own;

/// Entries of one directory.
const MAX_ENTRIES: usize = 100_000;
/// Bytes of one read: a frame of a remote, or a file of this machine.
const PIECE: usize = 1 << 20;
/// Directories within directories.
const MAX_DEPTH: usize = 256;

/// A workspace, asked from a blocking thread.
pub(crate) struct Remote<'a> {
    workspace: &'a dyn Workspace,
    runtime: Handle,
}

/// A walk under way.
struct Walk<'a> {
    guard: &'a Guard,
    query: &'a Query,
    stop: &'a Stop,
    page: Page,
    /// Ignore files above the searched directory.
    ancestors: Ancestors,
    /// Files by name with the time of their last change.
    named: Vec<(Option<std::time::SystemTime>, String)>,
}

impl<'a> Remote<'a> {
    pub(crate) fn new(workspace: &'a dyn Workspace) -> Self {
        Self { workspace, runtime: Handle::current() }
    }

    pub(crate) fn stat(&self, path: &str) -> Result<Stat, WorkspaceError> {
        self.runtime.block_on(self.workspace.stat(path))
    }

    fn read(&self, path: &str, at: u64, max: usize) -> Result<bytes::Bytes, WorkspaceError> {
        self.runtime.block_on(self.workspace.read(path, at, max))
    }

    /// Reads an ignore file, as far as one is looked at.
    fn read_small(&self, path: &str) -> Option<String> {
        let max = usize::try_from(MAX_IGNORE_FILE).unwrap_or(usize::MAX);
        Some(String::from_utf8_lossy(&self.read(path, 0, max).ok()?).into_owned())
    }

    /// Searches one file, whatever ignore files say: it was asked for by name.
    pub(crate) fn search_file(&self, query: &Query, path: &str, stop: &Stop) -> Result<Page, WorkspaceError> {
        let mut page = Page::new(query);
        if !query.wants(path) {
            return Ok(page);
        }
        if query.listing == Listing::Names {
            page.add_file(path);
            return Ok(page);
        }
        // A file that can't be read is an error here, and not a file without hits.
        self.read(path, 0, 1)?;
        let reader = FileReader { remote: self, path, at: 0, piece: bytes::Bytes::new() };
        page.add(path, lines::search(query, &mut query.searcher(), reader, stop));
        Ok(page)
    }

    /// Searches a directory in the order of paths.
    pub(crate) fn search(&self, guard: &Guard, query: &Query, path: &str, stop: &Stop) -> Result<Page, WorkspaceError> {
        let ancestors = Ancestors::new(&below_root(self.workspace, path), |file| self.read_small(file.to_str()?));
        let mut walk = Walk { guard, query, stop, page: Page::new(query), ancestors, named: Vec::new() };
        let start = prefix(path);
        self.walk(&mut walk, &start, "", &mut Vec::new())?;
        let Walk { mut page, mut named, .. } = walk;
        if query.listing == Listing::Names {
            named.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
            page.total = Some(named.len());
            named.iter().take(query.offset + query.limit).for_each(|(_, path)| page.add_file(path));
        }
        Ok(page)
    }

    /// `start` is what paths begin with, `below` the path under the searched directory. A subdirectory that can't be listed counts as skipped.
    #[expect(clippy::collapsible_match, reason = "a guard would hide that walking has an effect")]
    fn walk(
        &self,
        walk: &mut Walk<'_>,
        start: &str,
        below: &str,
        rules: &mut Vec<Gitignore>,
    ) -> Result<(), WorkspaceError> {
        let here = format!("{start}{below}");
        let directory = if here.is_empty() { "." } else { here.as_str() };
        let entries = self.runtime.block_on(self.workspace.list(directory, MAX_ENTRIES))?;
        let own = IGNORE_FILES.iter().filter(|name| entries.iter().any(|e| e.name == **name));
        let before = rules.len();
        for name in own {
            let text = self.read_small(&format!("{here}{name}")).unwrap_or_default();
            rules.push(compile(Path::new(below), &text));
        }
        for entry in entries {
            if walk.page.is_full() || walk.stop.is_set() || walk.stop.is_late() {
                break;
            }
            let path = format!("{below}{}", entry.name);
            let is_dir = entry.kind == FileKind::Directory;
            let ignored = || match judge(rules.iter().rev(), Path::new(&path), is_dir) {
                Match::Ignore(()) => true,
                Match::Whitelist(()) => false,
                Match::None => walk.ancestors.is_ignored(Path::new(&path), is_dir),
            };
            if entry.name.starts_with('.') || ignored() {
                continue;
            }
            match entry.kind {
                FileKind::Directory if below.matches('/').count() < MAX_DEPTH => {
                    if self.walk(walk, start, &format!("{path}/"), rules).is_err() {
                        walk.page.skipped += 1;
                    }
                }
                FileKind::File => self.visit(walk, start, &path),
                FileKind::Symlink => {
                    let outside = matches!(self.stat(&format!("{start}{path}")), Err(WorkspaceError::Outside));
                    walk.page.skipped += u64::from(outside);
                }
                _ => {}
            }
        }
        rules.truncate(before);
        Ok(())
    }

    fn visit(&self, walk: &mut Walk<'_>, start: &str, path: &str) {
        let full = format!("{start}{path}");
        if is_own(path) || !walk.query.wants(path) {
            return;
        }
        if walk.guard.read(&Path::new(self.workspace.root()).join(&full)).is_some() {
            walk.page.skipped += 1;
            return;
        }
        if walk.query.listing == Listing::Names {
            let modified = self.stat(&full).ok().and_then(|stat| stat.modified);
            walk.named.push((modified, full));
            return;
        }
        let reader = FileReader { remote: self, path: &full, at: 0, piece: bytes::Bytes::new() };
        let found = lines::search(walk.query, &mut walk.query.searcher(), reader, walk.stop);
        walk.page.add(&full, found);
    }
}

/// A searched directory's path under the root of the workspace, by its text alone.
fn below_root(workspace: &dyn Workspace, path: &str) -> PathBuf {
    let path = Path::new(path);
    let relative = path.strip_prefix(workspace.root()).unwrap_or(path);
    relative.components().filter(|part| !matches!(part, Component::CurDir | Component::RootDir)).collect()
}

/// A file of the workspace as a stream.
struct FileReader<'a> {
    remote: &'a Remote<'a>,
    path: &'a str,
    at: u64,
    piece: bytes::Bytes,
}

impl Read for FileReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.piece.is_empty() {
            self.piece = self.remote.read(self.path, self.at, PIECE).map_err(io::Error::other)?;
            self.at += self.piece.len() as u64;
        }
        let given = self.piece.split_to(self.piece.len().min(buffer.len()));
        buffer[..given.len()].copy_from_slice(&given);
        Ok(given.len())
    }
}
