//! Text that is shown while it is still being written.
//!
//! What has come in is redacted again and again together with what was shown last, and only text that can't become
//! part of a secret any more is released: at a newline everything before it, at a tick everything before the last word
//! of an unfinished line. A value of a known secret that goes on over a line break and a key block are held longer.

use std::fmt;

use super::clean::Clean;
use super::cut;
use super::mask::{self, Rank, Span};
use super::origins::Origins;
use super::pem;
use super::redactor::Redactor;
use super::view::Edges;

/// Shown text that is kept to match what follows it.
const MIN_CONTEXT: usize = 4 * 1024;
/// An unfinished line is released in part from this length on.
const MAX_LINE: usize = 64 * 1024;
/// Of such a line this much is held: longer than the longest text that a family masks.
const LINE_MARGIN: usize = 20 * 1024;
/// The beginning of a known value that may be shown at the end of a line, before the next line continues it.
const MAX_PIECE: usize = 8;

/// Redacts a stream piece by piece. Nothing that [`Redactor::clean`] masks in the whole text appears in any piece.
pub struct Streamer {
    redactor: Redactor,
    /// Released bytes, then bytes that are held.
    bytes: Vec<u8>,
    released: usize,
    /// The last released character belongs to a mask, so what continues that mask needs none.
    ends_in_mask: bool,
    /// A key block without an end has been going on for too long: nothing more is shown.
    is_closed: bool,
}

impl fmt::Debug for Streamer {
    /// Shows how much is held only: what is held is not clean.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Streamer").field("held", &(self.bytes.len() - self.released)).finish_non_exhaustive()
    }
}

/// When held text is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    Newline,
    Tick,
    LongLine,
    End,
}

impl Streamer {
    /// A streamer at the beginning of a stream.
    pub fn new(redactor: Redactor) -> Self {
        Self { redactor, bytes: Vec::new(), released: 0, ends_in_mask: false, is_closed: false }
    }

    /// Takes the next bytes and returns what can be shown now: whole lines.
    pub fn push(&mut self, bytes: &[u8]) -> Clean {
        if self.is_closed {
            return Clean::new();
        }
        self.bytes.extend_from_slice(bytes);
        if bytes.contains(&b'\n') {
            self.release(Moment::Newline)
        } else if self.bytes.len() - self.released > MAX_LINE {
            self.release(Moment::LongLine)
        } else {
            Clean::new()
        }
    }

    /// Returns what can be shown of an unfinished line. To be called every 50 ms while something is held.
    pub fn tick(&mut self) -> Clean {
        if self.is_idle() { Clean::new() } else { self.release(Moment::Tick) }
    }

    /// Whether nothing is held, so that there is nothing to tick for.
    pub fn is_idle(&self) -> bool {
        self.released == self.bytes.len()
    }

    /// Returns the rest.
    pub fn finish(mut self) -> Clean {
        if self.is_closed { Clean::new() } else { self.release(Moment::End) }
    }

    fn release(&mut self, moment: Moment) -> Clean {
        let edges = if moment == Moment::End { Edges::WHOLE } else { Edges::HEAD };
        let (text, origins, gaps) = cut::decode_and_strip(&self.bytes, 0, edges);
        let redactor = self.redactor.clone();
        let spans = redactor.find(&text, &gaps, Edges::WHOLE);
        let from = first_at(&text, &origins, self.released);
        let to = self.release_point(&text, &spans, moment).max(from);
        let shown = self.render(&text, from, to, &spans);
        let released = if moment == Moment::End { self.bytes.len() } else { origins.end(to).max(self.released) };
        self.released = if to == from && moment != Moment::End { self.released } else { released };
        self.trim(&text, &origins, &spans, to);
        shown
    }

    /// Up to where the text can be shown.
    fn release_point(&self, text: &str, spans: &[Span<'_>], moment: Moment) -> usize {
        if moment == Moment::End || !self.redactor.is_enabled() {
            return text.len();
        }
        let line = text.rfind('\n').map_or(0, |at| at + 1);
        let mut to = match moment {
            Moment::Newline => line,
            Moment::LongLine => text.floor_char_boundary(text.len().saturating_sub(LINE_MARGIN)).max(line),
            Moment::Tick | Moment::End => self.tick_point(text, line),
        };
        let open = self.redactor.known_values().open_end(&text[..to]);
        if open >= if moment == Moment::Newline { MAX_PIECE } else { 1 } {
            to = word_start(text, to - open);
        }
        if let Some(token) = self.redactor.open_token(&text[..to])
            && text[token..to].trim_end().len() >= MAX_PIECE
        {
            to = token;
        }
        if let Some(header) = pem::unresolved(&text[..to]) {
            to = header;
        }
        match mask::around(spans, to) {
            // A key block that has not ended yet is masked as far as it goes.
            Some(span) if span.end == text.len() && pem::is_block(span.label) => text.len(),
            Some(span) => span.start,
            None => to,
        }
    }

    /// Where the part of an unfinished line begins that may still become a secret.
    fn tick_point(&self, text: &str, line: usize) -> usize {
        let unfinished = &text[line..];
        let word = word_start(text, text.len());
        let open = self.redactor.open_candidate(unfinished).map_or(text.len(), |at| line + at);
        word.min(open)
    }

    fn render(&mut self, text: &str, from: usize, to: usize, spans: &[Span<'_>]) -> Clean {
        if to == from {
            return Clean::new();
        }
        let mut start = from;
        if let Some(span) = mask::around(spans, from)
            && self.ends_in_mask
        {
            start = span.end.min(to);
        }
        let inside: Vec<Span<'_>> = spans
            .iter()
            .filter(|span| span.end > start)
            .map(|span| Span { start: span.start.max(start), ..*span })
            .collect();
        self.ends_in_mask = spans.iter().any(|span| span.start < to && to <= span.end && span.rank != Rank::Masked);
        Clean::from_pipeline(mask::render(text, start..to, &inside, self.redactor.style()))
    }

    /// Forgets released text that can't matter any more.
    fn trim(&mut self, text: &str, origins: &Origins, spans: &[Span<'_>], to: usize) {
        if let Some(span) =
            spans.last().filter(|span| span.end == text.len() && to == text.len() && pem::is_block(span.label))
        {
            self.is_closed = text.len() - span.start > pem::MAX_BLOCK;
            if self.is_closed {
                self.bytes.clear();
                self.released = 0;
            }
            return;
        }
        let start = self.context_start(text, spans, to);
        let start = mask::around(spans, start).map_or(start, |span| span.start);
        let raw = origins.start(start).min(self.released);
        self.bytes.drain(..raw);
        self.released -= raw;
    }

    /// From where on text that was shown up to `to` can still matter: the last line of ordinary ones, since a secret may
    /// have begun with its last letters, and more where secrets have been or may have begun.
    fn context_start(&self, text: &str, spans: &[Span<'_>], to: usize) -> usize {
        let shown = text[..to].strip_suffix('\n').unwrap_or(&text[..to]);
        let line = shown.rfind('\n').map_or(0, |at| at + 1);
        if spans.is_empty() {
            let shown = &text[..to];
            let is_open = self.redactor.known_values().open_end(shown) > 0 || self.redactor.open_token(shown).is_some();
            if !is_open && to - line <= MAX_LINE {
                return line;
            }
        }
        let context = MIN_CONTEXT.max(self.redactor.margin() - super::Limits::MARGIN);
        let wanted = text.floor_char_boundary(to.saturating_sub(context));
        let start = text[..wanted].rfind('\n').map_or(0, |at| at + 1);
        if to - start > MAX_LINE { wanted } else { start }
    }
}

/// The first character of the text that comes from raw bytes at `raw` or later.
fn first_at(text: &str, origins: &Origins, raw: usize) -> usize {
    let mut low = 0;
    let mut high = text.len();
    while low < high {
        let middle = text.floor_char_boundary(low + (high - low) / 2);
        if origins.start(middle) < raw {
            low = text.ceil_char_boundary(middle + 1);
        } else {
            high = middle;
        }
    }
    low
}

/// Start of the word that ends at or goes over `at`. A carriage return is no blank: a key may have one inside.
fn word_start(text: &str, at: usize) -> usize {
    text[..at].rfind([' ', '\t', '\n', '\u{b}', '\u{c}']).map_or(0, |blank| blank + 1)
}
