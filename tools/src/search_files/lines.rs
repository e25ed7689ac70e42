//! The matching lines of one file. Pure but for the reader that it is given.

use std::collections::BTreeMap;
use std::io::{self, Read};

use grep_matcher::Matcher;
use grep_searcher::{Searcher, Sink, SinkContext, SinkFinish, SinkMatch};

use super::Stop;
use super::query::{Listing, Query};

/// Characters of a line in an answer; a longer one is cut around its match.
const MAX_CHARS: usize = 500;
/// Matching lines between two looks at the clock.
const LOOK_EVERY: usize = 256;

/// One matching line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hit {
    pub(crate) line: u64,
    pub(crate) content: String,
    pub(crate) before: Vec<String>,
    pub(crate) after: Vec<String>,
}

/// What one file holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FileHits {
    /// Matching lines, as far as the listing needs them.
    pub(crate) hits: Vec<Hit>,
    /// Matching lines seen.
    pub(crate) count: usize,
    /// Whether the file could not be searched to its end for a reason of its own.
    pub(crate) failed: bool,
}

/// Searches what `reader` gives. A file with a NUL is binary and has no hits.
pub(crate) fn search(query: &Query, searcher: &mut Searcher, reader: impl Read, stop: &Stop) -> FileHits {
    let Some(matcher) = &query.matcher else { return FileHits::default() };
    let mut sink = LineSink { query, stop, found: FileHits::default(), context: BTreeMap::new(), binary: false };
    let searched = searcher.search_reader(matcher, Stoppable { reader, stop }, &mut sink);
    let LineSink { mut found, context, binary, .. } = sink;
    if binary {
        return FileHits::default();
    }
    found.failed = searched.is_err() && !stop.is_set();
    if query.context > 0 {
        attach_context(&mut found.hits, &context, query.context);
    }
    found
}

/// Ends the stream when the search is to stop, so that one huge file can't hold a thread.
struct Stoppable<'a, R> {
    reader: R,
    stop: &'a Stop,
}

impl<R: Read> Read for Stoppable<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.stop.is_set() || self.stop.is_late() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.reader.read(buffer)
    }
}

struct LineSink<'a> {
    query: &'a Query,
    stop: &'a Stop,
    found: FileHits,
    /// Lines around matches, matches included, by number.
    context: BTreeMap<u64, String>,
    binary: bool,
}

impl LineSink<'_> {
    fn is_full(&self) -> bool {
        match self.query.listing {
            Listing::Lines => self.found.hits.len() >= self.query.reach(),
            Listing::FilesWithMatch => self.found.count > 0,
            Listing::Counts | Listing::Names => false,
        }
    }
}

impl Sink for LineSink<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        self.found.count += 1;
        if self.query.listing == Listing::Lines {
            let line = found.line_number().unwrap_or_default();
            let text = trim_end(found.bytes());
            let at = self.query.matcher.as_ref().and_then(|m| m.find(text).ok().flatten());
            let content = excerpt(text, at.map_or(0, |m| m.start()));
            if self.query.context > 0 {
                self.context.insert(line, content.clone());
            }
            self.found.hits.push(Hit { line, content, before: Vec::new(), after: Vec::new() });
        }
        let late = self.found.count.is_multiple_of(LOOK_EVERY) && (self.stop.is_set() || self.stop.is_late());
        Ok(!late && (!self.is_full() || self.query.context > 0 && self.found.hits.len() == self.query.reach()))
    }

    fn context(&mut self, _: &Searcher, line: &SinkContext<'_>) -> io::Result<bool> {
        if let Some(number) = line.line_number() {
            self.context.insert(number, excerpt(trim_end(line.bytes()), 0));
        }
        Ok(true)
    }

    fn binary_data(&mut self, _: &Searcher, _: u64) -> io::Result<bool> {
        self.binary = true;
        Ok(false)
    }

    fn finish(&mut self, _: &Searcher, finish: &SinkFinish) -> io::Result<()> {
        self.binary |= finish.binary_byte_offset().is_some();
        Ok(())
    }
}

fn attach_context(hits: &mut [Hit], context: &BTreeMap<u64, String>, reach: usize) {
    let reach = reach as u64;
    for hit in hits {
        let first = hit.line.saturating_sub(reach);
        hit.before = context.range(first..hit.line).map(|(_, text)| text.clone()).collect();
        hit.after = context.range(hit.line + 1..=hit.line + reach).map(|(_, text)| text.clone()).collect();
    }
}

fn trim_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// The line, or the part of a long one around its match, marked where it was cut.
fn excerpt(line: &[u8], at: usize) -> String {
    const BYTES: usize = MAX_CHARS * 4;
    // Only this much can be shown, so a line of megabytes is not decoded as a whole.
    let from = at.saturating_sub(BYTES);
    let near = &line[from..line.len().min(at.saturating_add(BYTES))];
    let text = String::from_utf8_lossy(near);
    let whole = near.len() == line.len();
    if whole && text.chars().nth(MAX_CHARS).is_none() {
        return text.into_owned();
    }
    let chars: Vec<char> = text.chars().collect();
    let match_at = String::from_utf8_lossy(&near[..at - from]).chars().count();
    let start = match_at.saturating_sub(MAX_CHARS / 4).min(chars.len().saturating_sub(MAX_CHARS));
    let end = chars.len().min(start + MAX_CHARS);
    let mut out = String::new();
    if start > 0 || from > 0 {
        out.push_str("[truncated] ...");
    }
    out.extend(&chars[start..end]);
    if end < chars.len() || from + near.len() < line.len() {
        out.push_str("... [truncated]");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_line_is_cut_around_its_match_and_marked() {
        let line = format!("{}NEEDLE{}", "a".repeat(10_000), "b".repeat(10_000));
        let cut = excerpt(line.as_bytes(), 10_000);
        assert!(cut.starts_with("[truncated] ...a") && cut.ends_with("b... [truncated]"), "{cut}");
        assert!(cut.contains("NEEDLE"));
        assert!(cut.chars().filter(|c| "abNEDL".contains(*c)).count() > 490);
        assert_eq!(excerpt(b"short", 2), "short");
        let tail = format!("{}NEEDLE", "é".repeat(5_000));
        let cut = excerpt(tail.as_bytes(), 10_000);
        assert!(cut.starts_with("[truncated] ...é") && cut.ends_with("éNEEDLE"), "{cut}");
        let head = format!("NEEDLE{}", "x".repeat(600));
        assert_eq!(excerpt(head.as_bytes(), 0), format!("NEEDLE{}... [truncated]", "x".repeat(494)));
    }
}
