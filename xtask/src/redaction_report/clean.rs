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
    for dir in args.iter().filter(|arg| !arg.starts_with("--")) {
        let begun = Instant::now();
        let mut bytes = 0;
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for path in files(Path::new(dir))? {
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
        println!("{dir}: {total} masks in {megabytes:.1} MB: {:.2} per MB, {:.0} MB/s", total as f64 / megabytes, megabytes / begun.elapsed().as_secs_f64());
        for (family, count) in counts {
            println!("  {family}: {count}");
        }
    }
    Ok(())
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

/// Family, line number and the masked line of everything that is masked in a text.
pub(super) fn findings(redactor: &Redactor, text: &str) -> Vec<(String, usize, String)> {
    let existing = text.matches("[REDACTED:").count();
    let clean = redactor.clean(text);
    if clean.as_str().matches("[REDACTED:").count() == existing {
        return Vec::new();
    }
    let mut found = Vec::new();
    let mut original = text.lines();
    for (number, line) in clean.as_str().lines().enumerate() {
        let before = original.next().unwrap_or_default();
        for (at, open) in line.match_indices("[REDACTED:") {
            let family = line[at + open.len()..].split(']').next().unwrap_or_default();
            found.push((family.to_owned(), number + 1, before.chars().take(160).collect()));
        }
    }
    found
}
