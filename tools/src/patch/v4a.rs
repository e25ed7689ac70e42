//! The V4A patch format: parsing, and finding where a hunk goes. Pure.

use std::borrow::Cow;

use super::adapt::adapt;
use super::find::equal_lines;
use super::fold::plain;
use super::replace::{sections, snippet};
use super::similarity;
use super::view::{Edit, Lines, View};

/// One operation on a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Operation {
    Update { path: String, hunks: Vec<Hunk> },
    Add { path: String, content: String },
    Delete { path: String },
    Move { from: String, to: String },
}

/// One place of a file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Hunk {
    /// A line above the place.
    pub(crate) hint: Option<String>,
    pub(crate) lines: Vec<(Sign, String)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sign {
    Context,
    Remove,
    Add,
}

impl Hunk {
    /// The lines that the file has.
    fn old_lines(&self) -> Vec<&str> {
        self.lines.iter().filter(|(sign, _)| *sign != Sign::Add).map(|(_, line)| line.as_str()).collect()
    }

    /// The lines that it gets.
    fn new_lines(&self) -> Vec<&str> {
        self.lines.iter().filter(|(sign, _)| *sign != Sign::Remove).map(|(_, line)| line.as_str()).collect()
    }
}

/// Reads a patch. Text around `*** Begin Patch` and `*** End Patch` is left out.
pub(crate) fn parse(patch: &str) -> Result<Vec<Operation>, String> {
    let text = patch.replace("\r\n", "\n");
    let lines: Vec<&str> = text.lines().collect();
    let begin = lines.iter().position(|line| line.trim() == "*** Begin Patch").map_or(0, |at| at + 1);
    let end = lines.iter().rposition(|line| line.trim() == "*** End Patch").filter(|end| *end >= begin);
    let mut parser = Parser { operations: Vec::new() };
    for (at, line) in lines.iter().enumerate().take(end.unwrap_or(lines.len())).skip(begin) {
        parser.line(line).map_err(|problem| format!("line {} of the patch: {problem}", at + 1))?;
    }
    parser.finish()
}

struct Parser {
    operations: Vec<Operation>,
}

impl Parser {
    fn line(&mut self, line: &str) -> Result<(), String> {
        if let Some(header) = line.strip_prefix("*** ") {
            return self.header(header.trim_end());
        }
        match self.operations.last_mut() {
            Some(Operation::Update { hunks, .. }) => Self::hunk_line(hunks, line),
            Some(Operation::Add { content, .. }) => Self::added_line(content, line),
            _ if line.trim().is_empty() => Ok(()),
            _ => Err("expected '*** Update File: path', '*** Add File: path', '*** Delete File: path' or '*** Move File: a -> b'".into()),
        }
    }

    fn header(&mut self, header: &str) -> Result<(), String> {
        let (kind, rest) = header.split_once(':').unwrap_or((header, ""));
        let rest = rest.trim();
        let operation = match kind {
            "Update File" => Operation::Update { path: path(rest)?, hunks: Vec::new() },
            "Add File" => Operation::Add { path: path(rest)?, content: String::new() },
            "Delete File" => Operation::Delete { path: path(rest)? },
            "Move File" => {
                let (from, to) = rest.split_once(" -> ").ok_or("expected '*** Move File: a -> b'")?;
                Operation::Move { from: path(from.trim())?, to: path(to.trim())? }
            }
            "Move to" => match self.operations.last() {
                Some(Operation::Update { path: from, .. }) => Operation::Move { from: from.clone(), to: path(rest)? },
                _ => return Err("'*** Move to' follows '*** Update File' only".into()),
            },
            "End of File" => return Ok(()),
            _ => return Err(format!("unknown header '*** {header}'")),
        };
        // The hunks of an update with a move follow the move's line, and belong to the update.
        match operation {
            Operation::Move { .. } if kind == "Move to" => {
                let update = self.operations.len() - 1;
                self.operations.insert(update, operation);
                if let (Some(Operation::Move { to, .. }), to_update) =
                    (self.operations.get(update).cloned(), update + 1)
                    && let Some(Operation::Update { path, .. }) = self.operations.get_mut(to_update)
                {
                    *path = to;
                }
            }
            other => self.operations.push(other),
        }
        Ok(())
    }

    fn hunk_line(hunks: &mut Vec<Hunk>, line: &str) -> Result<(), String> {
        if let Some(rest) = line.strip_prefix("@@") {
            let hint = rest.trim().trim_end_matches("@@").trim();
            let hint = (!hint.is_empty()).then(|| hint.to_owned());
            hunks.push(Hunk { hint, lines: Vec::new() });
            return Ok(());
        }
        if hunks.is_empty() {
            if line.trim().is_empty() {
                return Ok(());
            }
            hunks.push(Hunk::default());
        }
        let Some(hunk) = hunks.last_mut() else { return Ok(()) };
        let (sign, text) = match line.chars().next() {
            Some('+') => (Sign::Add, &line[1..]),
            Some('-') => (Sign::Remove, &line[1..]),
            Some(' ') => (Sign::Context, &line[1..]),
            None => (Sign::Context, ""),
            Some(_) => return Err(format!("expected ' ', '-', '+' or '@@', found '{}'", snippet(line))),
        };
        hunk.lines.push((sign, text.to_owned()));
        Ok(())
    }

    fn added_line(content: &mut String, line: &str) -> Result<(), String> {
        match line.strip_prefix('+') {
            Some(text) => content.push_str(text),
            None if line.is_empty() => {}
            None => return Err("lines of an added file begin with '+'".into()),
        }
        content.push('\n');
        Ok(())
    }

    fn finish(mut self) -> Result<Vec<Operation>, String> {
        if self.operations.is_empty() {
            return Err("the patch holds no operation".into());
        }
        for operation in &mut self.operations {
            if let Operation::Update { path, hunks } = operation {
                for hunk in hunks.iter_mut() {
                    // Blank lines between a hunk and the next header are the writer's, not the file's.
                    while hunk.lines.last().is_some_and(|(sign, text)| *sign == Sign::Context && text.is_empty()) {
                        hunk.lines.pop();
                    }
                }
                hunks.retain(|hunk| !hunk.lines.is_empty());
                if hunks.is_empty() {
                    return Err(format!("Update File: {path}: no hunks"));
                }
            }
        }
        Ok(self.operations)
    }
}

fn path(text: &str) -> Result<String, String> {
    if text.is_empty() {
        return Err("the header names no file".into());
    }
    if text.split('/').any(|part| part == "..") {
        return Err(format!("'..' is not allowed in a path: '{text}'"));
    }
    if text.contains('\0') {
        return Err("a path must not contain a NUL character".into());
    }
    Ok(text.to_owned())
}

/// Applies the hunks of one update to a file's text. All problems are told at once.
pub(crate) fn update(raw: &str, hunks: &[Hunk]) -> Result<String, Vec<String>> {
    let mut raw = raw.to_owned();
    let mut cursor = 0;
    let mut problems = Vec::new();
    for (number, hunk) in hunks.iter().enumerate() {
        let view = View::new(&raw);
        let file = Lines::new(&view.text);
        match place(&file, hunk, cursor) {
            Ok(Some((first, edit))) => {
                cursor = first + hunk.new_lines().len();
                raw = view.apply(&[edit]);
            }
            Ok(None) => {}
            Err(problem) => problems.push(format!("hunk {}: {problem}", number + 1)),
        }
    }
    if problems.is_empty() { Ok(raw) } else { Err(problems) }
}

/// The first line of a hunk's place and the edit there; `None` if the file has the hunk's result already.
fn place(file: &Lines<'_>, hunk: &Hunk, cursor: usize) -> Result<Option<(usize, Edit)>, String> {
    let (old, new) = (hunk.old_lines(), hunk.new_lines());
    let hint = hunk.hint.as_deref().map(|hint| hint_lines(file, hint)).unwrap_or_default();
    if old.is_empty() {
        return insertion(file, hunk, &hint, &new).map(Some);
    }
    let levels: [fn(&str) -> Cow<'_, str>; 4] =
        [|line| Cow::Borrowed(line), |line| Cow::Borrowed(line.trim_end()), |line| Cow::Borrowed(line.trim()), plain];
    for level in levels {
        let keys: Vec<Cow<'_, str>> = old.iter().map(|line| level(line)).collect();
        let hits = equal_lines(&file.lines, &keys, level);
        if !hits.is_empty() {
            let first = choose(file, &hits, &hint, cursor)?;
            return Ok(Some((first, edit(file, first, &old, &new))));
        }
    }
    let result: Vec<Cow<'_, str>> = new.iter().map(|line| Cow::Borrowed(*line)).collect();
    if new.iter().any(|line| !line.trim().is_empty())
        && !equal_lines(&file.lines, &result, |line| Cow::Borrowed(line)).is_empty()
    {
        return Ok(None);
    }
    let like = similarity::block_anchor(&file.lines, &old).or_else(|| similarity::context_aware(&file.lines, &old));
    match like {
        Some(hits) => {
            let first = choose(file, &hits, &hint, cursor)?;
            Ok(Some((first, edit(file, first, &old, &new))))
        }
        None => Err(format!("its lines are not in the file{}", sections(file, &old))),
    }
}

/// Lines that a hint may mean: equal ones, else those that hold it.
fn hint_lines(file: &Lines<'_>, hint: &str) -> Vec<usize> {
    let lines = || file.lines.iter().enumerate();
    let equal: Vec<usize> = lines().filter(|(_, line)| line.trim() == hint).map(|(at, _)| at).collect();
    if !equal.is_empty() {
        return equal;
    }
    lines().filter(|(_, line)| line.contains(hint)).map(|(at, _)| at).collect()
}

/// The hit that is meant: the only one, the first at or after the hint, or the only one after the hunk before.
fn choose(file: &Lines<'_>, hits: &[usize], hint: &[usize], cursor: usize) -> Result<usize, String> {
    if let [only] = hits {
        return Ok(*only);
    }
    let from = hint.iter().find(|at| **at >= cursor).or(hint.first());
    if let Some(from) = from
        && let Some(hit) = hits.iter().find(|hit| *hit >= from)
    {
        return Ok(*hit);
    }
    let mut after = hits.iter().filter(|hit| cursor > 0 && **hit >= cursor);
    if let (Some(hit), None) = (after.next(), after.next()) {
        return Ok(*hit);
    }
    let rows: Vec<String> =
        hits.iter().take(5).map(|at| format!("  L{}: {}", at + 1, snippet(file.lines[*at]))).collect();
    Err(format!("its lines are in the file {} times; add context or a hint:\n{}", hits.len(), rows.join("\n")))
}

fn edit(file: &Lines<'_>, first: usize, old: &[&str], new: &[&str]) -> Edit {
    let region = &file.lines[first..first + old.len()];
    let lines = if region == old { new.iter().map(|l| (*l).to_owned()).collect() } else { adapt(region, old, new) };
    let range = file.whole(first, old.len());
    let mut text: String = lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect();
    // The last line of a file without a line end stays so.
    if !file.text[range.clone()].ends_with('\n') {
        text.truncate(text.len().saturating_sub(1));
    }
    Edit { range, text }
}

/// Lines without any context go below the hint, or to the end of the file.
fn insertion(file: &Lines<'_>, hunk: &Hunk, hint: &[usize], new: &[&str]) -> Result<(usize, Edit), String> {
    let mut text: String = new.iter().flat_map(|line| [*line, "\n"]).collect();
    let at = match (&hunk.hint, hint) {
        (None, _) => file.lines.len(),
        (Some(_), [only]) => only + 1,
        (Some(hint), []) => return Err(format!("its hint '{}' is not in the file", snippet(hint))),
        (Some(hint), many) => {
            return Err(format!(
                "its hint '{}' is in the file {} times, and it has no other context",
                snippet(hint),
                many.len()
            ));
        }
    };
    let offset = file.whole(at, 0).start;
    if offset > 0 && !file.text[..offset].ends_with('\n') {
        text.truncate(text.len().saturating_sub(1));
        text.insert(0, '\n');
    }
    Ok((at, Edit { range: offset..offset, text }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn apply(file: &str, body: &str) -> Result<String, Vec<String>> {
        let operations = parse(&format!("*** Begin Patch\n*** Update File: f\n{body}\n*** End Patch")).unwrap();
        let [Operation::Update { hunks, .. }] = operations.as_slice() else { panic!("{operations:?}") };
        update(file, hunks)
    }

    #[test]
    fn hunks_find_their_place() {
        let file = "a\nb\nc\nd\nb\nc\n";
        assert_eq!(apply(file, "@@\n a\n-b\n+x"), Ok("a\nx\nc\nd\nb\nc\n".into()));
        assert_eq!(apply(file, "@@ d @@\n-b\n+x"), Ok("a\nb\nc\nd\nx\nc\n".into()));
        assert_eq!(apply(file, "@@ d\n+x"), Ok("a\nb\nc\nd\nx\nb\nc\n".into()));
        assert_eq!(apply(file, "@@\n+x"), Ok("a\nb\nc\nd\nb\nc\nx\n".into()));
        assert_eq!(apply("a", "@@\n+x"), Ok("a\nx".into()));
        assert_eq!(apply(file, "-a\n@@\n d\n-b\n+x"), Ok("b\nc\nd\nx\nc\n".into()));
        assert_eq!(apply("  a  \n\tb\n", "@@\n a\n-b\n+c"), Ok("  a  \n\tc\n".into()));
        assert_eq!(apply("a\r\nb\r\n", "@@\n a\n-b\n+c\n+d"), Ok("a\r\nc\r\nd\r\n".into()));
        assert_eq!(apply("a\nx\n", "@@\n a\n-b\n+x"), Ok("a\nx\n".into()), "applied already");
        assert_eq!(
            apply(file, "@@\n-b\n+x"),
            Err(vec!["hunk 1: its lines are in the file 2 times; add context or a hint:\n  L2: b\n  L5: b".into()])
        );
        assert_eq!(apply(file, "@@\n-zzzzzz\n+x"), Err(vec!["hunk 1: its lines are not in the file".into()]));
    }

    #[test]
    fn patches_are_parsed_or_refused() {
        let parsed =
            parse("*** Add File: n\n+a\n+\n*** Delete File: d\n*** Move File: a -> b c\n*** Update File: u\n@@\n-x\n");
        assert_eq!(
            parsed,
            Ok(vec![
                Operation::Add { path: "n".into(), content: "a\n\n".into() },
                Operation::Delete { path: "d".into() },
                Operation::Move { from: "a".into(), to: "b c".into() },
                Operation::Update {
                    path: "u".into(),
                    hunks: vec![Hunk { hint: None, lines: vec![(Sign::Remove, "x".into())] }]
                },
            ])
        );
        let moved = parse("*** Update File: u\n*** Move to: v\n@@\n-x\n");
        assert!(
            matches!(moved.as_deref(), Ok([Operation::Move { .. }, Operation::Update { path, .. }]) if path == "v"),
            "{moved:?}"
        );
        let refused = [
            ("", "the patch holds no operation"),
            ("*** Update File: a/../b\n@@\n-x", "line 1 of the patch: '..' is not allowed in a path: 'a/../b'"),
            ("*** Move File: a b", "line 1 of the patch: expected '*** Move File: a -> b'"),
            ("*** Rename File: a", "line 1 of the patch: unknown header '*** Rename File: a'"),
            ("*** Update File: a\n", "Update File: a: no hunks"),
            ("*** Update File: a\n@@\n*x", "line 3 of the patch: expected ' ', '-', '+' or '@@', found '*x'"),
            ("*** Add File: a\nx", "line 2 of the patch: lines of an added file begin with '+'"),
            ("*** Add File:", "line 1 of the patch: the header names no file"),
            (
                "hello",
                "line 1 of the patch: expected '*** Update File: path', '*** Add File: path', '*** Delete File: path' or '*** Move File: a -> b'",
            ),
        ];
        for (patch, text) in refused {
            assert_eq!(parse(patch), Err(text.to_owned()), "{patch:?}");
        }
    }
}
