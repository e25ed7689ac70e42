//! Ignore files above a searched directory, up to the root of the workspace and not beyond it.

use std::path::{Path, PathBuf};

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

/// Names of ignore files, the weakest first.
pub(crate) const IGNORE_FILES: [&str; 3] = [".gitignore", ".ignore", ".rgignore"];

/// Bytes of an ignore file that are looked at.
pub(crate) const MAX_IGNORE_FILE: u64 = 1 << 20;

/// The ignore files of the directories above the searched one, nearest first.
#[derive(Debug, Default)]
pub(crate) struct Ancestors {
    rules: Vec<Gitignore>,
    /// The searched directory, under the root.
    base: PathBuf,
}

impl Ancestors {
    /// Reads ignore files with `read`, which gets paths under the root.
    pub(crate) fn new(base: &Path, read: impl Fn(&Path) -> Option<String>) -> Self {
        let mut rules = Vec::new();
        for directory in base.ancestors().skip(1) {
            let texts = IGNORE_FILES.iter().rev().filter_map(|name| Some((name, read(&directory.join(name))?)));
            rules.extend(texts.map(|(_, text)| compile(directory, &text)));
        }
        Self { rules, base: base.to_owned() }
    }

    /// Whether an entry under the searched directory is left out.
    pub(crate) fn is_ignored(&self, path: &Path, is_dir: bool) -> bool {
        if self.rules.is_empty() {
            return false;
        }
        let full = self.base.join(path);
        judge(&self.rules, &full, is_dir).is_ignore()
    }
}

/// What ignore files say of a path, the nearest first.
pub(crate) fn judge<'a>(rules: impl IntoIterator<Item = &'a Gitignore>, path: &Path, is_dir: bool) -> Match<()> {
    let mut judgments = rules.into_iter().map(|rule| rule.matched(path, is_dir).map(|_| ()));
    judgments.find(|judgment| !judgment.is_none()).unwrap_or(Match::None)
}

/// Compiles one ignore file; lines that are no patterns are left out, as git does.
pub(crate) fn compile(directory: &Path, text: &str) -> Gitignore {
    let mut builder = GitignoreBuilder::new(directory);
    for line in text.lines() {
        _ = builder.add_line(None, line);
    }
    builder.build().unwrap_or_else(|_| Gitignore::empty())
}
