//! The unified diff of what was changed, in the form that `git apply` and `patch` take.

use similar::{Algorithm, DiffOp, capture_diff_slices_deadline, group_diff_ops};
use std::fmt::Write as _;
use std::time::{Duration, Instant};

/// Lines of context.
const CONTEXT: usize = 3;
/// Time for making a diff small; after it a diff is only right.
const EFFORT: Duration = Duration::from_millis(200);

/// One file before and after. A missing file is `None`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FileDiff<'a> {
    pub(crate) old_path: &'a str,
    pub(crate) new_path: &'a str,
    pub(crate) old: Option<&'a str>,
    pub(crate) new: Option<&'a str>,
}

/// The diff of one file; nothing if nothing changed.
pub(crate) fn unified(file: FileDiff<'_>) -> String {
    let (old, new) = (file.old.unwrap_or_default(), file.new.unwrap_or_default());
    let moved = file.old.is_some() && file.new.is_some() && file.old_path != file.new_path;
    let mut out = String::new();
    // Only git's own header can tell of a rename, or of a file without content.
    if moved {
        let (a, b) = (quote("a/", file.old_path), quote("b/", file.new_path));
        _ = writeln!(
            out,
            "diff --git {a} {b}\nrename from {}\nrename to {}",
            quote("", file.old_path),
            quote("", file.new_path)
        );
    } else if old.is_empty() && new.is_empty() {
        let (a, b) = (quote("a/", file.old_path), quote("b/", file.new_path));
        match (file.old, file.new) {
            (None, Some(_)) => _ = writeln!(out, "diff --git {a} {b}\nnew file mode 100644\nindex 0000000..e69de29"),
            (Some(_), None) => {
                _ = writeln!(out, "diff --git {a} {b}\ndeleted file mode 100644\nindex e69de29..0000000");
            }
            _ => {}
        }
    }
    let (old_lines, new_lines) = (split(old), split(new));
    let ops = changes(&old_lines, &new_lines);
    if ops.iter().all(|op| matches!(op, DiffOp::Equal { .. })) {
        return out;
    }
    let header = |prefix, path, there: bool| if there { label(prefix, path) } else { "/dev/null".to_owned() };
    _ = writeln!(out, "--- {}", header("a/", file.old_path, file.old.is_some()));
    _ = writeln!(out, "+++ {}", header("b/", file.new_path, file.new.is_some()));
    for group in group_diff_ops(ops, CONTEXT) {
        hunk(&mut out, &group, &old_lines, &new_lines);
    }
    out
}

/// Lines with their ends. Only LF ends a line here, as it does for `git` and `patch`.
fn split(text: &str) -> Vec<&str> {
    text.split_inclusive('\n').collect()
}

/// The ops that lead from old to new. What both have at the start and the end needs no algorithm.
fn changes(old: &[&str], new: &[&str]) -> Vec<DiffOp> {
    let head = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    let rest = old.len().min(new.len()) - head;
    let tail = old.iter().rev().zip(new.iter().rev()).take(rest).take_while(|(a, b)| a == b).count();
    let (old_middle, new_middle) = (&old[head..old.len() - tail], &new[head..new.len() - tail]);
    let mut ops = Vec::new();
    if head > 0 {
        ops.push(DiffOp::Equal { old_index: 0, new_index: 0, len: head });
    }
    let deadline = Some(Instant::now() + EFFORT);
    for op in capture_diff_slices_deadline(Algorithm::Myers, old_middle, new_middle, deadline) {
        ops.push(shift(op, head));
    }
    if tail > 0 {
        ops.push(DiffOp::Equal { old_index: old.len() - tail, new_index: new.len() - tail, len: tail });
    }
    ops
}

fn shift(op: DiffOp, by: usize) -> DiffOp {
    match op {
        DiffOp::Equal { old_index, new_index, len } => {
            DiffOp::Equal { old_index: old_index + by, new_index: new_index + by, len }
        }
        DiffOp::Delete { old_index, old_len, new_index } => {
            DiffOp::Delete { old_index: old_index + by, old_len, new_index: new_index + by }
        }
        DiffOp::Insert { old_index, new_index, new_len } => {
            DiffOp::Insert { old_index: old_index + by, new_index: new_index + by, new_len }
        }
        DiffOp::Replace { old_index, old_len, new_index, new_len } => {
            DiffOp::Replace { old_index: old_index + by, old_len, new_index: new_index + by, new_len }
        }
    }
}

fn hunk(out: &mut String, group: &[DiffOp], old: &[&str], new: &[&str]) {
    let (Some(first), Some(last)) = (group.first(), group.last()) else { return };
    let old_range = first.old_range().start..last.old_range().end;
    let new_range = first.new_range().start..last.new_range().end;
    _ = writeln!(out, "@@ -{} +{} @@", position(&old_range), position(&new_range));
    for op in group {
        if let DiffOp::Equal { .. } = op {
            old[op.old_range()].iter().for_each(|text| line(out, ' ', text));
        } else {
            old[op.old_range()].iter().for_each(|text| line(out, '-', text));
            new[op.new_range()].iter().for_each(|text| line(out, '+', text));
        }
    }
}

fn line(out: &mut String, sign: char, text: &str) {
    out.push(sign);
    out.push_str(text);
    if !text.ends_with('\n') {
        out.push_str("\n\\ No newline at end of file\n");
    }
}

/// Start and length as in POSIX: an empty range names the line before it.
fn position(range: &std::ops::Range<usize>) -> String {
    match range.len() {
        0 => format!("{},0", range.start),
        1 => (range.start + 1).to_string(),
        len => format!("{},{len}", range.start + 1),
    }
}

/// A name in a `---` line. After a blank in the name a tab says where it ends.
fn label(prefix: &str, path: &str) -> String {
    let quoted = quote(prefix, path);
    if quoted.contains(' ') && !quoted.starts_with('"') { format!("{quoted}\t") } else { quoted }
}

/// A name as git writes it: quoted like a C string when it holds what a line can't.
fn quote(prefix: &str, path: &str) -> String {
    if !path.contains(['"', '\\']) && !path.chars().any(char::is_control) {
        return format!("{prefix}{path}");
    }
    let mut out = format!("\"{prefix}");
    for c in path.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c if c.is_control() => c.encode_utf8(&mut [0; 4]).bytes().for_each(|b| _ = write!(out, "\\{b:03o}")),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn diff(old: Option<&str>, new: Option<&str>) -> String {
        unified(FileDiff { old_path: "f", new_path: "f", old, new })
    }

    #[test]
    fn diffs_are_unified() {
        assert_eq!(diff(Some("a\nb\n"), Some("a\nc\n")), "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n");
        assert_eq!(diff(None, Some("a\n")), "--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+a\n");
        assert_eq!(diff(Some("a\n"), None), "--- a/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n");
        assert_eq!(
            diff(Some("a"), Some("a\n")),
            "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+a\n"
        );
        assert_eq!(diff(Some("a"), Some("a")), "");
        assert_eq!(diff(None, Some("")), "diff --git a/f b/f\nnew file mode 100644\nindex 0000000..e69de29\n");
        let moved = FileDiff { old_path: "a b", new_path: "c\"d", old: Some("x\n"), new: Some("y\n") };
        assert_eq!(
            unified(moved),
            "diff --git a/a b \"b/c\\\"d\"\nrename from a b\nrename to \"c\\\"d\"\n--- a/a b\t\n+++ \"b/c\\\"d\"\n@@ -1 +1 @@\n-x\n+y\n"
        );
    }
}
