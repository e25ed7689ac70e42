//! Secrets that are told by the name they are assigned to: `NAME=value`, `name: value`, JSON, YAML, Python's `repr`,
//! headers, query strings, command-line flags.
//!
//! A name counts if its last word says so (`api_key`, `DB_PASS`, `clientSecret`), not if it merely contains such a
//! word (`KEYBOARD`, `tokenizer`, `MAX_TOKENS`, `key_path`). What the value must look like is in the module `values`.

mod names;

use aho_corasick::{AhoCorasick, MatchKind};

use super::mask::Rank;
use super::redactor::Findings;
use super::scan;
use super::values;
use super::view::{MASKED, View};

pub(super) use names::Kind;

const FAMILY: &str = "assignment";
/// Longest name that is looked at.
const MAX_NAME: usize = 128;
/// Longest value: longer than any key in one piece.
const MAX_VALUE: usize = 8192;
/// White space around a separator.
const MAX_BLANKS: usize = 40;

/// How an assignment is written, which says how sure it is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    /// `NAME=value` as a shell writes it, or a quoted upper-case name with a quoted value as a dumped environment has.
    Environment,
    /// A header line, a query string, a flag.
    Wire,
    /// A quoted value.
    Quoted,
    /// A quoted value after a quoted name and a comma, which may as well be two items of a list.
    Listed,
    /// Anything else, such as YAML and code.
    Bare,
}

/// The literals by which names are found.
#[derive(Debug)]
pub(super) struct Keywords(AhoCorasick);

impl Keywords {
    pub(super) fn new() -> Result<Self, Box<aho_corasick::BuildError>> {
        let automaton = AhoCorasick::builder()
            .ascii_case_insensitive(true)
            .match_kind(MatchKind::LeftmostFirst)
            .build(names::STEMS)?;
        Ok(Self(automaton))
    }
}

/// Reports every assigned value in the view.
pub(super) fn find(keywords: &Keywords, view: &View<'_>, findings: &mut Findings<'_, '_>) {
    let bytes = view.bytes();
    let mut done = 0;
    let mut rejected = Rejected::default();
    for hit in keywords.0.find_iter(bytes) {
        if hit.start() < done {
            continue;
        }
        let name = Name::around(bytes, hit.start(), done);
        done = name.end.max(hit.end());
        if rejected.is_used_up(name.start) {
            continue;
        }
        let Some(kind) = name.kind(bytes) else {
            continue;
        };
        if let Some(assignment) = Assignment::parse(bytes, &name, kind) {
            let value = &bytes[assignment.start..assignment.end];
            if values::is_secret(value, kind, assignment.style) {
                findings.push(assignment.start..assignment.end, FAMILY, Rank::Context);
                done = done.max(assignment.end);
            } else {
                rejected.note(&assignment);
            }
        }
    }
}

/// Start of the first value in `line` whose name calls for a secret. The line may be unfinished, and the value empty.
pub(super) fn first_value(keywords: &Keywords, line: &str) -> Option<usize> {
    let bytes = line.as_bytes();
    let mut done = 0;
    for hit in keywords.0.find_iter(bytes) {
        if hit.start() < done {
            continue;
        }
        let name = Name::around(bytes, hit.start(), done);
        done = name.end.max(hit.end());
        if !name.is_too_long && name.meaning(bytes).is_none() {
            continue;
        }
        let junk = scan::run(bytes, name.end, MAX_BLANKS, |byte| {
            matches!(byte, b' ' | b'\t' | b'"' | b'\'' | b'\\' | b']' | b'`')
        });
        match bytes.get(name.end + junk) {
            Some(b'=' | b':' | b',') => {
                let at = name.end + junk + 1;
                return Some(at + blanks(bytes, at));
            }
            Some(_) if name.is_flag => return Some(name.end + junk),
            _ => {}
        }
    }
    None
}

/// A value that is no secret may hold names again, as in `env=API_KEY=…`. Only so many are looked at, or a text like
/// `key=key=key=…` would take quadratic time.
#[derive(Default)]
struct Rejected {
    end: usize,
    nested: usize,
}

impl Rejected {
    const MAX_NESTED: usize = 8;

    fn is_used_up(&mut self, name: usize) -> bool {
        if name >= self.end {
            self.nested = 0;
            return false;
        }
        self.nested += 1;
        // Separators inside make it a list, and each of its items a value of its own.
        self.nested > Self::MAX_NESTED
    }

    fn note(&mut self, assignment: &Assignment) {
        if assignment.style != Style::Quoted {
            self.end = self.end.max(assignment.end);
        }
    }
}

fn is_name(byte: u8) -> bool {
    scan::is_word(byte) || matches!(byte, b'-' | b'.')
}

/// A name in the text.
struct Name {
    start: usize,
    end: usize,
    is_too_long: bool,
    is_flag: bool,
}

impl Name {
    fn around(bytes: &[u8], hit: usize, done: usize) -> Self {
        let before = scan::run_back(&bytes[done..], hit - done, MAX_NAME + 1, is_name);
        let end = hit + scan::run(bytes, hit, usize::MAX, is_name);
        let mut start = hit - before;
        let is_too_long = end - start > MAX_NAME;
        let dashes = scan::run(bytes, start, 2, |byte| byte == b'-');
        start += dashes;
        // A written-out line break before a name is not part of it.
        if start > 0 && bytes[start - 1] == b'\\' && matches!(bytes[start], b'n' | b'r' | b't') && start < hit {
            start += 1;
        }
        let trailing = scan::run_back(bytes, end, MAX_NAME, |byte| matches!(byte, b'-' | b'.'));
        Self { start: start.min(hit), end: end - trailing.min(end - hit), is_too_long, is_flag: dashes > 0 }
    }

    fn kind(&self, bytes: &[u8]) -> Option<Kind> {
        // The part before a URL's host is looked at elsewhere.
        if self.is_too_long || bytes[..self.start].ends_with(b"://") {
            return None;
        }
        self.meaning(bytes)
    }

    /// What the name says, wherever it stands.
    fn meaning(&self, bytes: &[u8]) -> Option<Kind> {
        let name = &bytes[self.start..self.end];
        let name = name.rsplit(|byte| *byte == b'.').next().unwrap_or(name);
        let kind = names::kind(name)?;
        // "api key: …" in prose.
        if kind == Kind::PlainKey && self.start >= 2 && bytes[self.start - 1] == b' ' {
            let len = scan::run_back(bytes, self.start - 1, 16, |byte| byte.is_ascii_alphabetic());
            if names::qualifies(&bytes[self.start - 1 - len..self.start - 1]) {
                return Some(Kind::Key);
            }
        }
        Some(kind)
    }

    fn is_upper(&self, bytes: &[u8]) -> bool {
        let name = &bytes[self.start..self.end];
        name.iter().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || *byte == b'_')
    }
}

/// The value of an assignment and how it is written.
struct Assignment {
    start: usize,
    end: usize,
    style: Style,
}

/// A quotation mark, with the backslashes before it if it is escaped.
#[derive(Clone, Copy)]
struct Quote {
    mark: u8,
    slashes: usize,
    len: usize,
}

impl Quote {
    fn at(bytes: &[u8], at: usize) -> Option<Self> {
        let slashes = scan::run(bytes, at, 8, |byte| byte == b'\\');
        let mark = *bytes.get(at + slashes)?;
        if !matches!(mark, b'"' | b'\'' | b'`') {
            return None;
        }
        let count = scan::run(bytes, at + slashes, 3, |byte| byte == mark);
        let len = slashes + if count == 3 && slashes == 0 { 3 } else { 1 };
        Some(Self { mark, slashes, len })
    }

    fn is_triple(self) -> bool {
        self.slashes == 0 && self.len == 3
    }

    /// Where the quoted text that begins at `from` ends: at the same mark with as many backslashes.
    fn close(self, bytes: &[u8], from: usize) -> Option<usize> {
        let mut slashes = 0;
        let end = bytes.len().min(from + MAX_VALUE);
        for (at, byte) in bytes[..end].iter().copied().enumerate().skip(from) {
            match byte {
                b'\\' => slashes += 1,
                b'\n' => return None,
                mark if mark == self.mark && slashes == self.slashes => return Some(at - slashes),
                _ => slashes = 0,
            }
        }
        None
    }
}

impl Assignment {
    fn parse(bytes: &[u8], name: &Name, kind: Kind) -> Option<Self> {
        let mut at = name.end;
        let closing = Quote::at(bytes, at).filter(|quote| !quote.is_triple());
        at += closing.map_or(0, |quote| quote.len);
        at += scan::run(bytes, at, 1, |byte| byte == b']');
        at += blanks(bytes, at);
        let (separator, width) = separator(bytes, at, name, closing.is_some())?;
        let touches = separator == b'=' && at == name.end;
        at += width;
        let is_adjacent = touches && blanks(bytes, at) == 0;
        at += blanks(bytes, at);
        if separator == b':' {
            at = after_annotation(bytes, at);
        }
        let prefix = scan::run(bytes, at, 2, |byte| matches!(byte | 0x20, b'b' | b'r' | b'f' | b'u'));
        if let Some(quote) = Quote::at(bytes, at + prefix) {
            let style = quoted_style(bytes, name, separator, quote, is_adjacent, closing.is_some())?;
            return Self::quoted(bytes, at + prefix + quote.len, quote, style);
        }
        if separator == b',' {
            return None;
        }
        Self::bare(bytes, at, name, kind, separator, is_adjacent)
    }

    fn quoted(bytes: &[u8], start: usize, quote: Quote, style: Style) -> Option<Self> {
        let end = quote.close(bytes, start).unwrap_or_else(|| {
            // Cut off: what is there of the value still counts.
            start + scan::run(bytes, start, MAX_VALUE, |byte| !byte.is_ascii_whitespace() && byte != quote.mark)
        });
        (end > start).then_some(Self { start, end, style })
    }

    fn bare(bytes: &[u8], start: usize, name: &Name, kind: Kind, separator: u8, is_adjacent: bool) -> Option<Self> {
        let before = name.start.checked_sub(1).map(|at| bytes[at]);
        let is_query = matches!(before, Some(b'?' | b'&'));
        let starts_line = matches!(before, None | Some(b'\n' | b' ' | b'\t' | b'"' | b'\'' | b'`' | b'n' | b';'));
        let style = if name.is_upper(bytes) && is_adjacent && starts_line && !is_query {
            Style::Environment
        } else if is_query
            || name.is_flag && separator != b' '
            || separator == b':' && bytes[name.start..name.end].contains(&b'-')
        {
            Style::Wire
        } else {
            Style::Bare
        };
        let enclosing = before.filter(|byte| matches!(byte, b'"' | b'\'' | b'`'));
        let is_greedy = style == Style::Environment
            || kind == Kind::Password && separator != b':' && !is_query && starts_line && name.is_upper(bytes);
        let len = bare_len(&bytes[start..], enclosing, is_greedy);
        let mut end = start + len;
        // A full stop or a comma ends a sentence, not a value.
        end -= scan::run_back(&bytes[start..], len, 3, |byte| matches!(byte, b'.' | b',' | b':')).min(len);
        let is_call = matches!(bytes.get(end), Some(b'(' | b'[' | b'{'));
        let is_path = bytes[start..end].windows(2).any(|pair| pair == b"::" || pair == b"->");
        let is_value = end > start && !is_call && (!is_path || style == Style::Environment);
        is_value.then_some(Self { start, end, style })
    }
}

fn blanks(bytes: &[u8], at: usize) -> usize {
    scan::run(bytes, at, MAX_BLANKS, |byte| matches!(byte, b' ' | b'\t'))
}

/// The separator at `at` and its width.
fn separator(bytes: &[u8], at: usize, name: &Name, is_quoted: bool) -> Option<(u8, usize)> {
    let rest = &bytes[at..];
    match rest {
        [b'=', b'=', ..] => None,
        [b'=', b'>', ..] | [b':', b'=', ..] | [b'?', b'=', ..] => Some((b'=', 2)),
        [b'=', ..] => Some((b'=', 1)),
        [b':', b':', ..] => None,
        [b':', ..] => Some((b':', 1)),
        [b',', ..] if is_quoted => Some((b',', 1)),
        [byte, ..] if name.is_flag && at > name.end && !matches!(byte, b'-' | b'\n') => Some((b' ', 0)),
        _ => None,
    }
}

/// How sure an assignment with a quoted value is one.
fn quoted_style(
    bytes: &[u8],
    name: &Name,
    separator: u8,
    quote: Quote,
    is_adjacent: bool,
    is_quoted: bool,
) -> Option<Style> {
    let before = name.start.checked_sub(1).map(|at| bytes[at]);
    let is_environment = name.is_upper(bytes) && (is_adjacent || is_quoted);
    if separator != b',' {
        return Some(if is_environment { Style::Environment } else { Style::Quoted });
    }
    // `('NAME', 'value')`, as Python shows the items of an environment, is a pair only if the name is all that is quoted.
    let is_whole = matches!(before, Some(b'"' | b'\''));
    let is_item = is_environment && quote.mark == b'\'' && bytes[name.start..name.end].contains(&b'_');
    is_whole.then_some(if is_item { Style::Environment } else { Style::Listed })
}

/// Skips a type between `name:` and `= value`, as in `key: str = "…"` and `let key: &str = "…"`.
fn after_annotation(bytes: &[u8], at: usize) -> usize {
    let len = scan::run(bytes, at, 48, |byte| {
        scan::is_word(byte) || matches!(byte, b'[' | b']' | b'<' | b'>' | b'&' | b'|' | b'.' | b' ' | b'\'')
    });
    match &bytes[at + len..] {
        [b'=', next, ..] if len > 1 && !matches!(next, b'=' | b'>') && bytes[at + len - 1] == b' ' => {
            let from = at + len + 1;
            from + blanks(bytes, from)
        }
        _ => at,
    }
}

/// Whether a list of assignments goes on here: `NAME=`.
fn begins_assignment(rest: &[u8]) -> bool {
    let name = scan::run(rest, 0, 32, |byte| scan::is_word(byte) || matches!(byte, b'-' | b' '));
    name > 0 && rest.get(name) == Some(&b'=')
}

/// Length of a value without quotes.
fn bare_len(rest: &[u8], enclosing: Option<u8>, is_greedy: bool) -> usize {
    let limit = rest.len().min(MAX_VALUE);
    for at in 0..limit {
        let byte = rest[at];
        let ends = match byte {
            b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c | MASKED => true,
            b'\\' => matches!(rest.get(at + 1), Some(b'n' | b'r' | b't' | b'"' | b'\'' | b'\\') | None),
            _ if Some(byte) == enclosing => true,
            b',' | b';' | b'&' if is_greedy => begins_assignment(&rest[at + 1..]),
            b',' | b';' | b'&' | b'"' | b'\'' | b'`' | b'<' | b'>' | b'(' | b')' | b'[' | b']' | b'{' | b'}' | b'|' => {
                !is_greedy
            }
            _ => false,
        };
        if ends {
            return at;
        }
    }
    limit
}
