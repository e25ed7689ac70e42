//! A text file seen with LF line ends, and edits of that view brought back to the file without touching any other byte.

use std::ops::Range;

/// One edit: this range of the view becomes this text. Both with LF line ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Edit {
    pub(crate) range: Range<usize>,
    pub(crate) text: String,
}

/// A file's text as LF, with the places where it has CR LF.
#[derive(Debug, Clone)]
pub(crate) struct View {
    /// The text with LF only.
    pub(crate) text: String,
    /// Offsets in `text` of each LF that is CR LF in the file.
    crlf: Vec<usize>,
    /// Whether new lines of unknown kind get CR LF.
    mostly_crlf: bool,
}

impl View {
    pub(crate) fn new(raw: &str) -> Self {
        let mut text = String::with_capacity(raw.len());
        let mut crlf = Vec::new();
        let mut rest = raw;
        while let Some(at) = rest.find("\r\n") {
            text.push_str(&rest[..at]);
            crlf.push(text.len());
            text.push('\n');
            rest = &rest[at + 2..];
        }
        text.push_str(rest);
        let ends = memchr::memchr_iter(b'\n', text.as_bytes()).count();
        let mostly_crlf = crlf.len() * 2 > ends;
        Self { text, crlf, mostly_crlf }
    }

    /// The file's text after the edits, which are in order and don't overlap.
    pub(crate) fn apply(&self, edits: &[Edit]) -> String {
        let mut out = String::with_capacity(self.text.len() + self.crlf.len());
        let mut at = 0;
        for edit in edits {
            self.copy(&mut out, at..edit.range.start);
            if self.uses_crlf(&edit.range) {
                out.push_str(&edit.text.replace('\n', "\r\n"));
            } else {
                out.push_str(&edit.text);
            }
            at = edit.range.end;
        }
        self.copy(&mut out, at..self.text.len());
        out
    }

    /// Line ends of the replaced text decide; text without any follows the file.
    fn uses_crlf(&self, range: &Range<usize>) -> bool {
        match self.text[range.clone()].find('\n') {
            Some(at) => self.crlf.binary_search(&(range.start + at)).is_ok(),
            None => self.mostly_crlf,
        }
    }

    fn copy(&self, out: &mut String, range: Range<usize>) {
        let first = self.crlf.partition_point(|&at| at < range.start);
        let mut at = range.start;
        for &end in self.crlf[first..].iter().take_while(|&&end| end < range.end) {
            out.push_str(&self.text[at..end]);
            out.push('\r');
            at = end;
        }
        out.push_str(&self.text[at..range.end]);
    }
}

/// The lines of a text with the offset of each, without their ends. A text that ends in LF has no empty last line.
#[derive(Debug)]
pub(crate) struct Lines<'a> {
    pub(crate) text: &'a str,
    pub(crate) lines: Vec<&'a str>,
    starts: Vec<usize>,
}

impl<'a> Lines<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        let mut lines = Vec::new();
        let mut starts = Vec::new();
        let mut at = 0;
        for line in text.split_inclusive('\n') {
            starts.push(at);
            at += line.len();
            lines.push(line.strip_suffix('\n').unwrap_or(line));
        }
        starts.push(at);
        Self { text, lines, starts }
    }

    /// The range of `count` whole lines, the end of the last one included.
    pub(crate) fn whole(&self, first: usize, count: usize) -> Range<usize> {
        self.starts[first]..self.starts[first + count]
    }

    /// The range of `count` lines without the end of the last one.
    pub(crate) fn inner(&self, first: usize, count: usize) -> Range<usize> {
        let whole = self.whole(first, count);
        let end = whole.end - usize::from(whole.end > whole.start && self.text[..whole.end].ends_with('\n'));
        whole.start..end
    }

    /// The line, from 0, that holds an offset.
    pub(crate) fn line_of(&self, offset: usize) -> usize {
        self.starts.partition_point(|&start| start <= offset).saturating_sub(1).min(self.lines.len().saturating_sub(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_edit_changes_nothing(raw in "[ab\r\n]{0,40}") {
            prop_assert_eq!(View::new(&raw).apply(&[]), raw);
        }

        #[test]
        fn bytes_outside_an_edit_stay(before in "[ab\r\n]{0,10}a", after in "b[ab\r\n]{0,10}") {
            let raw = format!("{before}OLD{after}");
            let view = View::new(&raw);
            let at = view.text.find("OLD").unwrap();
            let edited = view.apply(&[Edit { range: at..at + 3, text: "NEW".into() }]);
            prop_assert_eq!(edited, format!("{before}NEW{after}"));
        }
    }

    #[test]
    fn an_edit_takes_the_line_ends_around_it() {
        let view = View::new("a\r\nb\r\nc\n");
        let edit = |range: Range<usize>, text: &str| view.apply(&[Edit { range, text: text.into() }]);
        assert_eq!(edit(0..4, "x\ny\n"), "x\r\ny\r\nc\n");
        assert_eq!(edit(4..6, "x\ny\n"), "a\r\nb\r\nx\ny\n");
        assert_eq!(edit(0..1, "x\ny"), "x\r\ny\r\nb\r\nc\n");
        let lines = Lines::new(&view.text);
        assert_eq!((lines.lines.as_slice(), lines.whole(1, 2), lines.inner(0, 1)), (&["a", "b", "c"][..], 2..6, 0..1));
        assert_eq!(lines.line_of(3), 1);
    }
}
