//! From captured bytes to the text that is shown.
//!
//! The cut comes last and lies at raw byte offsets. A character or a mask that lies over a cut goes to one side whole:
//! to the head if it begins there, else to the tail.

use std::ops::Range;

use super::clean::Clean;
use super::collector::Limits;
use super::mask::{self, Span};
use super::origins::Origins;
use super::redactor::Redactor;
use super::strip;
use super::view::Edges;

/// Captured bytes: the beginning of a stream and its end, which may touch.
pub(super) struct Window<'a> {
    pub(super) head: &'a [u8],
    pub(super) tail: &'a [u8],
    pub(super) total: u64,
    pub(super) is_contiguous: bool,
}

/// Visible characters below which a stretch of captured margin is taken for a secret stuffed with control sequences.
const THIN_MARGIN: usize = 512;

/// Decodes, strips, redacts and cuts.
pub(super) fn render(window: &Window<'_>, limits: Limits, redactor: &Redactor) -> Clean {
    let total = usize::try_from(window.total).unwrap_or(usize::MAX);
    let shown = limits.shown();
    let omitted = limits.head..if total <= shown { limits.head } else { total - limits.tail };
    if window.is_contiguous {
        let bytes = [window.head, window.tail].concat();
        let text = Prepared::new(&bytes, 0, Edges::WHOLE, redactor);
        if total <= shown {
            return Clean::from_pipeline(text.masked(0..text.text.len()));
        }
        let (head_end, tail_start) = text.cut(&omitted);
        return assemble(text.masked(0..head_end), &text.masked(tail_start..text.text.len()), window.total, limits);
    }
    let head = Prepared::new(window.head, 0, Edges::HEAD, redactor);
    let (head_end, _) = head.cut(&omitted);
    let head = head.masked(0..head_end);
    if limits.tail == 0 {
        return Clean::from_pipeline(head);
    }
    let tail = Prepared::new(window.tail, total - window.tail.len(), Edges::TAIL, redactor);
    let (_, tail_start) = tail.cut(&omitted);
    let tail_start = tail.without_thin_margin(tail_start);
    assemble(head, &tail.masked(tail_start..tail.text.len()), window.total, limits)
}

fn assemble(head: String, tail: &str, total: u64, limits: Limits) -> Clean {
    if limits.tail == 0 {
        return Clean::from_pipeline(head);
    }
    let omitted = total - limits.shown() as u64;
    let notice = Clean::format(
        "\n\n... [OUTPUT TRUNCATED - {} chars omitted out of {} total] ...\n\n",
        &[&Clean::grouped(omitted), &Clean::grouped(total)],
    );
    Clean::from_pipeline(head + notice.as_str() + tail)
}

/// One window, decoded and stripped, with the spans to mask and the way back to raw offsets.
struct Prepared<'r> {
    text: String,
    origins: Origins,
    spans: Vec<Span<'r>>,
    /// Raw offset of the window.
    offset: usize,
    redactor: &'r Redactor,
}

impl<'r> Prepared<'r> {
    fn new(bytes: &[u8], offset: usize, edges: Edges, redactor: &'r Redactor) -> Self {
        let (text, origins, gaps) = decode_and_strip(bytes, offset, edges);
        let spans = redactor.find(&text, &gaps, edges);
        Self { text, origins, spans, offset, redactor }
    }

    /// Where the head ends and the tail begins in the text, for an omitted range of raw bytes. Bytes of the text
    /// between the two are dropped.
    fn cut(&self, omitted: &Range<usize>) -> (usize, usize) {
        let mut head_end = self.boundary(|start, _| start < omitted.start);
        let mut tail_start = self.boundary(|_, end| end <= omitted.end);
        if let Some(span) = mask::around(&self.spans, head_end) {
            head_end = span.end;
        }
        if let Some(span) = mask::around(&self.spans, tail_start) {
            tail_start = span.start;
        }
        (head_end, tail_start.max(head_end))
    }

    /// The first character for which `is_before`, which holds for a prefix of the text, does not hold.
    fn boundary(&self, is_before: impl Fn(usize, usize) -> bool) -> usize {
        let mut low = 0;
        let mut high = self.text.len();
        while low < high {
            let middle = self.text.floor_char_boundary(low + (high - low) / 2);
            let next = self.text.ceil_char_boundary(middle + 1);
            if is_before(self.origins.start(middle), self.origins.end(next)) {
                low = next;
            } else {
                high = middle;
            }
        }
        low
    }

    /// A secret stuffed with control sequences can be longer than the margin, and then the tail begins inside it with
    /// nothing to tell. The sign of that is a margin of which little is text: the word that continues it is dropped.
    fn without_thin_margin(&self, tail_start: usize) -> usize {
        let (margin, rest) = self.text.split_at(tail_start);
        let raw = self.origins.start(tail_start).saturating_sub(self.offset);
        let is_thin = margin.len() < THIN_MARGIN && margin.len() * 2 < raw;
        if !is_thin || margin.contains(char::is_whitespace) {
            return tail_start;
        }
        let word = rest.find(char::is_whitespace).unwrap_or(rest.len());
        tail_start + if word <= THIN_MARGIN { word } else { 0 }
    }

    fn masked(&self, range: Range<usize>) -> String {
        mask::render(&self.text, range, &self.spans, self.redactor.style())
    }
}

/// Text without control sequences, where it comes from in the raw bytes, and where in it sequences were.
pub(super) fn decode_and_strip(bytes: &[u8], offset: usize, edges: Edges) -> (String, Origins, Vec<usize>) {
    let (text, decoded) = decode(bytes, offset, edges);
    let Some(ranges) = strip::kept_ranges(&text) else {
        return (text, decoded, Vec::new());
    };
    let mut stripped = String::with_capacity(text.len());
    let mut origins = Origins::default();
    let mut gaps = Vec::with_capacity(ranges.len());
    let mut end = 0;
    for range in ranges {
        if range.start != end {
            gaps.push(stripped.len());
        }
        end = range.end;
        origins.push_through(&decoded, range.start, range.end);
        stripped.push_str(&text[range]);
    }
    (stripped, origins, gaps)
}

/// Decodes UTF-8; each invalid sequence becomes one U+FFFD, but a character that the window's edge has cut is left out.
fn decode(bytes: &[u8], offset: usize, edges: Edges) -> (String, Origins) {
    let skipped = if edges.start_is_open {
        bytes.iter().take(3).take_while(|byte| (0x80..0xc0).contains(*byte)).count()
    } else {
        0
    };
    let bytes = &bytes[skipped..];
    let mut text = String::with_capacity(bytes.len());
    let mut origins = Origins::default();
    let mut at = 0;
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        origins.push_copy(chunk.valid().len(), offset + skipped + at);
        at += chunk.valid().len();
        let invalid = chunk.invalid().len();
        let is_cut = edges.end_is_open && at + invalid == bytes.len() && invalid > 0;
        if invalid > 0 && !is_cut {
            text.push(char::REPLACEMENT_CHARACTER);
            origins.push_replaced(char::REPLACEMENT_CHARACTER.len_utf8(), offset + skipped + at, invalid);
        }
        at += invalid;
    }
    (text, origins)
}
