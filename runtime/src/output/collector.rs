//! Capture of one stream in constant memory.
//!
//! Bytes are only copied here. Nothing is decoded, matched or cut while they arrive, so that neither the size of a
//! write nor a chunk's edge can decide what is shown.

use std::fmt;

use super::clean::Clean;
use super::cut;
use super::redactor::Redactor;

/// How much of a stream is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes shown from the beginning of the stream.
    pub head: usize,
    /// Bytes shown from the end of the stream. With none, the beginning is shown without a notice.
    pub tail: usize,
    /// Bytes captured beyond each of them, so that a secret that lies over a cut is seen whole.
    /// See [`Redactor::margin`].
    pub margin: usize,
}

impl Limits {
    /// Longer than the longest text that a family masks plus an escape sequence.
    pub const MARGIN: usize = 16 * 1024;
    /// Standard output: the first 20,000 and the last 30,000 bytes.
    pub const STDOUT: Self = Self { head: 20_000, tail: 30_000, margin: Self::MARGIN };
    /// Standard error: the first 10,000 bytes.
    pub const STDERR: Self = Self { head: 10_000, tail: 0, margin: Self::MARGIN };

    /// `max` bytes in all, of which the part `head_ratio` (0 to 1) comes from the beginning.
    pub fn with_ratio(max: usize, head_ratio: f64) -> Self {
        let ratio = if head_ratio.is_finite() { head_ratio.clamp(0.0, 1.0) } else { 0.4 };
        // The product lies between 0 and `max`, so the conversion back cannot lose anything that matters.
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
        let head = ((max as f64) * ratio) as usize;
        let head = head.min(max);
        Self { head, tail: max - head, margin: Self::MARGIN }
    }

    /// The first `max` bytes only.
    pub const fn head_only(max: usize) -> Self {
        Self { head: max, tail: 0, margin: Self::MARGIN }
    }

    /// The same limits with room for values as long as this redactor knows.
    #[must_use]
    pub fn with_margin_for(mut self, redactor: &Redactor) -> Self {
        self.margin = self.margin.max(redactor.margin());
        self
    }

    /// Bytes that are shown at most.
    pub const fn shown(&self) -> usize {
        self.head.saturating_add(self.tail)
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self::STDOUT
    }
}

/// Captures one stream: its beginning, its end, and how long it was.
pub struct Collector {
    limits: Limits,
    head: Vec<u8>,
    tail: Ring,
    total: u64,
}

impl Collector {
    /// An empty collector. Memory is taken as it fills: at most `head + tail + 2 × margin` bytes.
    pub fn new(limits: Limits) -> Self {
        let tail = if limits.tail == 0 { 0 } else { limits.tail.saturating_add(limits.margin) };
        Self { limits, head: Vec::new(), tail: Ring::new(tail), total: 0 }
    }

    /// Takes the next bytes of the stream. Costs one copy of at most the ring's size.
    pub fn push(&mut self, bytes: &[u8]) {
        self.total = self.total.saturating_add(bytes.len() as u64);
        let room = self.limits.head.saturating_add(self.limits.margin) - self.head.len();
        let (first, rest) = bytes.split_at(room.min(bytes.len()));
        self.head.extend_from_slice(first);
        self.tail.push(rest);
    }

    /// Bytes of the stream so far.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Whether nothing has been written.
    pub fn is_empty(&self) -> bool {
        self.total == 0
    }

    /// What is shown of the stream, and the counts.
    pub fn finish(self, redactor: &Redactor) -> Captured {
        self.snapshot(redactor)
    }

    /// What would be shown if the stream ended here.
    pub fn snapshot(&self, redactor: &Redactor) -> Captured {
        let tail = self.tail.to_vec();
        let kept = self.total.min(self.limits.shown() as u64);
        let omitted = self.total - kept;
        let captured = cut::Window {
            head: &self.head,
            tail: &tail,
            total: self.total,
            // What the ring has lost lies between the two windows.
            is_contiguous: self.total == (self.head.len() + tail.len()) as u64,
        };
        let text = cut::render(&captured, self.limits, redactor);
        Captured { text, total: self.total, kept, omitted, truncated: omitted > 0 }
    }
}

impl fmt::Debug for Collector {
    /// Shows the counts only: what was captured is not clean.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Collector")
            .field("limits", &self.limits)
            .field("total", &self.total)
            .finish_non_exhaustive()
    }
}

/// What is shown of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Captured {
    /// The text, with a notice between head and tail if something was left out between them.
    pub text: Clean,
    /// Bytes that the stream had.
    pub total: u64,
    /// Bytes that lie within the shown ranges. `kept + omitted = total`, always.
    pub kept: u64,
    /// Bytes that lie outside the shown ranges.
    pub omitted: u64,
    /// Whether anything was left out.
    pub truncated: bool,
}

/// The last bytes of a stream.
struct Ring {
    bytes: Vec<u8>,
    capacity: usize,
    /// Where the oldest byte is, once the ring is full.
    oldest: usize,
}

impl Ring {
    fn new(capacity: usize) -> Self {
        Self { bytes: Vec::new(), capacity, oldest: 0 }
    }

    fn push(&mut self, bytes: &[u8]) {
        // Of more than the ring can hold, only the end can survive.
        let bytes = &bytes[bytes.len().saturating_sub(self.capacity)..];
        let room = self.capacity - self.bytes.len();
        let (fill, rest) = bytes.split_at(room.min(bytes.len()));
        self.bytes.extend_from_slice(fill);
        if rest.is_empty() {
            return;
        }
        let (to_end, wrapped) = rest.split_at(rest.len().min(self.capacity - self.oldest));
        self.bytes[self.oldest..self.oldest + to_end.len()].copy_from_slice(to_end);
        self.bytes[..wrapped.len()].copy_from_slice(wrapped);
        self.oldest = (self.oldest + rest.len()) % self.capacity;
    }

    fn to_vec(&self) -> Vec<u8> {
        [&self.bytes[self.oldest..], &self.bytes[..self.oldest]].concat()
    }
}
