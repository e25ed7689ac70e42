//! The file with the whole output of a run whose result was cut.

#![expect(
    clippy::disallowed_methods,
    reason = "this file owns the spill files; their directory comes from configuration"
)]

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use crate::output::Clean;

/// Writes `text` to a new file in `dir`, which is made if it is missing. Only the user can read it; a file half written is never left.
pub(super) fn write(dir: &Path, run_id: &str, text: &Clean) -> io::Result<PathBuf> {
    std::fs::create_dir_all(dir)?;
    // `tempfile` makes files with mode 0600.
    let mut file = tempfile::Builder::new().prefix(".gloveport-").tempfile_in(dir)?;
    file.write_all(text.as_str().as_bytes())?;
    let path = dir.join(format!("gloveport-{run_id}.txt"));
    file.persist(&path)?;
    Ok(path)
}
