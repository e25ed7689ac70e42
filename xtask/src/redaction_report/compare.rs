//! The same files through `detect-secrets`, and which of its findings are masked here.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use gloveport::output::Redactor;
use serde_json::Value;

use super::clean;

/// Runs `detect-secrets scan --all-files` (1.5.0 from PyPI) on each directory and counts what both find. `DIR=REPORT`
/// reads a report that such a run has written. With `--list`, what only they find is printed.
pub(super) fn run(args: &[String]) -> Result<()> {
    let redactor = Redactor::new()?;
    let lists = args.iter().any(|arg| arg == "--list");
    for dir in args.iter().filter(|arg| !arg.starts_with("--")) {
        let (dir, report) = match dir.split_once('=') {
            Some((dir, file)) => (dir, fs::read(file).with_context(|| file.to_owned())?),
            None => (dir.as_str(), scan(dir)?),
        };
        let report: Value = serde_json::from_slice(&report)?;
        println!("{dir}\n\n| their rule | found | masked here too | only theirs |");
        println!("| --- | --- | --- | --- |");
        tabulate(&redactor, Path::new(dir), &report, lists);
    }
    Ok(())
}

fn scan(dir: &str) -> Result<Vec<u8>> {
    let program = std::env::var_os("DETECT_SECRETS").unwrap_or_else(|| "detect-secrets".into());
    let output =
        Command::new(&program).args(["scan", "--all-files", "--no-verify", "."]).current_dir(dir).output().context(
            "can't run detect-secrets; `pip install detect-secrets==1.5.0` and set DETECT_SECRETS to its path",
        )?;
    if !output.status.success() {
        bail!("detect-secrets: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(output.stdout)
}

fn tabulate(redactor: &Redactor, dir: &Path, report: &Value, lists: bool) {
    let mut counts: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    let empty = serde_json::Map::new();
    for (file, findings) in report["results"].as_object().unwrap_or(&empty) {
        let Ok(text) = fs::read_to_string(dir.join(file)) else {
            continue;
        };
        let ours = clean::masked_lines(redactor, &text);
        for finding in findings.as_array().into_iter().flatten() {
            let line = finding["line_number"].as_u64().and_then(|line| usize::try_from(line).ok()).unwrap_or(0);
            let count = counts.entry(finding["type"].as_str().unwrap_or("?").to_owned()).or_default();
            count.0 += 1;
            if ours.contains(&line) {
                count.1 += 1;
            } else if lists {
                let shown: String =
                    text.lines().nth(line.saturating_sub(1)).unwrap_or_default().chars().take(200).collect();
                println!("only theirs: {}: {file}:{line}: {shown}", finding["type"]);
            }
        }
    }
    for (rule, (found, both)) in counts {
        println!("| {rule} | {found} | {both} | {} |", found - both);
    }
}
