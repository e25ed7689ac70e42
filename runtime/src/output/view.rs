//! Views of a text in which a secret reads as one piece.
//!
//! A reader puts a token together again that has a zero-width space, a NUL or a line break in it, so matching must as
//! well. Each view drops or decodes something and keeps the way back to the text.

use std::borrow::Cow;
use std::ops::Range;

use super::mask::Span;
use super::origins::Origins;

/// Stands for a masked span in every view. Control characters are dropped, so nothing else can produce it.
pub(super) const MASKED: u8 = 0x01;

/// Whether a text goes on beyond what is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Edges {
    pub(super) start_is_open: bool,
    pub(super) end_is_open: bool,
}

impl Edges {
    /// A whole text.
    pub(super) const WHOLE: Self = Self { start_is_open: false, end_is_open: false };
    /// The beginning of a longer one.
    pub(super) const HEAD: Self = Self { start_is_open: false, end_is_open: true };
    /// The end of a longer one.
    pub(super) const TAIL: Self = Self { start_is_open: true, end_is_open: false };
}

/// What a view drops or decodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Drops control characters other than tab and line ends, and everything that takes no room on a screen.
    Plain,
    /// As plain, without line ends.
    Joined,
    /// As plain, and a backspace takes the character before it away.
    Overstruck,
    /// As plain, without white space.
    Squeezed,
    /// As squeezed, with backslash escapes decoded, however often they were escaped.
    Unescaped,
    /// As squeezed, with percent escapes decoded and without `+`.
    Unpercent,
}

/// A text as it is matched.
#[derive(Debug)]
pub(super) struct View<'a> {
    bytes: Cow<'a, [u8]>,
    /// `None` where the view is the text itself.
    origins: Option<Origins>,
    /// Where in the text something had been that is not in it any more.
    gaps: &'a [usize],
    /// Where a joined view has left a line end out.
    breaks: Vec<usize>,
}

impl<'a> View<'a> {
    /// The view of `text` in which each of `masked` is one byte.
    pub(super) fn new(text: &'a str, kind: Kind, masked: &[Span<'_>]) -> Self {
        if kind == Kind::Plain && masked.is_empty() && !text.bytes().any(needs_care) {
            return Self { bytes: Cow::Borrowed(text.as_bytes()), origins: None, gaps: &[], breaks: Vec::new() };
        }
        let mut builder =
            Builder { kind, bytes: Vec::with_capacity(text.len()), origins: Origins::default(), breaks: Vec::new() };
        let mut at = 0;
        for span in masked {
            builder.push_text(text, at..span.start);
            builder.push_decoded(&[MASKED], span.start, span.end - span.start);
            at = span.end;
        }
        builder.push_text(text, at..text.len());
        Self { bytes: Cow::Owned(builder.bytes), origins: Some(builder.origins), gaps: &[], breaks: builder.breaks }
    }

    /// The same view, which also knows where control sequences were stripped from the text.
    pub(super) fn with_gaps(mut self, gaps: &'a [usize]) -> Self {
        self.gaps = gaps;
        self
    }

    /// The bytes to match.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The range of the text that a range of the view stands for.
    pub(super) fn source(&self, range: Range<usize>) -> Range<usize> {
        match &self.origins {
            None => range,
            Some(origins) => origins.start(range.start)..origins.end(range.end).max(origins.start(range.start)),
        }
    }

    /// Where line ends were left out after `from`, in order. Only joined views leave any out.
    pub(super) fn breaks_after(&self, from: usize) -> &[usize] {
        &self.breaks[self.breaks.partition_point(|at| *at <= from)..]
    }

    /// Whether something was dropped right before `at`.
    pub(super) fn is_gap(&self, at: usize) -> bool {
        let is_stripped = || {
            let range = self.source(at..at);
            let index = self.gaps.partition_point(|gap| *gap < range.start);
            self.gaps.get(index).is_some_and(|gap| *gap <= range.end)
        };
        self.origins.as_ref().is_some_and(|origins| origins.is_gap(at)) || !self.gaps.is_empty() && is_stripped()
    }

    /// The last place in `from..=to` where something was dropped.
    pub(super) fn last_gap(&self, from: usize, to: usize) -> Option<usize> {
        if self.gaps.is_empty() {
            return self.origins.as_ref()?.last_gap(from, to);
        }
        (from..=to.min(self.bytes.len())).rev().find(|at| self.is_gap(*at))
    }
}

/// Whether a byte may begin something that the plain view drops.
fn needs_care(byte: u8) -> bool {
    !matches!(byte, b'\t' | b'\n' | 0x0b | 0x0c | 0x20..=0x7e)
}

/// What a text becomes in a view, for values that are matched in it.
pub(super) fn normalized(text: &str, kind: Kind) -> Vec<u8> {
    View::new(text, kind, &[]).bytes.into_owned()
}

struct Builder {
    kind: Kind,
    bytes: Vec<u8>,
    origins: Origins,
    breaks: Vec<usize>,
}

impl Builder {
    fn push_text(&mut self, text: &str, range: Range<usize>) {
        let mut at = range.start;
        while at < range.end {
            at += match self.kind {
                Kind::Unescaped if text.as_bytes()[at] == b'\\' => self.push_escape(text, at, range.end),
                Kind::Unpercent if text.as_bytes()[at] == b'%' => self.push_percent(text, at, range.end),
                _ => self.push_char(text, at),
            };
        }
    }

    /// Takes one character of the text and returns its width.
    fn push_char(&mut self, text: &str, at: usize) -> usize {
        let byte = text.as_bytes()[at];
        if byte.is_ascii() {
            if !self.drops_ascii(byte) {
                self.bytes.push(byte);
                self.origins.push_copy(1, at);
            } else if byte == 0x08 && self.kind == Kind::Overstruck {
                self.take_back();
            } else if byte == b'\n' && self.kind == Kind::Joined {
                self.breaks.push(self.bytes.len());
            }
            return 1;
        }
        let char = text[at..].chars().next().unwrap_or(char::REPLACEMENT_CHARACTER);
        let width = char.len_utf8();
        let is_kept = !is_invisible(char) && (!self.squeezes() || !char.is_whitespace());
        if is_kept {
            self.bytes.extend_from_slice(&text.as_bytes()[at..at + width]);
            self.origins.push_copy(width, at);
        }
        width
    }

    fn squeezes(&self) -> bool {
        matches!(self.kind, Kind::Squeezed | Kind::Unescaped | Kind::Unpercent)
    }

    fn drops_ascii(&self, byte: u8) -> bool {
        match byte {
            b'\n' => self.squeezes() || self.kind == Kind::Joined,
            b'\t' | 0x0b | 0x0c | b' ' => self.squeezes(),
            b'+' => self.kind == Kind::Unpercent,
            0x00..0x20 | 0x7f => true,
            _ => false,
        }
    }

    /// Removes the last character. It stays part of the source of what follows, so a mask covers it as well.
    fn take_back(&mut self) {
        let mut end = self.bytes.len();
        if end == 0 || matches!(self.bytes[end - 1], b'\n' | MASKED) {
            return;
        }
        end -= 1;
        while end > 0 && (0x80..0xc0).contains(&self.bytes[end]) {
            end -= 1;
        }
        self.bytes.truncate(end);
        self.origins.truncate(end);
    }

    fn push_decoded(&mut self, bytes: &[u8], source: usize, source_len: usize) {
        self.bytes.extend_from_slice(bytes);
        self.origins.push_replaced(bytes.len(), source, source_len);
    }

    /// Takes a run of backslashes and what it escapes.
    fn push_escape(&mut self, text: &str, at: usize, end: usize) -> usize {
        let bytes = &text.as_bytes()[..end];
        let slashes = bytes[at..].iter().take_while(|byte| **byte == b'\\').count();
        let next = at + slashes;
        match bytes.get(next) {
            Some(b'n' | b'r' | b't') => slashes + 1,
            Some(b'u') => self.push_code(text, at, next + 1, 4),
            Some(b'x') => self.push_code(text, at, next + 1, 2),
            Some(&quote @ (b'"' | b'\'' | b'/')) => {
                self.push_decoded(&[quote], at, slashes + 1);
                slashes + 1
            }
            _ => {
                self.push_decoded(b"\\", at, slashes);
                slashes
            }
        }
    }

    /// Takes the `width` hexadecimal digits at `digits` as one character; the escape begins at `at`.
    fn push_code(&mut self, text: &str, at: usize, digits: usize, width: usize) -> usize {
        let code = text.get(digits..digits + width).and_then(|digits| u32::from_str_radix(digits, 16).ok());
        let Some(char) = code.and_then(char::from_u32) else {
            self.push_decoded(b"\\", at, digits - 1 - at);
            return digits - 1 - at;
        };
        let len = digits + width - at;
        if !char.is_whitespace() && !char.is_control() && !is_invisible(char) {
            self.push_decoded(char.encode_utf8(&mut [0; 4]).as_bytes(), at, len);
        }
        len
    }

    /// Takes one percent escape, also one whose percent sign is escaped itself.
    fn push_percent(&mut self, text: &str, at: usize, end: usize) -> usize {
        let bytes = &text.as_bytes()[..end];
        let mut from = at + 1;
        while let Some(b'2') = bytes.get(from)
            && bytes.get(from + 1) == Some(&b'5')
            && bytes.get(from + 2..from + 4).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
        {
            from += 2;
        }
        let Some(byte) = text.get(from..from + 2).and_then(|digits| u8::from_str_radix(digits, 16).ok()) else {
            return self.push_char(text, at);
        };
        let len = from + 2 - at;
        if byte > b' ' && byte != 0x7f {
            self.push_decoded(&[byte], at, len);
        }
        len
    }
}

/// Whether a character takes no room on a screen: zero-width, a combining mark, a direction mark, a tag.
pub(super) fn is_invisible(char: char) -> bool {
    matches!(u32::from(char),
        0x7f..=0x9f | 0xad | 0x300..=0x36f | 0x483..=0x489 | 0x61c | 0x115f..=0x1160 | 0x17b4..=0x17b5
        | 0x180b..=0x180f | 0x1ab0..=0x1aff | 0x1dc0..=0x1dff | 0x200b..=0x200f | 0x202a..=0x202e
        | 0x2060..=0x206f | 0x20d0..=0x20ff | 0x3164 | 0xfe00..=0xfe0f | 0xfe20..=0xfe2f | 0xfeff | 0xffa0
        | 0xfff9..=0xfffb | 0x1bca0..=0x1bca3 | 0x1d173..=0x1d17a | 0xe0000..=0xe0fff)
}
