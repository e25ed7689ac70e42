//! What is searched for, compiled once.

use globset::{GlobBuilder, GlobMatcher};
use gloveport::tool::ToolError;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder};

use super::{OutputMode, SearchFiles, Target};

/// Results in one answer.
const MAX_LIMIT: u64 = 10_000;
/// How far pages reach. Each file's hits are held until its turn, so this bounds memory.
const MAX_REACH: u64 = 50_000;
/// Lines of context on each side.
const MAX_CONTEXT: u64 = 50;
/// Bytes of a compiled expression.
const REGEX_SIZE: usize = 10 << 20;
/// Bytes of one line that the searcher may hold; a file with a longer one is skipped.
const MAX_LINE: usize = 64 << 20;

/// What an answer lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Listing {
    /// Matching lines.
    Lines,
    /// Files with a matching line.
    FilesWithMatch,
    /// Files with the number of matching lines.
    Counts,
    /// Files by name.
    Names,
}

/// A compiled search.
#[derive(Debug)]
pub(crate) struct Query {
    pub(crate) listing: Listing,
    pub(crate) matcher: Option<RegexMatcher>,
    names: Option<NamePattern>,
    file_glob: Option<NamePattern>,
    pub(crate) limit: usize,
    pub(crate) offset: usize,
    pub(crate) context: usize,
}

/// A pattern on names, or on paths if it holds a slash.
#[derive(Debug)]
enum NamePattern {
    Glob { matcher: GlobMatcher, on_path: bool },
    Substring(String),
}

impl Query {
    pub(crate) fn new(args: &SearchFiles) -> Result<Self, ToolError> {
        if args.pattern.is_empty() {
            return Err(ToolError::Arguments("argument 'pattern': must not be empty".into()));
        }
        if args.offset.saturating_add(args.limit.min(MAX_LIMIT)) > MAX_REACH {
            let text = format!("argument 'offset': offset and limit together must not exceed {MAX_REACH}");
            return Err(ToolError::Arguments(text));
        }
        let listing = match (args.target, args.output_mode) {
            (Target::Files, _) => Listing::Names,
            (Target::Content, OutputMode::Content) => Listing::Lines,
            (Target::Content, OutputMode::FilesOnly) => Listing::FilesWithMatch,
            (Target::Content, OutputMode::Count) => Listing::Counts,
        };
        let by_name = listing == Listing::Names;
        Ok(Self {
            listing,
            matcher: (!by_name).then(|| regex(&args.pattern)).transpose()?,
            names: by_name.then(|| NamePattern::new("pattern", &args.pattern)).transpose()?,
            file_glob: args.file_glob.as_deref().map(|glob| NamePattern::glob("file_glob", glob)).transpose()?,
            limit: usize::try_from(args.limit.clamp(1, MAX_LIMIT)).unwrap_or(1),
            offset: usize::try_from(args.offset).unwrap_or(0),
            context: usize::try_from(args.context.min(MAX_CONTEXT)).unwrap_or(0),
        })
    }

    /// Results that have to be seen to fill the page and to know whether there are more.
    pub(crate) fn reach(&self) -> usize {
        self.offset + self.limit + 1
    }

    /// Whether a file is looked at, by its path under the searched directory.
    pub(crate) fn wants(&self, path: &str) -> bool {
        let name = path.rsplit('/').next().unwrap_or(path);
        [&self.names, &self.file_glob].into_iter().flatten().all(|pattern| pattern.is_match(path, name))
    }

    /// A searcher with this query's context. Bounded memory, no memory maps (a file that shrinks under one kills the process).
    pub(crate) fn searcher(&self) -> Searcher {
        SearcherBuilder::new()
            .line_number(true)
            .before_context(self.context)
            .after_context(self.context)
            .binary_detection(BinaryDetection::quit(0))
            .heap_limit(Some(MAX_LINE))
            .build()
    }
}

fn regex(pattern: &str) -> Result<RegexMatcher, ToolError> {
    let built = RegexMatcherBuilder::new()
        .multi_line(true)
        .line_terminator(Some(b'\n'))
        .ban_byte(Some(0))
        .size_limit(REGEX_SIZE)
        .dfa_size_limit(REGEX_SIZE)
        .build(pattern);
    built.map_err(|error| {
        let text = error.to_string();
        ToolError::Arguments(format!("argument 'pattern': not a valid regular expression: {}", text.trim()))
    })
}

impl NamePattern {
    fn new(argument: &str, pattern: &str) -> Result<Self, ToolError> {
        if pattern.contains(['*', '?', '[', '{']) {
            return Self::glob(argument, pattern);
        }
        Ok(Self::Substring(pattern.to_owned()))
    }

    fn glob(argument: &str, pattern: &str) -> Result<Self, ToolError> {
        let on_path = pattern.contains('/');
        let pattern = pattern.strip_prefix("./").unwrap_or(pattern);
        let glob = GlobBuilder::new(pattern).literal_separator(true).build().map_err(|error| {
            ToolError::Arguments(format!("argument '{argument}': not a valid glob: {}", error.kind()))
        })?;
        Ok(Self::Glob { matcher: glob.compile_matcher(), on_path })
    }

    fn is_match(&self, path: &str, name: &str) -> bool {
        match self {
            Self::Glob { matcher, on_path } => matcher.is_match(if *on_path { path } else { name }),
            Self::Substring(part) if part.contains('/') => path.contains(part.as_str()),
            Self::Substring(part) => name.contains(part.as_str()),
        }
    }
}
