//! The table in LIMITATIONS.md.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, Result};

use super::Row;
use super::known::Known;

const BEGIN: &str = "<!-- cpython-tests:begin -->";
const END: &str = "<!-- cpython-tests:end -->";
const HEAD: &str = "| file | passed | failed | skipped | why the failures |\n| --- | ---: | ---: | ---: | --- |\n";
const TOTAL: &str = "**all**";

/// Replaces the rows of the modules that ran, and the sum.
pub(crate) fn write(path: &Path, rows: &[Row], known: &Known) -> Result<()> {
    let text = std::fs::read_to_string(path)?;
    let (before, rest) = text.split_once(BEGIN).with_context(|| format!("no {BEGIN} in {}", path.display()))?;
    let (old, after) = rest.split_once(END).with_context(|| format!("no {END} in {}", path.display()))?;
    let mut lines = parse(old);
    // A module that is no longer run loses its row.
    let modules = known.modules();
    lines.retain(|module, _| modules.contains(module));
    lines.extend(rows.iter().map(|row| (row.module.clone(), Line::of(row, known))));
    std::fs::write(path, format!("{before}{BEGIN}\n{}{END}{after}", render(&lines)))?;
    Ok(())
}

/// One row, without its module.
#[derive(Debug, PartialEq)]
struct Line {
    passed: usize,
    failed: usize,
    skipped: usize,
    why: String,
}

impl Line {
    fn of(row: &Row, known: &Known) -> Self {
        let mut reasons = BTreeMap::<&str, usize>::new();
        for test in row.outcome.failed.keys() {
            *reasons.entry(known.reason(test).unwrap_or("not explained yet")).or_default() += 1;
        }
        let mut reasons: Vec<(&str, usize)> = reasons.into_iter().collect();
        reasons.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let why: Vec<String> = reasons.iter().map(|(why, count)| format!("{count}: {why}")).collect();
        Self {
            passed: row.outcome.passed,
            failed: row.outcome.failed.len(),
            skipped: row.outcome.skipped_count(),
            why: why.join("; "),
        }
    }
}

fn parse(table: &str) -> BTreeMap<String, Line> {
    let rows = table.lines().filter_map(|line| {
        let cells: Vec<&str> = line.strip_prefix('|')?.strip_suffix('|')?.split('|').map(str::trim).collect();
        let [module, passed, failed, skipped, why] = cells[..] else { return None };
        let module = module.strip_prefix('`')?.strip_suffix('`')?;
        let [passed, failed, skipped] = [passed, failed, skipped].map(|cell| cell.parse().ok());
        Some((module.to_owned(), Line { passed: passed?, failed: failed?, skipped: skipped?, why: why.to_owned() }))
    });
    rows.collect()
}

fn render(lines: &BTreeMap<String, Line>) -> String {
    let mut text = HEAD.to_owned();
    let mut row = |name: &str, line: &Line| {
        let Line { passed, failed, skipped, why } = line;
        text.push_str(&format!("| {name} | {passed} | {failed} | {skipped} | {why} |\n"));
    };
    for (module, line) in lines {
        row(&format!("`{module}`"), line);
    }
    let sum = |field: fn(&Line) -> usize| lines.values().map(field).sum();
    let (passed, failed, skipped) = (sum(|line| line.passed), sum(|line| line.failed), sum(|line| line.skipped));
    row(TOTAL, &Line { passed, failed, skipped, why: String::new() });
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_read_as_it_was_written() {
        let lines = BTreeMap::from([
            ("test_a".to_owned(), Line { passed: 3, failed: 2, skipped: 1, why: "2: no `fork`".to_owned() }),
            ("test_b.test_c".to_owned(), Line { passed: 10, failed: 0, skipped: 0, why: String::new() }),
        ]);
        let text = render(&lines);
        assert!(text.ends_with("| **all** | 13 | 2 | 1 |  |\n"));
        assert_eq!(parse(&text), lines);
    }
}
