//! The chain of strategies that find a text in a file, strictest first. Pure.

use std::borrow::Cow;
use std::ops::Range;

use memchr::memmem;
use regex::RegexBuilder;

use super::fold::{Folded, plain, squeeze};
use super::similarity;
use super::view::Lines;

/// What stands for a run of blanks in a pattern.
const BLANKS: &str = r"[ \t]+";

/// How a text was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Strategy {
    Exact,
    LineTrimmed,
    WhitespaceNormalized,
    IndentationFlexible,
    EscapeNormalized,
    TrimmedBoundary,
    UnicodeNormalized,
    BlockAnchor,
    ContextAware,
}

impl Strategy {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::LineTrimmed => "line_trimmed",
            Self::WhitespaceNormalized => "whitespace_normalized",
            Self::IndentationFlexible => "indentation_flexible",
            Self::EscapeNormalized => "escape_normalized",
            Self::TrimmedBoundary => "trimmed_boundary",
            Self::UnicodeNormalized => "unicode_normalized",
            Self::BlockAnchor => "block_anchor",
            Self::ContextAware => "context_aware",
        }
    }
}

/// What a text was found as, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) strategy: Strategy,
    pub(crate) ranges: Vec<Range<usize>>,
    /// What stands for the caller's texts from here on, where the strategy rewrote them.
    pub(crate) old: String,
    pub(crate) new: String,
}

/// One way of finding a text: what it takes is the file, the old text and the new one.
type Finder = fn(&Lines<'_>, &str, &str) -> Option<Found>;

/// Finds `old` by the first strategy that has a hit. Similarity is left out for edits of all places.
pub(crate) fn find(file: &Lines<'_>, old: &str, new: &str, with_similarity: bool) -> Option<Found> {
    let chain: [Finder; 7] = [
        exact,
        line_trimmed,
        whitespace_normalized,
        indentation_flexible,
        escape_normalized,
        trimmed_boundary,
        unicode_normalized,
    ];
    let precise = chain.iter().find_map(|strategy| strategy(file, old, new));
    precise.or_else(|| with_similarity.then(|| similar(file, old, new)).flatten())
}

fn found(strategy: Strategy, ranges: Vec<Range<usize>>, old: &str, new: &str) -> Option<Found> {
    (!ranges.is_empty()).then(|| Found { strategy, ranges, old: old.to_owned(), new: new.to_owned() })
}

fn exact(file: &Lines<'_>, old: &str, new: &str) -> Option<Found> {
    found(Strategy::Exact, occurrences(file.text, old), old, new)
}

/// Places of a text that don't overlap.
pub(crate) fn occurrences(text: &str, part: &str) -> Vec<Range<usize>> {
    memmem::find_iter(text.as_bytes(), part.as_bytes()).map(|at| at..at + part.len()).collect()
}

fn line_trimmed(file: &Lines<'_>, old: &str, new: &str) -> Option<Found> {
    by_lines(Strategy::LineTrimmed, file, old, new, |line| Cow::Borrowed(line.trim()))
}

/// Every run of blanks stands for any other.
fn whitespace_normalized(file: &Lines<'_>, old: &str, new: &str) -> Option<Found> {
    const LONGEST: usize = 64 << 10;
    if old.len() > LONGEST {
        return None;
    }
    let mut pattern = String::with_capacity(old.len() * 2);
    for (at, word) in old.split([' ', '\t']).enumerate() {
        if at > 0 && !pattern.ends_with(BLANKS) {
            pattern.push_str(BLANKS);
        }
        pattern.push_str(&regex::escape(word));
    }
    let regex = RegexBuilder::new(&pattern).size_limit(LONGEST * 100).build().ok()?;
    let ranges = regex.find_iter(file.text).map(|hit| hit.range()).collect();
    found(Strategy::WhitespaceNormalized, ranges, old, new)
}

fn indentation_flexible(file: &Lines<'_>, old: &str, new: &str) -> Option<Found> {
    by_lines(Strategy::IndentationFlexible, file, old, new, squeeze)
}

/// The caller's text went through one escaping too many, and so did the new text.
fn escape_normalized(file: &Lines<'_>, old: &str, new: &str) -> Option<Found> {
    if !old.contains('\\') {
        return None;
    }
    [true, false].into_iter().find_map(|pairs| {
        let (old, new) = (unescape(old, pairs), unescape(new, pairs));
        if old.trim().is_empty() {
            return None;
        }
        let mut hit = exact(file, &old, &new).or_else(|| line_trimmed(file, &old, &new))?;
        hit.strategy = Strategy::EscapeNormalized;
        Some(hit)
    })
}

/// Replaces `\n`, `\t`, `\r`, `\"` and `\'`; with `pairs` also `\\`.
fn unescape(text: &str, pairs: bool) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match chars.clone().next() {
            Some('n') => out.push('\n'),
            Some('t') => out.push('\t'),
            Some('r') => out.push('\r'),
            Some(quote @ ('"' | '\'')) => out.push(quote),
            Some('\\') if pairs => out.push('\\'),
            _ => {
                out.push('\\');
                continue;
            }
        }
        chars.next();
    }
    out.replace("\r\n", "\n")
}

/// Blank lines and blanks around the caller's text are not in the file.
fn trimmed_boundary(file: &Lines<'_>, old: &str, new: &str) -> Option<Found> {
    let core = old.trim();
    if core == old {
        return None;
    }
    let before = &old[..old.len() - old.trim_start().len()];
    let after = &old[old.trim_end().len()..];
    let inner_new = new.strip_prefix(before).unwrap_or_else(|| new.trim_start());
    let inner_new = inner_new.strip_suffix(after).unwrap_or_else(|| inner_new.trim_end());
    let mut hit = exact(file, core, inner_new).or_else(|| line_trimmed(file, core, inner_new))?;
    hit.strategy = Strategy::TrimmedBoundary;
    Some(hit)
}

fn unicode_normalized(file: &Lines<'_>, old: &str, new: &str) -> Option<Found> {
    if file.text.is_ascii() && old.is_ascii() {
        return None;
    }
    let by_text = ["--", "-"].into_iter().find_map(|em| {
        let folded = Folded::unicode(file.text, em);
        let wanted = Folded::unicode(old, em).text;
        let hits = occurrences(&folded.text, &wanted);
        let ranges = hits.iter().filter(|range| folded.is_aligned(range)).map(|range| folded.original(range)).collect();
        found(Strategy::UnicodeNormalized, ranges, old, new)
    });
    by_text.or_else(|| by_lines(Strategy::UnicodeNormalized, file, old, new, plain))
}

fn similar(file: &Lines<'_>, old: &str, new: &str) -> Option<Found> {
    let (wanted, trailing) = wanted_lines(old);
    let hit = similarity::block_anchor(&file.lines, &wanted).map(|at| (Strategy::BlockAnchor, at));
    let (strategy, at) =
        hit.or_else(|| similarity::context_aware(&file.lines, &wanted).map(|at| (Strategy::ContextAware, at)))?;
    let ranges = at.iter().map(|&at| line_range(file, at, wanted.len(), trailing)).collect();
    found(strategy, ranges, old, new)
}

/// Whole lines that are equal once `key` has rewritten them. Hits don't overlap.
fn by_lines(
    strategy: Strategy,
    file: &Lines<'_>,
    old: &str,
    new: &str,
    key: impl Fn(&str) -> Cow<'_, str>,
) -> Option<Found> {
    let (wanted, trailing) = wanted_lines(old);
    let keys: Vec<Cow<'_, str>> = wanted.iter().map(|line| key(line)).collect();
    let at = equal_lines(&file.lines, &keys, key);
    let ranges = at.iter().map(|&at| line_range(file, at, wanted.len(), trailing)).collect();
    found(strategy, ranges, old, new)
}

/// Where runs of lines have these keys. Hits don't overlap.
pub(crate) fn equal_lines(lines: &[&str], keys: &[Cow<'_, str>], key: impl Fn(&str) -> Cow<'_, str>) -> Vec<usize> {
    let mut hits = Vec::new();
    let Some(last) = lines.len().checked_sub(keys.len()) else { return hits };
    let mut at = 0;
    while at <= last {
        if lines[at..].iter().zip(keys).all(|(line, wanted)| key(line) == *wanted) {
            hits.push(at);
            at += keys.len().max(1);
        } else {
            at += 1;
        }
    }
    hits
}

/// The caller's lines, and whether the text ends with a line end.
pub(crate) fn wanted_lines(old: &str) -> (Vec<&str>, bool) {
    let trailing = old.ends_with('\n');
    (old.strip_suffix('\n').unwrap_or(old).split('\n').collect(), trailing)
}

fn line_range(file: &Lines<'_>, first: usize, count: usize, trailing: bool) -> Range<usize> {
    if trailing { file.whole(first, count) } else { file.inner(first, count) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strategy(file: &str, old: &str) -> Option<(&'static str, Vec<String>)> {
        let lines = Lines::new(file);
        let found = find(&lines, old, "NEW", true)?;
        Some((found.strategy.name(), found.ranges.iter().map(|r| file[r.clone()].to_owned()).collect()))
    }

    #[test]
    fn the_strictest_strategy_that_hits_decides() {
        let cases: &[(&str, &str, &str, &[&str])] = &[
            ("a b\n", "a b", "exact", &["a b"]),
            ("  a b  \n  c\n", "a b\nc", "line_trimmed", &["  a b  \n  c"]),
            ("  a b  \n  c\n", "a b\nc\n", "line_trimmed", &["  a b  \n  c\n"]),
            ("x = f(a,  b)  # note\n", "f(a, b) #", "whitespace_normalized", &["f(a,  b)  #"]),
            ("\tif  a:\n\t\tb\n", "  if a:\nb", "indentation_flexible", &["\tif  a:\n\t\tb"]),
            ("a\n\tb\n", "a\\n\\tb", "escape_normalized", &["a\n\tb"]),
            ("say \"hi\"\n", "say \\\"hi\\\"", "escape_normalized", &["say \"hi\""]),
            ("x foo(1) y\n", "\n  foo(1) \n", "trimmed_boundary", &["foo(1)"]),
            (
                "it\u{2019}s \u{201c}ok\u{201d}\u{2014}now\n",
                "it's \"ok\"--now",
                "unicode_normalized",
                &["it\u{2019}s \u{201c}ok\u{201d}\u{2014}now"],
            ),
            ("it\u{2019}s a\u{2014}b\n", "it's a-b", "unicode_normalized", &["it\u{2019}s a\u{2014}b"]),
        ];
        for (file, old, name, hits) in cases {
            let hits = hits.iter().map(|s| (*s).to_owned()).collect();
            assert_eq!(strategy(file, old), Some((*name, hits)), "{old:?} in {file:?}");
        }
        assert_eq!(strategy("alpha\n", "omega"), None);
    }

    #[test]
    fn similarity_is_the_last_resort() {
        let file = "fn total(items: &[u32]) -> u32 {\n    let mut sum = 0;\n    for item in items {\n        sum += item;\n    }\n    sum\n}\n";
        let old = "fn total(items: &[u32]) -> u32 {\n    let mut total = 0;\n    for item in items {\n        total += item;\n    }\n    sum\n}";
        assert_eq!(strategy(file, old).map(|s| s.0), Some("block_anchor"));
        let old = "fn totals(items: &[u32]) -> u32 {\n    let mut sum = 0;\n    for item in items {\n        sum += item;\n    }\n    total\n}";
        assert_eq!(strategy(file, old).map(|s| s.0), Some("context_aware"));
    }
}
