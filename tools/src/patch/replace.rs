//! Mode "replace": one text for another in one file. Pure.

use std::ops::Range;

use similar::{Algorithm, DiffOp, capture_diff_slices};

use super::adapt::adapt;
use super::find::{Found, Strategy, find, wanted_lines};
use super::fold::Folded;
use super::similarity::closest;
use super::view::{Edit, Lines};
use crate::text::first_chars;

/// Hits that an error lists.
const SHOWN: usize = 5;
/// Characters of a line in an error.
const SNIPPET: usize = 80;
/// A new text shorter than this may be in the file by chance.
const MIN_APPLIED: usize = 8;

/// What an edit comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Replacement {
    /// These edits, found by this strategy.
    Edits(Vec<Edit>, Strategy),
    /// The file has the new text already, and no longer the old one.
    AlreadyApplied,
}

/// Checks the two texts by themselves.
pub(crate) fn check(old: &str, new: &str) -> Result<(), String> {
    match () {
        () if old.is_empty() => Err("old_string must not be empty".into()),
        () if old.trim().is_empty() => Err("old_string must not be blank".into()),
        () if old == new => Err("old_string and new_string are identical".into()),
        () => Ok(()),
    }
}

/// Finds `old` in a view of the file and works out what to put in its place. All texts have LF line ends.
pub(crate) fn replace(file: &Lines<'_>, old: &str, new: &str, all: bool) -> Result<Replacement, String> {
    if new.trim().len() >= MIN_APPLIED && !file.text.contains(old) && file.text.contains(new) {
        return Ok(Replacement::AlreadyApplied);
    }
    let Some(found) = find(file, old, new, !all) else {
        return Err(not_found(file, old));
    };
    if found.ranges.len() > 1 && !all {
        let hits = listing(file, &found);
        let text = format!(
            "Found {} matches for old_string. Add context to make it unique, or use replace_all=True:\n{hits}",
            found.ranges.len()
        );
        return Err(text);
    }
    let edits =
        found.ranges.iter().map(|range| Edit { range: range.clone(), text: new_text(file.text, &found, range) });
    Ok(Replacement::Edits(edits.collect(), found.strategy))
}

/// The new text for one hit, fitted to what the file has there.
fn new_text(file: &str, found: &Found, range: &Range<usize>) -> String {
    let region = &file[range.clone()];
    let Found { old, new, .. } = found;
    if region == old || new.is_empty() {
        return new.clone();
    }
    let new = &real_tabs(region, new);
    let (old_lines, _) = wanted_lines(old);
    let (new_lines, new_ends) = wanted_lines(new);
    let (region_lines, _) = wanted_lines(region);
    if old_lines.len() != region_lines.len() {
        return new.clone();
    }
    let mut lines = adapt(&region_lines, &old_lines, &new_lines);
    if old_lines.len() == new_lines.len() {
        for (at, line) in lines.iter_mut().enumerate() {
            if let Some(grafted) = graft(region_lines[at], old_lines[at], line) {
                *line = grafted;
            }
        }
    }
    let mut text = lines.join("\n");
    // A file without a line end at its end stays so.
    if new_ends && (region.ends_with('\n') || !old.ends_with('\n')) {
        text.push('\n');
    }
    text
}

/// Tabs that came as `\t`, where the file has real ones.
fn real_tabs(region: &str, new: &str) -> String {
    if region.contains('\t') && !region.contains("\\t") { new.replace("\\t", "\t") } else { new.to_owned() }
}

/// A changed line with the file's own typography where the change left it alone, if typography is what differed.
fn graft(file: &str, old: &str, new: &str) -> Option<String> {
    if file.is_ascii() || file == new {
        return None;
    }
    ["--", "-"].into_iter().find_map(|em| {
        let have = Folded::unicode(file, em);
        if have.text.trim() != Folded::unicode(old, em).text.trim() {
            return None;
        }
        let want = Folded::unicode(new, em);
        let (a, b): (Vec<char>, Vec<char>) = (have.text.chars().collect(), want.text.chars().collect());
        let mut out = String::new();
        for op in capture_diff_slices(Algorithm::Myers, &a, &b) {
            match op {
                DiffOp::Equal { old_index, len, .. } => have.push_original(&mut out, file, &bytes(&a, old_index, len)),
                DiffOp::Insert { new_index, new_len, .. } | DiffOp::Replace { new_index, new_len, .. } => {
                    want.push_original(&mut out, new, &bytes(&b, new_index, new_len));
                }
                DiffOp::Delete { .. } => {}
            }
        }
        Some(out)
    })
}

/// The bytes that a run of characters has.
fn bytes(chars: &[char], first: usize, count: usize) -> Range<usize> {
    let len = |chars: &[char]| chars.iter().map(|c| c.len_utf8()).sum::<usize>();
    let start = len(&chars[..first]);
    start..start + len(&chars[first..first + count])
}

/// Up to five hits with their lines.
fn listing(file: &Lines<'_>, found: &Found) -> String {
    let mut rows: Vec<String> = found
        .ranges
        .iter()
        .take(SHOWN)
        .map(|range| {
            let line = file.line_of(range.start);
            format!("  L{}: {}", line + 1, snippet(file.lines.get(line).copied().unwrap_or_default()))
        })
        .collect();
    if found.ranges.len() > SHOWN {
        rows.push(format!("  ... and {} more", found.ranges.len() - SHOWN));
    }
    rows.join("\n")
}

/// A line for an error.
pub(crate) fn snippet(line: &str) -> String {
    let line = line.trim();
    match first_chars(line, SNIPPET) {
        whole if whole.len() == line.len() => line.to_owned(),
        cut => format!("{cut}..."),
    }
}

fn not_found(file: &Lines<'_>, old: &str) -> String {
    let (wanted, _) = wanted_lines(old);
    let mut text = "Could not find a match for old_string".to_owned();
    text.push_str(&sections(file, &wanted));
    text
}

/// The parts of the file that are most like the wanted lines, for an error.
pub(crate) fn sections(file: &Lines<'_>, wanted: &[&str]) -> String {
    const SECTIONS: usize = 3;
    const LINES: usize = 8;
    let places = closest(&file.lines, wanted, SECTIONS);
    if places.is_empty() {
        return String::new();
    }
    let mut text = ". Closest sections:".to_owned();
    for at in places {
        let end = (at + wanted.len().min(LINES)).min(file.lines.len());
        for (number, line) in file.lines[at..end].iter().enumerate() {
            text.push_str(&format!("\n  L{}: {}", at + number + 1, first_chars(line, SNIPPET)));
        }
        if wanted.len() > LINES {
            text.push_str("\n  ...");
        }
        text.push('\n');
    }
    text.truncate(text.trim_end().len());
    text
}

#[cfg(test)]
mod tests {
    use super::super::view::View;
    use super::*;

    /// Processor time of this thread, so that a busy machine does not matter.
    fn seconds(work: impl FnOnce()) -> f64 {
        let now = || rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        let began = now();
        work();
        let took = now() - began;
        took.tv_sec as f64 + took.tv_nsec as f64 / 1e9
    }

    fn lines(count: usize) -> String {
        (0..count).map(|n| format!("    let value_{n} = compute({n}, \"{}\");\n", n % 7)).collect()
    }

    #[test]
    fn a_file_of_200_000_lines_takes_less_than_a_second() {
        let file = lines(200_000);
        for (old, strategy) in [
            ("value_150000 = ", Strategy::Exact),
            ("let value_77 = compute(77, \"0\");\nlet value_78 = compute(78, \"1\");", Strategy::LineTrimmed),
            ("let value_77  = compute(77, \"0\"", Strategy::WhitespaceNormalized),
            (
                "  let value_77  = compute(77, \"0\");\nlet value_78 = compute(78, \"1\");",
                Strategy::IndentationFlexible,
            ),
        ] {
            let took = seconds(|| {
                let view = View::new(&file);
                let edits = replace(&Lines::new(&view.text), old, "new()", false);
                let Ok(Replacement::Edits(edits, found)) = edits else { panic!("{edits:?}") };
                assert_eq!(found, strategy);
                let edited = view.apply(&edits);
                let diff =
                    super::super::diff::FileDiff { old_path: "f", new_path: "f", old: Some(&file), new: Some(&edited) };
                assert!(!super::super::diff::unified(diff).is_empty());
            });
            assert!(took < 1.0, "{strategy:?}: {took} s");
        }
    }

    #[test]
    fn similarity_in_20_000_lines_takes_less_than_two_seconds() {
        let file = lines(20_000);
        let changed = |n: usize| if n.is_multiple_of(2) { "computed" } else { "compute" };
        let old: String =
            (5_000..5_031).map(|n| format!("    let value_{n} = {}({n}, \"{}\");\n", changed(n), n % 7)).collect();
        let took = seconds(|| {
            let edits = replace(&Lines::new(&file), &old, "new();\n", false);
            assert!(matches!(edits, Ok(Replacement::Edits(_, Strategy::ContextAware))), "{edits:?}");
        });
        assert!(took < 2.0, "found: {took} s");
        let took = seconds(|| {
            let missing = old.replace("value", "nothing").replace("compute", "anything");
            assert!(replace(&Lines::new(&file), &missing, "new();\n", false).is_err());
        });
        assert!(took < 2.0, "not found: {took} s");
    }
}
