//! Values that the host knows to be secret.
//!
//! They are masked wherever they occur, whatever they look like, and also in the encodings that scripts put them
//! through by habit: base64, hex, percent and backslash escapes, reversed, wrapped over lines. One automaton holds all
//! forms of all values.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, MatchKind};
use secrecy::{ExposeSecret, SecretString};

use super::mask::Rank;
use super::redactor::Findings;
use super::scan::Class;
use super::view::{self, Kind, View};

/// Shorter values would shred ordinary text.
pub(super) const MIN_LENGTH: usize = 8;
/// With fewer different characters a value is a placeholder or a line drawn with dashes.
const MIN_DISTINCT: usize = 4;
/// Lines of a multi-line value are masked on their own from this length on.
const MIN_LINE: usize = 16;
/// The name under which known values are masked.
pub(super) const FAMILY: &str = "known";

/// Words of eight and more letters that occur in at least twelve files of the Python standard library and the crates
/// of this project's lock file, in order.
static WORDS: LazyLock<BTreeSet<&'static str>> = LazyLock::new(|| include_str!("words.txt").lines().collect());

/// Why a value that was given is not masked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refused {
    /// It has fewer than eight characters.
    TooShort,
    /// It is a word, or hardly more than one character repeated.
    TooCommon,
}

/// A value and the name by which the host knows it.
#[derive(Clone, Debug)]
pub(super) struct Value {
    pub(super) name: String,
    pub(super) value: SecretString,
}

/// Whether masking this value would shred ordinary text.
pub(super) fn refusal(value: &str) -> Option<Refused> {
    let squeezed = view::normalized(value, Kind::Squeezed);
    if value.trim().chars().count() < MIN_LENGTH || squeezed.len() < MIN_LENGTH {
        return Some(Refused::TooShort);
    }
    is_common(value.trim()).then_some(Refused::TooCommon)
}

fn is_common(value: &str) -> bool {
    let distinct: BTreeSet<char> = value.chars().collect();
    distinct.len() < MIN_DISTINCT || is_word(&value.to_lowercase()) || is_plain_path(value)
}

/// A dictionary word, also with an ending or with a digit after it.
pub(super) fn is_word(value: &str) -> bool {
    let stem = value.trim_end_matches(|char: char| char.is_ascii_digit());
    let has_number = value.len() - stem.len() > 1;
    let endings = ["", "s", "ed", "d", "ing", "ly", "er", "able"];
    !has_number && endings.iter().any(|ending| stem.strip_suffix(ending).is_some_and(|stem| WORDS.contains(stem)))
}

/// A path of plain names, such as a home directory, which ordinary output is full of.
fn is_plain_path(value: &str) -> bool {
    let is_path = value.starts_with('/') || value.starts_with("~/") || value.starts_with("./");
    is_path && value.bytes().all(|byte| byte.is_ascii_alphabetic() || matches!(byte, b'/' | b'.' | b'-' | b'_' | b'~'))
}

/// All forms of all known values. Has no `Debug`, since the automaton would show them.
#[derive(Default)]
pub(super) struct Known {
    automaton: Option<AhoCorasick>,
    /// For each form: whether a base64 character before and after it holds bits of the value as well.
    spill: Vec<(bool, bool)>,
    longest: usize,
    /// Forms in order, for the streamer's question whether a text may be the beginning of one.
    sorted: Vec<Vec<u8>>,
}

impl Known {
    pub(super) fn new(values: &[Value]) -> Result<Self, Box<aho_corasick::BuildError>> {
        let mut forms = Vec::new();
        for value in values {
            for piece in pieces(value.value.expose_secret()) {
                add_forms(piece, &mut forms);
            }
        }
        forms.sort();
        forms.dedup_by(|one, other| one.text == other.text);
        if forms.is_empty() {
            return Ok(Self::default());
        }
        let automaton = AhoCorasick::builder()
            .match_kind(MatchKind::Standard)
            .build(forms.iter().map(|form| &form.text))
            .map_err(Box::new)?;
        Ok(Self {
            automaton: Some(automaton),
            spill: forms.iter().map(|form| form.spill).collect(),
            longest: forms.iter().map(|form| form.text.len()).max().unwrap_or(0),
            sorted: forms.into_iter().map(|form| form.text).collect(),
        })
    }

    /// Bytes of the longest form.
    pub(super) fn longest(&self) -> usize {
        self.longest
    }

    /// Reports every form of every value in `text`.
    pub(super) fn find(&self, text: &str, findings: &mut Findings<'_, '_>) {
        let Some(automaton) = &self.automaton else {
            return;
        };
        self.find_in(automaton, &View::new(text, Kind::Squeezed, findings.masked()), findings);
        if text.contains('\\') {
            self.find_in(automaton, &View::new(text, Kind::Unescaped, findings.masked()), findings);
        }
        if text.contains('%') {
            self.find_in(automaton, &View::new(text, Kind::Unpercent, findings.masked()), findings);
        }
    }

    fn find_in(&self, automaton: &AhoCorasick, view: &View<'_>, findings: &mut Findings<'_, '_>) {
        let bytes = view.bytes();
        for found in automaton.find_overlapping_iter(bytes) {
            let (before, after) = self.spill[found.pattern().as_usize()];
            let mut range = found.range();
            let is_base64 =
                |at: usize| bytes.get(at).is_some_and(|byte| Class::Base64.has(*byte) || Class::Url.has(*byte));
            if before && range.start > 0 && is_base64(range.start - 1) {
                range.start -= 1;
            }
            if after && is_base64(range.end) {
                range.end += 1;
            }
            findings.push_source(view.source(range), FAMILY, Rank::Known);
        }
    }

    /// Length of the longest end of `text` (white space aside) with which a form may begin.
    pub(super) fn open_end(&self, text: &str) -> usize {
        let view = View::new(text, Kind::Squeezed, &[]);
        let bytes = view.bytes();
        let first = bytes.len().saturating_sub(self.longest);
        let is_open = |from: usize| {
            let end = &bytes[from..];
            let index = self.sorted.partition_point(|form| form.as_slice() < end);
            self.sorted.get(index).is_some_and(|form| form.len() > end.len() && form.starts_with(end))
        };
        let open = (first..bytes.len()).find(|from| is_open(*from));
        open.map_or(0, |from| text.len() - view.source(from..bytes.len()).start)
    }
}

/// A value itself, its longer lines, and the password of a URL.
fn pieces(value: &str) -> Vec<&str> {
    let mut pieces = vec![value];
    if value.trim().contains('\n') {
        pieces.extend(value.lines().map(str::trim).filter(|line| line.len() >= MIN_LINE));
    }
    if let Some((_, rest)) = value.split_once("://")
        && let Some((userinfo, _)) = rest.rsplit_once('@')
        && let Some((_, password)) = userinfo.split_once(':')
    {
        pieces.push(password);
    }
    pieces.retain(|piece| refusal(piece).is_none());
    pieces
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Form {
    text: Vec<u8>,
    spill: (bool, bool),
}

fn add_forms(value: &str, forms: &mut Vec<Form>) {
    let mut add = |text: Vec<u8>, spill| {
        if text.len() >= MIN_LENGTH {
            forms.push(Form { text, spill });
        }
    };
    let plain = view::normalized(value, Kind::Squeezed);
    let mut reversed = value.chars().rev().collect::<String>();
    reversed = String::from_utf8(view::normalized(&reversed, Kind::Squeezed)).unwrap_or(reversed);
    add(view::normalized(value, Kind::Unescaped), (false, false));
    add(view::normalized(value, Kind::Unpercent), (false, false));
    add(plain, (false, false));
    add(reversed.into_bytes(), (false, false));
    // Whether the newline at a file's end was encoded too is not known; the value without it is inside either way.
    let bytes = value.trim().as_bytes();
    add(hex(bytes, b"0123456789abcdef"), (false, false));
    add(hex(bytes, b"0123456789ABCDEF"), (false, false));
    for offset in 0..3 {
        let (core, spill) = base64_core(bytes, offset, STANDARD);
        add(core, spill);
        let (core, spill) = base64_core(bytes, offset, URL_SAFE);
        add(core, spill);
    }
}

fn hex(bytes: &[u8], digits: &[u8; 16]) -> Vec<u8> {
    bytes.iter().flat_map(|byte| [digits[usize::from(byte >> 4)], digits[usize::from(byte & 15)]]).collect()
}

const STANDARD: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const URL_SAFE: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// The base64 characters (RFC 4648) that depend on `bytes` alone, if `offset` bytes come before them in their group of
/// three, and whether the characters before and after depend on them in part.
fn base64_core(bytes: &[u8], offset: usize, alphabet: &[u8; 64]) -> (Vec<u8>, (bool, bool)) {
    let bit = |index: usize| index.checked_sub(offset * 8).is_some_and(|bit| bytes[bit / 8] >> (7 - bit % 8) & 1 == 1);
    let end = (offset + bytes.len()) * 8;
    let first = (offset * 8).div_ceil(6);
    let core = (first..end / 6)
        .map(|char| alphabet[(0..6).fold(0, |code, at| code << 1 | usize::from(bit(char * 6 + at)))])
        .collect();
    (core, (first * 6 != offset * 8, !end.is_multiple_of(6)))
}
