//! False positives: what is masked in texts that should hold no secrets.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result};
use gloveport::output::Redactor;

/// Files larger than this are data.
const MAX_FILE: u64 = 2 << 20;

pub(super) fn run(args: &[String]) -> Result<()> {
    let redactor = Redactor::new()?;
    let verbose = args.iter().any(|arg| arg == "--list");
    let skips_tests = args.iter().any(|arg| arg == "--no-tests");
    for dir in args.iter().filter(|arg| !arg.starts_with("--")) {
        let begun = Instant::now();
        let mut bytes = 0;
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for path in files(Path::new(dir))? {
            if skips_tests && is_test(path.strip_prefix(dir).unwrap_or(&path)) {
                continue;
            }
            let Ok(text) = fs::read_to_string(&path) else {
                continue;
            };
            bytes += text.len();
            for (family, line, masked) in findings(&redactor, &text) {
                *counts.entry(family.clone()).or_default() += 1;
                if verbose {
                    println!("{}:{line}: {family}: {masked}", path.display());
                }
            }
        }
        let total: usize = counts.values().sum();
        let megabytes = bytes as f64 / 1e6;
        println!(
            "{dir}: {total} masks in {megabytes:.1} MB: {:.2} per MB, {:.0} MB/s",
            total as f64 / megabytes,
            megabytes / begun.elapsed().as_secs_f64()
        );
        for (family, count) in counts {
            println!("  {family}: {count}");
        }
    }
    Ok(())
}

/// Whether a path is one of tests, whose keys are planted.
fn is_test(path: &Path) -> bool {
    path.components().any(|part| matches!(part.as_os_str().to_str(), Some("tests" | "test" | "tests.rs" | "fuzz")))
}

/// Text files below a directory, in order.
pub(super) fn files(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut open = vec![dir.to_path_buf()];
    while let Some(path) = open.pop() {
        let kind = fs::symlink_metadata(&path).with_context(|| path.display().to_string())?;
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if kind.is_dir() && !matches!(name.as_str(), ".git" | "target" | "__pycache__" | "node_modules") {
            open.extend(fs::read_dir(&path)?.flatten().map(|entry| entry.path()));
        } else if kind.is_file() && kind.len() <= MAX_FILE {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// Family, line number and line of everything that is masked in a text.
pub(super) fn findings(redactor: &Redactor, text: &str) -> Vec<(String, usize, String)> {
    // A text that speaks of masks has none yet.
    let text = text.replace("[REDACTED:", "[REDACTED;");
    if !redactor.looks_secret(&text) {
        return Vec::new();
    }
    let mut found = Vec::new();
    let clean = redactor.clean(&text);
    let mut rest = text.as_str();
    let mut line = 1;
    let mut pieces = clean.as_str().split("[REDACTED:");
    rest = rest.strip_prefix(pieces.next().unwrap_or_default()).unwrap_or(rest);
    line += text[..text.len() - rest.len()].matches('\n').count();
    for piece in pieces {
        let (family, after) = piece.split_once(']').unwrap_or((piece, ""));
        let shown: String = rest.lines().next().unwrap_or_default().chars().take(120).collect();
        found.push((family.to_owned(), line, shown));
        // Up to the text that follows the mask.
        let end = if after.is_empty() {
            rest.len()
        } else {
            rest.char_indices().skip(1).find(|(at, _)| rest[*at..].starts_with(after)).map_or(rest.len(), |(at, _)| at)
        };
        let next = (end + after.len()).min(rest.len());
        line += rest[..next].matches('\n').count();
        rest = &rest[next..];
    }
    found
}

/// Lines that a mask touches.
pub(super) fn masked_lines(redactor: &Redactor, text: &str) -> Vec<usize> {
    findings(redactor, text).into_iter().map(|(_, line, _)| line).collect()
}
