//! New text for a place that matched only roughly: lines that the edit does not change stay as the file has them, new ones get the file's
//! indentation.

use std::collections::BTreeMap;

use similar::{Algorithm, DiffOp, capture_diff_slices};

/// Rewrites `new` for a region of the file whose lines match those of `old` one by one.
pub(crate) fn adapt(region: &[&str], old: &[&str], new: &[&str]) -> Vec<String> {
    let indents = Indents::learn(region, old);
    let mut out = Vec::with_capacity(new.len());
    let trimmed = |lines: &[&str]| lines.iter().map(|line| line.trim().to_owned()).collect::<Vec<_>>();
    for op in capture_diff_slices(Algorithm::Myers, &trimmed(old), &trimmed(new)) {
        match op {
            DiffOp::Equal { old_index, new_index, len } => {
                for at in 0..len {
                    out.push(indents.kept(region[old_index + at], old[old_index + at], new[new_index + at]));
                }
            }
            DiffOp::Insert { new_index, new_len, .. } => out.extend(indents.added(new, new_index, new_len)),
            DiffOp::Replace { old_index, old_len, new_index, new_len } => {
                out.extend(indents.replaced(region, old, new, (old_index, old_len), (new_index, new_len)));
            }
            DiffOp::Delete { .. } => {}
        }
    }
    out
}

/// How indentation of the caller's text maps to the file's.
struct Indents<'a> {
    map: BTreeMap<&'a str, &'a str>,
    /// Columns of the smallest step in the caller's text, and the step in the file, if both are known.
    unit: Option<(usize, String)>,
}

impl<'a> Indents<'a> {
    fn learn(region: &[&'a str], old: &[&'a str]) -> Self {
        let mut map = BTreeMap::new();
        let pairs = || old.iter().zip(region).filter(|(line, _)| !line.trim().is_empty());
        // The first line often begins in the middle of the caller's line, without its indentation; the others know better.
        for (line, file) in pairs().skip(1).chain(pairs().take(1)) {
            map.entry(indent(line)).or_insert_with(|| indent(file));
        }
        let others_stay = pairs().skip(1).all(|(line, file)| indent(line) == indent(file));
        if pairs().count() > 1 && others_stay {
            let first = pairs().next().map(|(line, _)| indent(line));
            // Only the first line differs, so what it says about other lines is wrong.
            if let Some(first) = first {
                map.remove(first);
                map.entry(first).or_insert(first);
            }
        }
        let unit = Self::unit(&map);
        Self { map, unit }
    }

    fn unit(map: &BTreeMap<&str, &str>) -> Option<(usize, String)> {
        let mut steps: Vec<(usize, usize, &str)> = Vec::new();
        let pairs: Vec<_> = map.iter().collect();
        for (at, (a, file_a)) in pairs.iter().enumerate() {
            for (b, file_b) in &pairs[at + 1..] {
                if let (Some(step), Some(file_step)) = (b.strip_prefix(**a), file_b.strip_prefix(**file_a))
                    && !step.is_empty()
                {
                    steps.push((step.len(), file_step.len(), file_step));
                }
            }
        }
        let smallest = steps.into_iter().min()?;
        Some((smallest.0, smallest.2.to_owned()))
    }

    /// A line that the edit leaves alone, or moves to another depth.
    fn kept(&self, file: &str, old: &str, new: &str) -> String {
        if indent(old) == indent(new) {
            return file.to_owned();
        }
        format!("{}{}", self.map(indent(new)), file.trim_start())
    }

    fn added(&self, new: &[&str], first: usize, count: usize) -> Vec<String> {
        new[first..first + count].iter().map(|line| self.moved(line)).collect()
    }

    /// Lines that replace others: the first of them stands where the first old one stood.
    fn replaced(
        &self,
        region: &[&str],
        old: &[&str],
        new: &[&str],
        (old_first, old_count): (usize, usize),
        (first, count): (usize, usize),
    ) -> Vec<String> {
        let (file, was) = (indent(region[old_first]), indent(old[old_first]));
        let lines = &new[first..first + count];
        let single = old_count == 1 && old.len() == 1;
        let rest_is_absolute = single
            && was != file
            && count > 1
            && lines[1..].iter().filter(|l| !l.trim().is_empty()).all(|l| indent(l).starts_with(file));
        let mut out = Vec::with_capacity(count);
        for (at, line) in lines.iter().enumerate() {
            out.push(match () {
                () if at == 0 && indent(line) == was => format!("{file}{}", line.trim_start_matches([' ', '\t'])),
                () if rest_is_absolute => (*line).to_owned(),
                () => self.moved(line),
            });
        }
        out
    }

    fn moved(&self, line: &str) -> String {
        if line.trim().is_empty() {
            return String::new();
        }
        let own = indent(line);
        format!("{}{}", self.map(own), &line[own.len()..])
    }

    /// The file's indentation for one of the caller's: known, or the nearest known one and the steps between.
    fn map(&self, own: &str) -> String {
        if let Some(known) = self.map.get(own) {
            return (*known).to_owned();
        }
        let below = self.map.iter().filter(|(have, _)| own.starts_with(**have)).max_by_key(|(have, _)| have.len());
        if let Some((have, file)) = below {
            return format!("{file}{}", self.scale(&own[have.len()..]));
        }
        // Shallower than anything known: take off from the file's what the caller took off.
        let above = self.map.iter().filter(|(have, _)| have.starts_with(own)).min_by_key(|(have, _)| have.len());
        match above {
            Some((have, file)) => {
                let less = self.scale(&have[own.len()..]);
                file.strip_suffix(less.as_str()).map_or_else(|| own.to_owned(), str::to_owned)
            }
            None => own.to_owned(),
        }
    }

    fn scale(&self, extra: &str) -> String {
        match &self.unit {
            Some((columns, step)) if *columns > 0 && extra.len().is_multiple_of(*columns) => {
                step.repeat(extra.len() / columns)
            }
            _ => extra.to_owned(),
        }
    }
}

/// The blanks at the start of a line.
fn indent(line: &str) -> &str {
    &line[..line.len() - line.trim_start_matches([' ', '\t']).len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(region: &str, old: &str, new: &str, expected: &str) {
        let lines = |text: &'static str| text.split('\n').collect::<Vec<_>>();
        let leak = |text: &str| -> &'static str { Box::leak(text.to_owned().into_boxed_str()) };
        let got = adapt(&lines(leak(region)), &lines(leak(old)), &lines(leak(new)));
        assert_eq!(got.join("\n"), expected, "region {region:?}, old {old:?}, new {new:?}");
    }

    #[test]
    fn new_text_gets_the_files_indentation() {
        // Two columns become four.
        check(
            "    if a:\n        b()",
            "  if a:\n    b()",
            "  if a:\n    c()\n    if d:\n      e()",
            "    if a:\n        c()\n        if d:\n            e()",
        );
        // Blanks become tabs.
        check(
            "\tif a:\n\t\tb()",
            "    if a:\n        b()",
            "    if a:\n        b()\n        c()",
            "\tif a:\n\t\tb()\n\t\tc()",
        );
        // A line that stays keeps its trailing blanks and its quirks.
        check("  x  \n  y", "x\ny", "x\nz", "  x  \n  z");
        // Only the first line lost its indentation: nothing is doubled.
        check(
            "    def f():\n        a()\n        b()",
            "def f():\n        a()\n        b()",
            "def f():\n        a()\n        if c:\n            d()",
            "    def f():\n        a()\n        if c:\n            d()",
        );
        // One line without indentation, new text with the file's own.
        check("    a()", "a()  ", "a1()\n    b()", "    a1()\n    b()");
        // One line without indentation, new text relative to it.
        check("    a()", "a()  ", "if x:\n    a()", "    if x:\n        a()");
        check("    a()", "a() ", "b()\nc()", "    b()\n    c()");
        // Dedent.
        check("        a()\n        b()", "    a()\n    b()", "    a()\nb()", "        a()\n    b()");
    }
}
