//! Finding a block of lines that is only like the caller's. Exact enough to act on when one place stands out, and never for many places.

use std::collections::HashMap;

use rapidfuzz::fuzz::{Args, RatioBatchComparator};

use super::fold::plain;

/// Lines that a text needs before likeness means anything.
const MIN_LINES: usize = 2;
/// Mean likeness of the lines between two anchors that is enough when only one place has the anchors.
const ANCHORED_SINGLE: f64 = 0.5;
/// The same when several places have them.
const ANCHORED_MANY: f64 = 0.7;
/// A line this much alike counts as the same line changed.
const ALIKE: f64 = 0.8;
/// The part of lines that have to be alike.
const ENOUGH: f64 = 0.5;
/// How much better than any other place the best one has to be.
const LEAD: f64 = 0.1;
/// Longer lines than this are compared only when they are equal: likeness of megabytes takes minutes.
const MAX_LINE: usize = 4_000;

/// Places whose first and last line are the caller's, with lines between that are alike on the whole.
pub(crate) fn block_anchor(file: &[&str], wanted: &[&str]) -> Option<Vec<usize>> {
    let count = wanted.len();
    if count < 3 || count > file.len() {
        return None;
    }
    let (first, last) = (plain(wanted[0]), plain(wanted[count - 1]));
    if first.is_empty() || last.is_empty() {
        return None;
    }
    let quick = |line: &str, key: &str| line.trim().len() >= key.len() && plain(line) == key;
    let places: Vec<usize> =
        (0..=file.len() - count).filter(|&at| quick(file[at], &first) && quick(file[at + count - 1], &last)).collect();
    let needed = if places.len() == 1 { ANCHORED_SINGLE } else { ANCHORED_MANY };
    let middle = Likeness::new(&wanted[1..count - 1]);
    let mut memo = Memo::default();
    let good = places.into_iter().filter(|at| middle.mean(&file[at + 1..at + count - 1], &mut memo) >= needed);
    let good: Vec<usize> = good.collect();
    (!good.is_empty()).then_some(good)
}

/// Places where at least half of the lines are alike: the best one if it stands out, else all that are as good.
pub(crate) fn context_aware(file: &[&str], wanted: &[&str]) -> Option<Vec<usize>> {
    let count = wanted.len();
    let filled = wanted.iter().filter(|line| !line.trim().is_empty()).count();
    if filled < MIN_LINES || count > file.len() {
        return None;
    }
    let likeness = Likeness::new(wanted);
    let mut memo = Memo::default();
    let scores: Vec<f64> =
        (0..=file.len() - count).map(|at| likeness.score(&file[at..at + count], &mut memo)).collect();
    let best = scores.iter().copied().fold(0.0, f64::max);
    if best == 0.0 {
        return None;
    }
    let mut places: Vec<usize> = Vec::new();
    for (at, &score) in scores.iter().enumerate() {
        let near = places.last().is_some_and(|&last| at - last < count);
        match places.last_mut() {
            // Neighbors of a good place are nearly as good; the best of them stands for all.
            Some(last) if near && score > scores[*last] => *last = at,
            Some(_) if near => {}
            _ if score > 0.0 && score >= best - LEAD => places.push(at),
            _ => {}
        }
    }
    places.retain(|&at| scores[at] >= best - LEAD);
    Some(places)
}

/// The places most like the caller's text, best first, for telling where it might have been meant. The first filled line decides which are looked at.
pub(crate) fn closest(file: &[&str], wanted: &[&str], max: usize) -> Vec<usize> {
    const LOOKED_AT: usize = 200;
    const FIRST_LINE: f64 = 0.5;
    let Some(lead) = wanted.iter().position(|line| !line.trim().is_empty()) else { return Vec::new() };
    let likeness = Likeness::new(wanted);
    let mut memo = Memo::default();
    let alike = |(at, line): (usize, &&str)| {
        let ratio = likeness.ratio_once(lead, line.trim(), FIRST_LINE);
        (ratio >= FIRST_LINE).then_some((ratio, at.saturating_sub(lead)))
    };
    let mut scored: Vec<(f64, usize)> = file.iter().enumerate().filter_map(alike).collect();
    let order = |a: &(f64, usize), b: &(f64, usize)| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1));
    scored.sort_by(order);
    scored.truncate(LOOKED_AT);
    for (score, at) in &mut scored {
        *score += likeness.mean(&file[*at..file.len().min(*at + wanted.len())], &mut memo);
    }
    scored.sort_by(order);
    let mut places: Vec<usize> = Vec::new();
    for (_, at) in scored {
        if places.iter().all(|&other| other.abs_diff(at) >= wanted.len().max(3)) {
            places.push(at);
        }
        if places.len() == max {
            break;
        }
    }
    places
}

/// Likeness of pairs that was computed before: files repeat their lines.
#[derive(Default)]
struct Memo<'a> {
    known: HashMap<(usize, &'a str), f64>,
}

/// The caller's lines, prepared for many comparisons.
struct Likeness {
    lines: Vec<Line>,
}

struct Line {
    text: String,
    histogram: Histogram,
    compare: Option<RatioBatchComparator<u8>>,
}

impl Likeness {
    fn new(lines: &[&str]) -> Self {
        let lines = lines.iter().map(|line| {
            let text = line.trim().to_owned();
            let compare = (!text.is_empty() && text.len() <= MAX_LINE).then(|| RatioBatchComparator::new(text.bytes()));
            Line { histogram: Histogram::of(&text), text, compare }
        });
        Self { lines: lines.collect() }
    }

    /// The part of lines that are alike, or 0 if they are too few. Blank lines count as alike and weigh nothing.
    fn score<'a>(&self, file: &[&'a str], memo: &mut Memo<'a>) -> f64 {
        let filled = self.lines.iter().filter(|line| !line.text.is_empty()).count();
        let needed = ENOUGH * filled as f64;
        let (mut alike, mut sum, mut left, mut equal) = (0usize, 0.0, filled, false);
        for (at, (line, have)) in self.lines.iter().zip(file).enumerate() {
            if line.text.is_empty() {
                continue;
            }
            left -= 1;
            let ratio = self.ratio(at, have.trim(), ALIKE, memo);
            if ratio >= ALIKE {
                alike += 1;
                sum += ratio;
                equal |= ratio >= 1.0;
            }
            if ((alike + left) as f64) < needed {
                return 0.0;
            }
        }
        // Without one line that is really there, likeness is chance.
        if !equal || (alike as f64) < needed {
            return 0.0;
        }
        sum / filled as f64
    }

    /// Mean likeness of all lines.
    fn mean<'a>(&self, file: &[&'a str], memo: &mut Memo<'a>) -> f64 {
        if self.lines.is_empty() {
            return 1.0;
        }
        let sum: f64 =
            self.lines.iter().zip(file).enumerate().map(|(at, (_, have))| self.ratio(at, have.trim(), 0.3, memo)).sum();
        sum / self.lines.len() as f64
    }

    fn ratio<'a>(&self, at: usize, have: &'a str, cutoff: f64, memo: &mut Memo<'a>) -> f64 {
        let line = &self.lines[at];
        if line.text == have {
            return 1.0;
        }
        if have.is_empty() || have.len() > MAX_LINE || line.histogram.bound(have) < cutoff {
            return 0.0;
        }
        *memo.known.entry((at, have)).or_insert_with(|| self.compare(at, have, cutoff))
    }

    /// The same for a pair that will not come again.
    fn ratio_once(&self, at: usize, have: &str, cutoff: f64) -> f64 {
        let line = &self.lines[at];
        match () {
            () if line.text == have => 1.0,
            () if have.is_empty() || have.len() > MAX_LINE || line.histogram.bound(have) < cutoff => 0.0,
            () => self.compare(at, have, cutoff),
        }
    }

    fn compare(&self, at: usize, have: &str, cutoff: f64) -> f64 {
        let args = Args::default().score_cutoff(cutoff);
        let compare = self.lines[at].compare.as_ref();
        compare.and_then(|compare| compare.similarity_with_args(have.bytes(), &args)).unwrap_or(0.0)
    }
}

/// How often each byte occurs, by the byte's low six bits: an upper bound for likeness that is cheap.
struct Histogram {
    counts: [u16; 64],
    len: usize,
}

impl Histogram {
    fn of(text: &str) -> Self {
        let mut counts = [0u16; 64];
        for byte in text.bytes().take(MAX_LINE) {
            counts[usize::from(byte & 63)] += 1;
        }
        Self { counts, len: text.len() }
    }

    fn bound(&self, other: &str) -> f64 {
        let total = (self.len + other.len()) as f64;
        let by_len = 2.0 * self.len.min(other.len()) as f64 / total;
        // The length alone rules out most lines.
        if by_len < 0.3 {
            return by_len;
        }
        let mut left = self.counts;
        let mut common = 0usize;
        for byte in other.bytes() {
            let slot = &mut left[usize::from(byte & 63)];
            common += usize::from(*slot > 0);
            *slot = slot.saturating_sub(1);
        }
        2.0 * common as f64 / total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_like_line_is_never_enough() {
        assert_eq!(context_aware(&["foo(bar1)"], &["foo(bar2)"]), None);
        assert_eq!(block_anchor(&["a", "b"], &["a", "c"]), None);
    }

    #[test]
    fn two_places_that_are_equally_good_are_both_named() {
        let block = ["begin()", "x = compute(first)", "y = compute(second)", "finish(x, y)"];
        let file: Vec<&str> = block.iter().chain(&["", "", "", "", ""]).chain(&block).copied().collect();
        let wanted = ["begin()", "x = compute(frist)", "y = compute(secund)", "finish(x, y) ;"];
        assert_eq!(context_aware(&file, &wanted), Some(vec![0, 9]));
        assert_eq!(closest(&file, &wanted, 3), vec![0, 9]);
    }
}
