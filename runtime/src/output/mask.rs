//! Spans of text to mask, and how they are written.

use std::ops::Range;

use super::config::MaskStyle;

/// What every full mask begins with.
pub(super) const OPEN: &str = "[REDACTED:";
/// Longest name of a family in a mask.
pub(super) const MAX_LABEL: usize = 64;
/// Values shorter than this show nothing of themselves in the partial style.
const PARTIAL_MIN: usize = 18;

/// How sure a finding is of what it found. Where findings overlap, the surest one names the mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    /// A name and a value that looks opaque.
    Context,
    /// A shape: a header, a URL, a key block.
    Shape,
    /// A vendor's own prefix.
    Vendor,
    /// A pattern of the user.
    Extra,
    /// A value that the host knows.
    Known,
    /// A mask that the text already had.
    Masked,
}

/// A range of text that must not be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span<'r> {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) label: &'r str,
    pub(super) rank: Rank,
}

impl<'r> Span<'r> {
    /// Joins an overlapping span that does not begin before this one. The longer one names the mask, or the surer one
    /// if neither holds the other.
    fn absorb(&mut self, other: Self) {
        let is_same = (self.start, self.end) == (other.start, other.end);
        let is_inside = other.end <= self.end && !is_same;
        let is_around = other.start == self.start && other.end > self.end;
        // Of two vendors' findings in the same place, the later one has the longer gate.
        if is_around || !is_inside && other.rank >= self.rank || self.rank == Rank::Masked && !is_inside {
            self.label = other.label;
            self.rank = other.rank;
        }
        self.end = self.end.max(other.end);
    }
}

/// Sorts spans and joins those that overlap.
pub(super) fn merge(spans: &mut Vec<Span<'_>>) {
    spans.retain(|span| span.start < span.end);
    spans.sort_by_key(|span| (span.start, span.end));
    let mut merged: Vec<Span<'_>> = Vec::with_capacity(spans.len());
    for span in spans.drain(..) {
        match merged.last_mut() {
            Some(last) if span.start < last.end => last.absorb(span),
            _ => merged.push(span),
        }
    }
    *spans = merged;
}

/// The span that has `at` strictly inside it.
pub(super) fn around<'a, 'r>(spans: &'a [Span<'r>], at: usize) -> Option<&'a Span<'r>> {
    let index = spans.partition_point(|span| span.end <= at);
    spans.get(index).filter(|span| span.start < at)
}

/// The masks that a text already has, if their names are ours. They are left as they are, which makes redacting
/// idempotent.
pub(super) fn existing(text: &str, is_ours: impl Fn(&str) -> bool) -> Vec<Range<usize>> {
    let mut masks = Vec::new();
    for (start, _) in text.match_indices(OPEN) {
        let label = &text.as_bytes()[start + OPEN.len()..];
        let len = label.iter().take(MAX_LABEL).take_while(|byte| is_label_byte(**byte)).count();
        let end = start + OPEN.len() + len;
        if len > 0 && label.get(len) == Some(&b']') && is_ours(&text[start + OPEN.len()..end]) {
            masks.push(start..end + 1);
        }
    }
    masks
}

/// Whether a mask's name may hold this byte.
pub(super) fn is_label_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.')
}

/// Whether a whole value is what a mask of either style leaves behind.
pub(super) fn is_masked_value(value: &[u8]) -> bool {
    let is_stars = value.len() >= 3 && value.iter().all(|byte| *byte == b'*');
    let is_partial = value.len() == 13 && &value[6..9] == b"...";
    is_stars || is_partial || value.starts_with(OPEN.as_bytes())
}

/// `text[range]` with every span replaced by its mask. A span that reaches over the range's edge is written once, if
/// its start lies in the range.
pub(super) fn render(text: &str, range: Range<usize>, spans: &[Span<'_>], style: MaskStyle) -> String {
    let mut shown = String::with_capacity(range.len());
    let mut at = range.start;
    let first = spans.partition_point(|span| span.end <= range.start);
    for span in spans[first..].iter().take_while(|span| span.start < range.end) {
        if span.start > at {
            shown.push_str(&text[at..span.start]);
        }
        push_mask(&mut shown, &text[span.start..span.end], span, style);
        at = span.end;
    }
    if at < range.end {
        shown.push_str(&text[at..range.end]);
    }
    shown
}

fn push_mask(shown: &mut String, value: &str, span: &Span<'_>, style: MaskStyle) {
    if span.rank == Rank::Masked {
        shown.push_str(value);
        return;
    }
    match style {
        MaskStyle::Full => {
            shown.push_str(OPEN);
            shown.push_str(span.label);
            shown.push(']');
        }
        MaskStyle::Partial => {
            let count = value.chars().count();
            // A part of a value with a line break in it would be a part of a key block.
            if count < PARTIAL_MIN || value.contains('\n') {
                shown.push_str("***");
            } else {
                shown.extend(value.chars().take(6));
                shown.push_str("...");
                shown.extend(value.chars().skip(count - 4));
            }
        }
    }
}
