//! `cargo xtask tidy`: what compilers and linters can't say.

mod base;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use crate::command::root;

/// Longest Rust or Python file of ours, in lines; tables of data are named in `LONG_TABLES`.
const MAX_LINES: usize = 600;
/// Files that are tables.
const LONG_TABLES: &[&str] = &["runtime/src/output/families/rows.rs"];
/// Spellings that are not American, in pieces so that this file passes its own check.
const SPELLINGS: &[(&str, &str)] = &[
    ("behavi", "our"),
    ("col", "our"),
    ("initial", "ise"),
    ("normal", "ise"),
    ("serial", "isation"),
    ("cent", "re "),
    ("licen", "ce "),
];
/// Folders that hold no sources of ours.
const SKIPPED: &[&str] = &["target", ".git", "__pycache__", "node_modules", "corpus"];

pub(crate) fn run_tidy() -> Result<()> {
    let root = root();
    let mut problems = Vec::new();
    let mut files = Vec::new();
    collect(&root, &mut files)?;
    for file in &files {
        check_file(&root, file, &mut problems)?;
    }
    check_cases(&root, &mut problems)?;
    base::check(&root, &mut problems)?;
    for name in [
        "README.md",
        "ARCHITECTURE.md",
        "LIMITATIONS.md",
        "SECURITY.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
        "BENCHMARKS.md",
    ] {
        if !root.join(name).is_file() {
            problems.push(format!("{name} is missing"));
        }
    }
    for problem in &problems {
        eprintln!("tidy: {problem}");
    }
    if problems.is_empty() {
        eprintln!("tidy: {} files, no problem", files.len());
        return Ok(());
    }
    bail!("{} problems", problems.len())
}

fn collect(dir: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(dir).with_context(|| dir.display().to_string())? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.file_type()?.is_dir() {
            if !SKIPPED.contains(&name.as_str()) {
                collect(&entry.path(), files)?;
            }
        } else if [".rs", ".py", ".md"].iter().any(|extension| name.ends_with(extension)) {
            files.push(entry.path());
        }
    }
    Ok(())
}

fn check_file(root: &Path, path: &Path, problems: &mut Vec<String>) -> Result<()> {
    let shown = path.strip_prefix(root).unwrap_or(path).display().to_string();
    let text = fs::read_to_string(path).with_context(|| shown.clone())?;
    let is_code = !shown.ends_with(".md");
    if is_code && text.lines().count() > MAX_LINES && !LONG_TABLES.contains(&shown.as_str()) {
        problems.push(format!("{shown} has {} lines; split it by step past {MAX_LINES}", text.lines().count()));
    }
    for (number, line) in text.lines().enumerate() {
        let number = number + 1;
        if is_code && (line.ends_with(' ') || line.ends_with('\t')) {
            problems.push(format!("{shown}:{number}: white space at the end of the line"));
        }
        for word in [["TO", "DO"], ["FIX", "ME"], ["XX", "X "]] {
            if is_code && line.contains(&format!("// {}", word.concat())) {
                problems.push(format!("{shown}:{number}: {} without an issue", word.concat()));
            }
        }
        for (start, end) in SPELLINGS {
            let british = format!("{start}{end}");
            let is_comment = line.trim_start().starts_with("//") || line.trim_start().starts_with('#') || !is_code;
            if is_comment && line.to_lowercase().contains(&british) {
                problems.push(format!("{shown}:{number}: `{british}` is not American spelling"));
            }
        }
    }
    Ok(())
}

/// Each case has its expected output, and each expected output its case.
fn check_cases(root: &Path, problems: &mut Vec<String>) -> Result<()> {
    for entry in fs::read_dir(root.join("tests/cases"))? {
        let path = entry?.path();
        let partner = match path.extension().and_then(|extension| extension.to_str()) {
            Some("py") => path.with_extension("out"),
            Some("out") => path.with_extension("py"),
            _ => continue,
        };
        if !partner.is_file() {
            problems.push(format!("{} has no {}", path.display(), partner.display()));
        }
    }
    Ok(())
}
