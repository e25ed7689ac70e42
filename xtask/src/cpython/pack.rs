//! The standard library: bytecode, sources and time zones in one archive.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use super::sources::Sources;
use super::{Layout, execute};

/// Packs the standard library with mkblob.py and returns the archive (tar, uncompressed).
pub(crate) fn build(layout: &Layout, sources: &Sources, python: &Path) -> Result<Vec<u8>> {
    let mut command = Command::new(python);
    command.arg("-I").arg(layout.base.join("mkblob.py")).arg(sources.cpython.join("Lib"));
    execute(command.arg(&sources.tzdata_wheel).arg(&layout.pack))?;
    archive(&layout.pack)
}

/// A tar archive that depends on names and contents only.
fn archive(root: &Path) -> Result<Vec<u8>> {
    let mut builder = tar::Builder::new(Vec::new());
    builder.mode(tar::HeaderMode::Deterministic);
    let mut files = Vec::new();
    collect(root, &mut files)?;
    files.sort();
    for file in files {
        let name = file.strip_prefix(root).context("a file lies outside the pack")?;
        builder.append_path_with_name(&file, name)?;
    }
    Ok(builder.into_inner()?)
}

fn collect(folder: &Path, files: &mut Vec<std::path::PathBuf>) -> Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}
