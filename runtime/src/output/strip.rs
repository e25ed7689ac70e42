//! Removal of terminal control sequences.
//!
//! `vte` walks the sequences; a performer of our own notes when one has ended. Two things are decided here, because
//! parsers and terminals swallow text in these cases and a result must not: a sequence never crosses a newline, and a
//! string (OSC, DCS, SOS, PM, APC) that is not ended within [`MAX_STRING`] bytes ends there.
//!
//! Ordinary control characters (tab, CR, LF, form feed, backspace, NUL, bell) are text and stay.

use std::borrow::Cow;
use std::ops::Range;

use vte::{Params, Parser, Perform};

/// Longest operating-system or device-control string that is swallowed as one.
const MAX_STRING: usize = 4096;

const ESC: u8 = 0x1b;
const BEL: u8 = 0x07;
const CAN: u8 = 0x18;
const SUB: u8 = 0x1a;

/// Removes escape sequences and C1 controls; everything else is unchanged to the byte.
///
/// ```ignore
/// assert_eq!(strip("\x1b[31mred\x1b[0m\n"), "red\n");
/// ```
pub fn strip(text: &str) -> Cow<'_, str> {
    match kept_ranges(text) {
        None => Cow::Borrowed(text),
        Some(ranges) => Cow::Owned(ranges.into_iter().map(|range| &text[range]).collect()),
    }
}

/// Text without control sequences, and the offsets in it at which there were some.
pub(super) fn strip_with_gaps(text: &str) -> (Cow<'_, str>, Vec<usize>) {
    let Some(ranges) = kept_ranges(text) else {
        return (Cow::Borrowed(text), Vec::new());
    };
    let mut stripped = String::with_capacity(text.len());
    let mut gaps = Vec::with_capacity(ranges.len());
    let mut end = 0;
    for range in ranges {
        if range.start != end {
            gaps.push(stripped.len());
        }
        end = range.end;
        stripped.push_str(&text[range]);
    }
    (Cow::Owned(stripped), gaps)
}

/// The ranges of `text` that remain, or `None` if all of it does.
pub(super) fn kept_ranges(text: &str) -> Option<Vec<Range<usize>>> {
    let mut next = next_control(text.as_bytes(), 0)?;
    let mut kept = Vec::new();
    let mut parser = Parser::new();
    let mut from = 0;
    loop {
        push_range(&mut kept, from..next);
        from = skip_sequence(text, next, &mut parser, &mut kept);
        match next_control(text.as_bytes(), from) {
            Some(at) => next = at,
            None => break,
        }
    }
    push_range(&mut kept, from..text.len());
    Some(kept)
}

fn push_range(kept: &mut Vec<Range<usize>>, range: Range<usize>) {
    if !range.is_empty() {
        kept.push(range);
    }
}

/// Offset of the next ESC or C1 control. C1 controls are U+0080 to U+009F: `C2 80` to `C2 9F` in UTF-8.
fn next_control(bytes: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    loop {
        at += bytes.get(at..)?.iter().position(|&byte| byte == ESC || byte == 0xc2)?;
        if bytes[at] == ESC || c1_at(bytes, at).is_some() {
            return Some(at);
        }
        at += 1;
    }
}

/// The 7-bit second byte that stands for the C1 control at `at`: U+009B is `ESC [`.
fn c1_at(bytes: &[u8], at: usize) -> Option<u8> {
    match (bytes.get(at), bytes.get(at + 1)) {
        (Some(0xc2), Some(&low @ 0x80..=0x9f)) => Some(low - 0x40),
        _ => None,
    }
}

/// What the parser reported about the last byte.
#[derive(Default)]
struct Watch {
    ended: bool,
    printed: bool,
}

impl Perform for Watch {
    fn print(&mut self, _: char) {
        self.printed = true;
    }
    fn csi_dispatch(&mut self, _: &Params, _: &[u8], _: bool, _: char) {
        self.ended = true;
    }
    fn esc_dispatch(&mut self, _: &[u8], _: bool, _: u8) {
        self.ended = true;
    }
}

/// Skips the sequence whose ESC or C1 control is at `start` and returns where text begins again. Control characters
/// inside a sequence are text to a terminal, so they are kept. A sequence that is given up needs no reset: the parser
/// begins anew with the next ESC, whatever state it is in.
fn skip_sequence(text: &str, start: usize, parser: &mut Parser, kept: &mut Vec<Range<usize>>) -> usize {
    let bytes = text.as_bytes();
    let mut watch = Watch::default();
    let mut at = start;
    let mut just_escaped = false;
    while let Some(&byte) = bytes.get(at) {
        let (second, width) = match c1_at(bytes, at) {
            Some(second) => (second, 2),
            None if just_escaped => (byte, 1),
            None => (0, 1),
        };
        if byte == ESC {
            parser.advance(&mut watch, &[ESC]);
            just_escaped = true;
            at += 1;
            continue;
        }
        if matches!(second, b']' | b'P' | b'X' | b'^' | b'_') {
            return skip_string(bytes, at + width, second == b']');
        }
        match byte {
            b'\n' => return at,
            CAN | SUB => return at + 1,
            0x00..0x20 if just_escaped => return at,
            0x00..0x20 => kept.push(at..at + 1),
            0xc2 if width == 2 => parser.advance(&mut watch, &[ESC, second]),
            0x80.. => return at,
            _ => parser.advance(&mut watch, &[byte]),
        }
        just_escaped = false;
        if watch.printed {
            return at;
        }
        at += width;
        if watch.ended {
            return at;
        }
    }
    bytes.len()
}

/// Skips a control string whose content begins at `from`.
fn skip_string(bytes: &[u8], from: usize, is_osc: bool) -> usize {
    let limit = bytes.len().min(from + MAX_STRING);
    let mut at = from;
    while at < limit {
        match bytes[at] {
            b'\n' => return at,
            b'\r' if bytes.get(at + 1) == Some(&b'\n') => return at,
            BEL if is_osc => return at + 1,
            CAN | SUB => return at + 1,
            ESC if bytes.get(at + 1) == Some(&b'\\') => return at + 2,
            ESC => return at,
            0xc2 => match c1_at(bytes, at) {
                Some(b'\\') => return at + 2,
                Some(_) => return at,
                None => at += 1,
            },
            _ => at += 1,
        }
    }
    // The limit may fall inside a character; what is left of it belongs to the string.
    while at < bytes.len() && (0x80..0xc0).contains(&bytes[at]) {
        at += 1;
    }
    at
}
