//! Whether the guest's base is the one that its provenance tells of, and fits the C sources and the shim beside it.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde::Deserialize;
use sha2::{Digest as _, Sha256};

const BASE: &str = "guest-python/base";
const SHIM: &str = "guest-python/python";

#[derive(Deserialize)]
struct Provenance {
    outputs: Vec<File>,
    inputs: Vec<File>,
}

#[derive(Deserialize)]
struct File {
    file: String,
    sha256: String,
}

pub(super) fn check(root: &Path, problems: &mut Vec<String>) -> Result<()> {
    let base = root.join(BASE);
    let text = match fs::read_to_string(base.join("provenance.toml")) {
        Ok(text) => text,
        Err(error) => {
            problems.push(format!("{BASE}/provenance.toml: {error}"));
            return Ok(());
        }
    };
    let provenance: Provenance = toml::from_str(&text).context("provenance.toml")?;
    for output in &provenance.outputs {
        let compressed = fs::read(base.join(&output.file)).with_context(|| output.file.clone())?;
        let bytes = zstd::decode_all(compressed.as_slice()).with_context(|| output.file.clone())?;
        compare(&output.file, &output.sha256, &bytes, problems);
    }
    for input in &provenance.inputs {
        let bytes = fs::read(base.join(&input.file)).with_context(|| input.file.clone())?;
        compare(&input.file, &input.sha256, &bytes, problems);
    }
    check_shim(root, problems)
}

fn compare(file: &str, expected: &str, bytes: &[u8], problems: &mut Vec<String>) {
    let actual: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    if actual != expected {
        problems.push(format!("{BASE}/{file} is not what provenance.toml tells of; run `cargo xtask cpython`"));
    }
}

/// Every function of the C module that the shim uses is one that the C module has.
fn check_shim(root: &Path, problems: &mut Vec<String>) -> Result<()> {
    let module = fs::read_to_string(root.join(BASE).join("module.c"))?;
    for entry in fs::read_dir(root.join(SHIM))? {
        let path = entry?.path();
        if path.extension().is_none_or(|extension| extension != "py") {
            continue;
        }
        let text = fs::read_to_string(&path)?;
        let used: BTreeSet<&str> = text
            .split("_gloveport.")
            .skip(1)
            .map(|rest| rest.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().unwrap_or_default())
            .collect();
        for name in used.into_iter().filter(|name| !name.is_empty() && !module.contains(&format!("\"{name}\""))) {
            problems.push(format!("{} uses _gloveport.{name}, which base/module.c does not have", path.display()));
        }
    }
    Ok(())
}
