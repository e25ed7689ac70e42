//! `--out DIR`: the figures of a run as files.

#![expect(clippy::disallowed_methods, reason = "writes into the directory that the user named")]

use std::fs;
use std::path::Path;

use crate::complaint::Complaint;
use crate::source::described;

/// Writes `figure-1.png` and so on. The names are ours: a script decides only what is in the files.
pub(super) fn write<B: AsRef<[u8]>>(figures: &[B], directory: &Path) -> Result<(), Complaint> {
    let failed =
        |error: std::io::Error| Complaint::setup(format!("--out {}: {}", directory.display(), described(&error)));
    if figures.is_empty() {
        return Ok(());
    }
    fs::create_dir_all(directory).map_err(failed)?;
    for (i, figure) in figures.iter().enumerate() {
        fs::write(directory.join(format!("figure-{}.png", i + 1)), figure).map_err(failed)?;
    }
    Ok(())
}
