//! The redactor: everything that finds secrets, built once and shared.

mod builder;

use std::collections::HashSet;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use regex::bytes::Regex;
use secrecy::SecretString;

use super::clean::Clean;
use super::config::{MaskStyle, RedactError};
use super::families;
use super::known::{self, Known, Refused, Value};
use super::mask::{self, Rank, Span};
use super::strip::strip_with_gaps;
use super::view::{Edges, Kind, View};
use super::{assign, collector, headers, pem, urls};

pub use builder::RedactorBuilder;
use builder::add_known;

/// Rounds of matching. A mask can free the boundary of what stood next to it, so matching goes on until nothing new is
/// found; each round beyond the second needs one more secret glued to the one before.
const MAX_ROUNDS: usize = 8;
/// Finds of one user pattern in one text, after which the rest of the text is masked.
const MAX_FINDS: usize = 4096;
/// Text beyond what a preview can show that is looked at, so that a secret at its edge is seen whole.
const PREVIEW_WINDOW: usize = 64 * 1024;

/// Detectors that are no vendor's, by the name under which they are switched and masked.
const SHAPES: &[&str] = &[
    "known",
    "assignment",
    "header",
    "cookie",
    "private_key",
    "url_password",
    "url_token",
    "webhook",
    "aws_secret_key",
];

/// Finds and masks secrets. Cheap to clone.
#[derive(Clone)]
pub struct Redactor {
    rules: Arc<Rules>,
    known: Arc<Known>,
    values: Arc<Vec<Value>>,
    refused: Arc<Vec<(String, Refused)>>,
}

/// What does not change between runs.
struct Rules {
    is_enabled: bool,
    style: MaskStyle,
    families: families::Matcher,
    shapes: Vec<&'static str>,
    keywords: assign::Keywords,
    extra: Vec<(String, Regex)>,
    /// Every name that a mask can have. Only these make a mask: else a script could write its secret as one.
    labels: HashSet<String>,
}

impl Redactor {
    /// Starts with the defaults: on, full masks, all default families, no known values.
    pub fn builder() -> RedactorBuilder {
        RedactorBuilder::default()
    }

    /// The default redactor.
    ///
    /// # Errors
    ///
    /// None with the built-in table; the type is that of [`RedactorBuilder::build`].
    pub fn new() -> Result<Self, RedactError> {
        Self::builder().build()
    }

    /// The same redactor with more known values: those of one run.
    ///
    /// # Errors
    ///
    /// If all values together are too long for one automaton.
    pub fn with_known(&self, values: impl IntoIterator<Item = (String, SecretString)>) -> Result<Self, RedactError> {
        let mut all = (*self.values).clone();
        let mut refused = (*self.refused).clone();
        add_known(values, &mut all, &mut refused);
        if all.len() == self.values.len() {
            return Ok(Self { refused: Arc::new(refused), ..self.clone() });
        }
        let known = Known::new(&all).map_err(RedactError::TooManyValues)?;
        Ok(Self {
            rules: Arc::clone(&self.rules),
            known: Arc::new(known),
            values: Arc::new(all),
            refused: Arc::new(refused),
        })
    }

    /// Names of the known values that are not masked, and why.
    pub fn refused(&self) -> &[(String, Refused)] {
        &self.refused
    }

    /// Names of the known values that are masked.
    pub fn known_names(&self) -> impl Iterator<Item = &str> {
        self.values.iter().map(|value| value.name.as_str())
    }

    /// Whether anything is masked at all.
    pub fn is_enabled(&self) -> bool {
        self.rules.is_enabled
    }

    /// Bytes to capture beyond a cut, so that the longest text that is masked is seen whole.
    pub fn margin(&self) -> usize {
        collector::Limits::MARGIN.max(self.known.longest().saturating_mul(4).saturating_add(4096))
    }

    /// Strips and redacts a text that is not cut: an error, a log field, a prompt.
    pub fn clean(&self, text: &str) -> Clean {
        let (text, gaps) = strip_with_gaps(text);
        let spans = self.find(&text, &gaps, Edges::WHOLE);
        Clean::from_pipeline(mask::render(&text, 0..text.len(), &spans, self.style()))
    }

    /// Decodes bytes with replacement, strips and redacts them.
    pub fn clean_bytes(&self, bytes: &[u8]) -> Clean {
        self.clean(&String::from_utf8_lossy(bytes))
    }

    /// At most `max_chars` characters of a text, cut after it was redacted.
    pub fn preview(&self, text: &str, max_chars: usize) -> Clean {
        let window = PREVIEW_WINDOW.max(self.margin()).saturating_add(max_chars.saturating_mul(4));
        if text.len() <= window {
            return self.clean(text).shortened(max_chars);
        }
        let (text, gaps) = strip_with_gaps(&text[..text.floor_char_boundary(window)]);
        let spans = self.find(&text, &gaps, Edges::HEAD);
        Clean::from_pipeline(mask::render(&text, 0..text.len(), &spans, self.style()) + "…").shortened(max_chars)
    }

    /// Whether a value by itself is what a family, a shape or a known value describes. For deciding whether an
    /// environment variable with a harmless name holds a secret.
    pub fn looks_secret(&self, value: &str) -> bool {
        let (value, gaps) = strip_with_gaps(value);
        self.rules.is_enabled && self.find(&value, &gaps, Edges::WHOLE).iter().any(|span| span.rank != Rank::Masked)
    }

    pub(super) fn style(&self) -> MaskStyle {
        self.rules.style
    }

    /// Start of a vendor's token that may have begun in whole lines and go on in the next one.
    pub(super) fn open_token(&self, text: &str) -> Option<usize> {
        self.rules.families.open_token(text)
    }

    /// Where in an unfinished line a value begins that may become a secret as the line goes on.
    pub(super) fn open_candidate(&self, line: &str) -> Option<usize> {
        if !self.rules.extra.is_empty() {
            // What a pattern of the user needs is not known; patterns never go over a line.
            return Some(0);
        }
        let header = line.rfind("-----");
        assign::first_value(&self.rules.keywords, line).into_iter().chain(header).min()
    }

    pub(super) fn known_values(&self) -> &Known {
        &self.known
    }

    /// The spans of a stripped text that must not be shown, in order and apart from one another. `gaps` are the offsets
    /// at which something was stripped.
    pub(super) fn find(&self, text: &str, gaps: &[usize], edges: Edges) -> Vec<Span<'_>> {
        let mut spans: Vec<Span<'_>> = mask::existing(text, |label| self.rules.labels.contains(label))
            .into_iter()
            .map(|mask| Span { start: mask.start, end: mask.end, label: "", rank: Rank::Masked })
            .collect();
        if !self.rules.is_enabled {
            return Vec::new();
        }
        for _ in 0..MAX_ROUNDS {
            let before = spans.clone();
            let found = self.find_once(text, gaps, edges, &before);
            if found.is_empty() {
                break;
            }
            spans.extend(found);
            mask::merge(&mut spans);
            if spans == before {
                break;
            }
        }
        spans
    }

    fn find_once<'r>(&'r self, text: &str, gaps: &[usize], edges: Edges, masked: &[Span<'r>]) -> Vec<Span<'r>> {
        let mut findings = Findings::new(masked, &self.rules.shapes);
        if self.rules.has("known") {
            self.known.find(text, &mut findings);
            let open = if edges.end_is_open { self.known.open_end(text) } else { 0 };
            if open >= known::MIN_LENGTH {
                findings.push_source(text.len() - open..text.len(), known::FAMILY, Rank::Known);
            }
        }
        let view = View::new(text, Kind::Plain, masked).with_gaps(gaps);
        self.rules.find(&view, edges, &mut findings);
        if text.contains('\n') {
            let view = View::new(text, Kind::Joined, masked).with_gaps(gaps);
            findings.through(&view, |findings| self.rules.families.find(&view, edges, findings));
        }
        if text.contains('\u{8}') {
            let view = View::new(text, Kind::Overstruck, masked).with_gaps(gaps);
            self.rules.find(&view, edges, &mut findings);
        }
        findings.found
    }
}

impl fmt::Debug for Redactor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Redactor")
            .field("is_enabled", &self.rules.is_enabled)
            .field("style", &self.rules.style)
            .field("known_values", &self.values.len())
            .finish_non_exhaustive()
    }
}

impl Rules {
    fn has(&self, shape: &str) -> bool {
        self.shapes.contains(&shape)
    }

    fn find<'r>(&'r self, view: &View<'_>, edges: Edges, findings: &mut Findings<'_, 'r>) {
        findings.through(view, |findings| {
            self.families.find(view, edges, findings);
            pem::find(view, edges, findings);
            headers::find(view, findings);
            urls::find(view, findings);
            assign::find(&self.keywords, view, findings);
            for (name, regex) in &self.extra {
                find_extra(name, regex, view, findings);
            }
        });
    }
}

fn find_extra<'r>(name: &'r str, regex: &Regex, view: &View<'_>, findings: &mut Findings<'_, 'r>) {
    let bytes = view.bytes();
    let mut start = 0;
    let mut count = 0;
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        for captures in regex.captures_iter(line) {
            let Some(found) = captures.get(1).or_else(|| captures.get(0)) else {
                continue;
            };
            count += 1;
            if count > MAX_FINDS {
                findings.push(start + found.start()..bytes.len(), name, Rank::Extra);
                return;
            }
            findings.push(start + found.start()..start + found.end(), name, Rank::Extra);
        }
        start += line.len();
    }
}

/// What the detectors of one round have found.
pub(super) struct Findings<'m, 'r> {
    masked: &'m [Span<'r>],
    shapes: &'m [&'static str],
    /// Found in the current view.
    pending: Vec<(Range<usize>, &'r str, Rank)>,
    found: Vec<Span<'r>>,
}

impl<'m, 'r> Findings<'m, 'r> {
    fn new(masked: &'m [Span<'r>], shapes: &'m [&'static str]) -> Self {
        Self { masked, shapes, pending: Vec::new(), found: Vec::new() }
    }

    /// What is masked already.
    pub(super) fn masked(&self) -> &'m [Span<'r>] {
        self.masked
    }

    /// Reports a range of the current view.
    pub(super) fn push(&mut self, range: Range<usize>, label: &'r str, rank: Rank) {
        let is_on = matches!(rank, Rank::Vendor | Rank::Extra) || self.shapes.contains(&label);
        if is_on && !range.is_empty() {
            self.pending.push((range, label, rank));
        }
    }

    /// Reports a range of the text.
    pub(super) fn push_source(&mut self, range: Range<usize>, label: &'r str, rank: Rank) {
        self.found.push(Span { start: range.start, end: range.end, label, rank });
    }

    /// Runs detectors on a view and brings what they report back to the text.
    fn through(&mut self, view: &View<'_>, detect: impl FnOnce(&mut Self)) {
        detect(self);
        for (range, label, rank) in std::mem::take(&mut self.pending) {
            self.push_source(view.source(range), label, rank);
        }
    }
}
