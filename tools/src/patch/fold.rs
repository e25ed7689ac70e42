//! Texts rewritten for comparison, with the way back: which place of the original each place of the rewritten text stands for.

use std::borrow::Cow;
use std::ops::Range;

/// A rewritten text. `origin[i]` is where byte `i` came from; one more entry stands for the end.
#[derive(Debug, Clone)]
pub(crate) struct Folded {
    pub(crate) text: String,
    origin: Vec<usize>,
}

impl Folded {
    fn build(text: &str, mut rewrite: impl FnMut(&str, usize, &mut String) -> usize) -> Self {
        let mut out = Self { text: String::with_capacity(text.len()), origin: Vec::with_capacity(text.len() + 1) };
        let mut at = 0;
        while at < text.len() {
            let taken = rewrite(text, at, &mut out.text);
            out.origin.resize(out.text.len(), at);
            at += taken;
        }
        out.origin.push(text.len());
        out
    }

    /// Typographic quotes, dashes, dots and spaces as ASCII. `em` is what an em dash becomes.
    pub(crate) fn unicode(text: &str, em: &str) -> Self {
        Self::build(text, |text, at, out| {
            let Some(c) = text[at..].chars().next() else { return 1 };
            match ascii(c) {
                Some("--") => out.push_str(em),
                Some(plain) => out.push_str(plain),
                None => out.push(c),
            }
            c.len_utf8()
        })
    }

    /// The range of the original that a range of the rewritten text stands for.
    pub(crate) fn original(&self, range: &Range<usize>) -> Range<usize> {
        self.origin[range.start]..self.origin[range.end]
    }

    /// Whether a range begins and ends where something of the original does, and not within what one character became.
    pub(crate) fn is_aligned(&self, range: &Range<usize>) -> bool {
        self.is_edge(range.start) && self.is_edge(range.end)
    }

    fn is_edge(&self, at: usize) -> bool {
        at == 0 || self.origin[at] != self.origin[at - 1]
    }

    /// Adds what a range stands for in `original`; pieces of what one character became go out as they are.
    pub(crate) fn push_original(&self, out: &mut String, original: &str, range: &Range<usize>) {
        let start = range.clone().find(|&at| self.is_edge(at)).unwrap_or(range.end);
        let end = (start..=range.end).rev().find(|&at| self.is_edge(at)).unwrap_or(start);
        out.push_str(&self.text[range.start..start]);
        out.push_str(&original[self.original(&(start..end))]);
        out.push_str(&self.text[end..range.end]);
    }
}

/// What a typographic character is typed as.
pub(crate) fn ascii(c: char) -> Option<&'static str> {
    Some(match c {
        '\u{2018}' | '\u{2019}' | '\u{201a}' | '\u{201b}' | '\u{2032}' => "'",
        '\u{201c}' | '\u{201d}' | '\u{201e}' | '\u{201f}' | '\u{2033}' => "\"",
        '\u{2010}'..='\u{2013}' | '\u{2212}' => "-",
        '\u{2014}' | '\u{2015}' => "--",
        '\u{2026}' => "...",
        '\u{a0}' | '\u{2000}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}' => " ",
        _ => return None,
    })
}

/// A line with its blanks collapsed and trimmed.
pub(crate) fn squeeze(line: &str) -> Cow<'_, str> {
    let line = line.trim();
    let bytes = line.as_bytes();
    if !bytes.contains(&b'\t') && !bytes.windows(2).any(|pair| pair == b"  ") {
        return Cow::Borrowed(line);
    }
    let mut out = String::with_capacity(line.len());
    for word in line.split([' ', '\t']).filter(|word| !word.is_empty()) {
        if !out.is_empty() {
            out.push(' ');
        }
        out.push_str(word);
    }
    Cow::Owned(out)
}

/// A line as it is compared with Unicode folded: trimmed too.
pub(crate) fn plain(line: &str) -> Cow<'_, str> {
    if line.is_ascii() {
        return Cow::Borrowed(line.trim());
    }
    let mut out = String::with_capacity(line.len());
    for c in line.chars() {
        match ascii(c) {
            Some(text) => out.push_str(text),
            None => out.push(c),
        }
    }
    Cow::Owned(out.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_find_their_way_back() {
        let text = "a  \t b\u{2014}c";
        let folded = Folded::unicode(text, "--");
        assert_eq!(folded.text, "a  \t b--c");
        assert_eq!(folded.original(&(5..8)), 5..9);
        assert!(folded.is_aligned(&(5..8)) && !folded.is_aligned(&(5..7)));
        assert_eq!(squeeze("  a \t b "), "a b");
        assert_eq!(plain(" \u{201c}x\u{201d}\u{2026} "), "\"x\"...");
    }
}
