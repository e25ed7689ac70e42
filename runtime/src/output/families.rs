//! Vendor keys that are told by their form: one table of rows, one engine.
//!
//! A row is found by a literal that it always contains (its gate); what comes before and after is then checked in
//! code, part by part and without going back, so that the time is linear in the text. Rows are written from what the
//! vendors say in public about their formats; none is copied from a rule file.

mod rows;
mod sample;

use aho_corasick::{AhoCorasick, MatchKind};

use super::mask::Rank;
use super::opaque;
use super::redactor::Findings;
use super::scan::{self, Class};
use super::view::{Edges, Kind, View};

pub use rows::FAMILIES;
pub use sample::Sampler;

/// One step of a token after its gate.
#[derive(Clone, Copy, Debug)]
pub enum Part {
    /// Between so many and so many characters of a class. As the last part it must end at a boundary.
    Run(Class, usize, usize),
    /// This text.
    Text(&'static str),
}

/// Characters that come before the gate, as in `110201543:AA…`, where the gate is `:AA`.
#[derive(Clone, Copy, Debug)]
pub struct Lead {
    /// What they are.
    pub class: Class,
    /// How many at least.
    pub min: usize,
    /// How many at most.
    pub max: usize,
}

/// A token with the vendor's gate but not the vendor's length is masked as well if it is long enough and looks random:
/// formats change, and people cut keys.
#[derive(Clone, Copy, Debug)]
pub struct Loose {
    /// What it is made of.
    pub class: Class,
    /// How many characters after the gate at least.
    pub min: usize,
}

/// A row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Family {
    /// Names the row in configuration and in masks.
    pub name: &'static str,
    /// Where the vendor describes the format.
    pub source: &'static str,
    /// Where the row comes from, as far as copyright is concerned.
    pub licence: &'static str,
    /// Literals of which each token has one.
    pub gates: &'static [&'static str],
    /// What comes before the gate.
    pub lead: Option<Lead>,
    /// What comes after it in the vendor's own format.
    pub parts: &'static [Part],
    /// Whether a token of the vendor's format must look random too, because its gate is a common word.
    pub is_weak: bool,
    /// What is taken for such a token beyond the vendor's format.
    pub loose: Option<Loose>,
    /// Texts that resemble the row and must stay.
    pub stays: &'static [&'static str],
    /// Whether the row is on unless it is switched off.
    pub is_default: bool,
}

/// Longest token that a row without its own limit takes.
const MAX_TOKEN: usize = 4096;

/// What is looked at of a token to tell whether it is random.
const MAX_LOOK: usize = 256;
/// A gate after so many characters of base64 is a part of it.
const BASE64_RUN: usize = 24;

/// Shortest rest of a key in a next line that is masked, and most of such lines.
const MIN_PIECE: usize = 8;
const MAX_LINES: usize = 24;

/// The rows that are switched on, ready to search.
#[derive(Debug)]
pub(super) struct Matcher {
    gates: AhoCorasick,
    /// The row of each gate.
    rows: Vec<&'static Family>,
}

impl Matcher {
    /// `None` if the rows make no automaton, which the tests exclude for the built-in table.
    pub(super) fn new(is_on: impl Fn(&Family) -> bool) -> Result<Self, Box<aho_corasick::BuildError>> {
        let on: Vec<&'static Family> = FAMILIES.iter().filter(|family| is_on(family)).collect();
        let pairs = on.iter().flat_map(|family| family.gates.iter().map(move |gate| (*gate, *family)));
        let (patterns, rows): (Vec<&str>, Vec<&'static Family>) = pairs.unzip();
        let gates = AhoCorasick::builder().match_kind(MatchKind::Standard).build(patterns)?;
        Ok(Self { gates, rows })
    }

    /// Reports every token in the view.
    pub(super) fn find(&self, view: &View<'_>, edges: Edges, findings: &mut Findings<'_, '_>) {
        let mut runs = Runs::default();
        for gate in self.gates.find_overlapping_iter(view.bytes()) {
            let family = self.rows[gate.pattern().as_usize()];
            let candidate = Candidate { view, edges, family, gate: gate.range() };
            if let Some((start, end)) = candidate.token(&mut runs) {
                findings.push(start..end, family.name, Rank::Vendor);
            }
        }
    }

    /// Start of the first token that may have begun in `text`, of whole lines, and go on in the next line.
    pub(super) fn open_token(&self, text: &str) -> Option<usize> {
        let line = text.trim_end_matches(['\n', '\r']);
        let from = line.floor_char_boundary(line.len().saturating_sub(MAX_TOKEN));
        let word = line[from..].rfind([' ', '\t', '\n']).map_or(from, |blank| from + blank + 1);
        let view = View::new(&line[word..], Kind::Joined, &[]);
        let open = self.gates.find_overlapping_iter(view.bytes()).find(|gate| {
            let family = self.rows[gate.pattern().as_usize()];
            let has_run = |class: Class| {
                view.bytes()[gate.end()..].iter().all(|byte| class.has(*byte) || !byte.is_ascii_alphanumeric())
            };
            let may_go_on = family.parts.iter().any(|part| matches!(part, Part::Run(class, ..) if has_run(*class)));
            may_go_on && scan::starts_token(&view, gate.start()) || family.lead.is_some()
        });
        open.map(|_| word)
    }
}

/// Ends of the runs that were measured last, one for each class: a text that is one long run of gates is measured once.
#[derive(Default)]
struct Runs {
    known: Vec<(Class, usize, usize)>,
}

impl Runs {
    /// End of the run of `class` that begins at `from` or before it.
    fn end(&mut self, bytes: &[u8], from: usize, class: Class) -> usize {
        if let Some((_, start, end)) = self.known.iter().find(|known| known.0 == class)
            && (*start..=*end).contains(&from)
        {
            return *end;
        }
        let end = from + scan::run(bytes, from, usize::MAX, |byte| class.has(byte));
        self.known.retain(|known| known.0 != class);
        self.known.push((class, from, end));
        end
    }
}

struct Candidate<'a> {
    view: &'a View<'a>,
    edges: Edges,
    family: &'static Family,
    gate: std::ops::Range<usize>,
}

impl Candidate<'_> {
    /// Start and end of the token around this gate.
    fn token(&self, runs: &mut Runs) -> Option<(usize, usize)> {
        let start = self.start()?;
        let end = self.strict_end(runs).or_else(|| self.loose_end(runs))?;
        Some((start, end))
    }

    fn start(&self) -> Option<usize> {
        let bytes = self.view.bytes();
        let mut start = self.gate.start;
        if let Some(lead) = self.family.lead {
            let len = scan::run_back(bytes, start, lead.max + 1, |byte| lead.class.has(byte));
            if len < lead.min {
                return None;
            }
            // What precedes a lead that is too long may still be something that ends right before it.
            start -=
                if len > lead.max { (lead.min..=lead.max).rev().find(|len| self.opens(start - len))? } else { len };
        }
        (self.opens(start) && !self.is_in_base64(start)).then_some(start)
    }

    fn opens(&self, at: usize) -> bool {
        scan::starts_token(self.view, at)
    }

    /// The end of a token of the vendor's own format.
    fn strict_end(&self, runs: &mut Runs) -> Option<usize> {
        let mut at = self.gate.end;
        let (last, parts) = self.family.parts.split_last()?;
        for part in parts {
            at = self.part_end(*part, at, runs)?;
        }
        let end = match *last {
            Part::Run(class, min, max) => self.last_run_end(class, min, max, at, runs)?,
            Part::Text(_) => self.part_end(*last, at, runs)?,
        };
        let is_token = scan::ends_token(self.view, end) || self.view.is_gap(end);
        let is_plausible = if self.family.is_weak { self.is_random(end) } else { !self.is_words(end) };
        (is_token && is_plausible).then_some(end)
    }

    fn part_end(&self, part: Part, at: usize, runs: &mut Runs) -> Option<usize> {
        let rest = self.view.bytes().get(at..)?;
        match part {
            Part::Text(text) => rest.starts_with(text.as_bytes()).then_some(at + text.len()),
            Part::Run(class, min, max) if min == max => {
                let len = scan::run(self.view.bytes(), at, max, |byte| class.has(byte));
                (len == max).then_some(at + max)
            }
            Part::Run(class, min, max) => {
                let len = runs.end(self.view.bytes(), at, class) - at;
                (min..=max).contains(&len).then_some(at + len)
            }
        }
    }

    /// The last run goes to its boundary. Where it is too long, it may be two things with something invisible between.
    fn last_run_end(&self, class: Class, min: usize, max: usize, at: usize, runs: &mut Runs) -> Option<usize> {
        let end = self.joined_end(at, min, runs.end(self.view.bytes(), at, class));
        let len = end - at;
        if (min..=max).contains(&len) {
            return Some(end);
        }
        let is_cut = self.edges.end_is_open && end == self.view.bytes().len();
        if len < min {
            return is_cut.then_some(end);
        }
        self.view.last_gap(at + min, at + max)
    }

    /// Where a run that goes over line ends stops. It takes further lines until it is long enough, and then only such as
    /// look like the rest of a key: the first word of the next line must not vanish with a key at the end of this one.
    fn joined_end(&self, from: usize, min: usize, end: usize) -> usize {
        let breaks = self.view.breaks_after(from);
        let mut taken = 0;
        for (index, at) in breaks.iter().copied().enumerate() {
            if at >= end {
                break;
            }
            // A line too short to tell is looked at together with the ones after it.
            let ends = breaks[index + 1..].iter().copied().chain([end]).take(3);
            let next = ends.map(|next| next.min(end)).find(|next| next - at >= MIN_PIECE);
            let is_rest = next.is_some_and(|next| opaque::is_piece(&self.view.bytes()[at..next]));
            if at - from >= min && (!is_rest || taken == MAX_LINES) {
                return at;
            }
            taken += usize::from(at - from >= min);
        }
        end
    }

    fn loose_end(&self, runs: &mut Runs) -> Option<usize> {
        let loose = self.family.loose?;
        let from = self.gate.end;
        let end = self.joined_end(from, loose.min, runs.end(self.view.bytes(), from, loose.class));
        let len = end - from;
        let fits = (loose.min..=MAX_TOKEN).contains(&len) && scan::ends_token(self.view, end);
        (fits && self.is_random(end)).then_some(end)
    }

    fn is_random(&self, end: usize) -> bool {
        let from = self.gate.end;
        opaque::is_random(&self.view.bytes()[from..end.min(from + MAX_LOOK)])
    }

    /// Whether what follows the gate reads like words: `glpat-your-token-goes-here`.
    fn is_words(&self, end: usize) -> bool {
        let from = self.gate.end;
        let body = &self.view.bytes()[from..end.min(from + MAX_LOOK)];
        !opaque::Traits::of(body).has_digit && opaque::reads_like_words(body)
    }

    /// Whether a gate of letters and digits alone stands inside base64, where every such text occurs by chance.
    fn is_in_base64(&self, start: usize) -> bool {
        let bytes = self.view.bytes();
        let is_plain = bytes[self.gate.clone()].iter().all(u8::is_ascii_alphanumeric);
        let is_glued = start > 0 && matches!(bytes[start - 1], b'+' | b'/');
        let is_base64 = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
        is_plain && is_glued && scan::run_back(bytes, start, BASE64_RUN, is_base64) == BASE64_RUN
    }
}
