//! The test package of CPython, in a directory where it is all that a script can import beside the guest's own library.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::cpython::sources;

/// Unpacks the test package below `scratch` and returns the directory to import it from.
///
/// The rest of `Lib` does not come along: modules that the guest lacks must stay absent.
pub(crate) fn unpack(scratch: &Path, tarball: Option<&Path>) -> Result<PathBuf> {
    let cpython = sources::unpack_cpython(scratch, tarball)?;
    let directory = scratch.join("tests");
    std::fs::create_dir(&directory)?;
    std::fs::rename(cpython.join("Lib/test"), directory.join("test")).context("the sources hold no test package")?;
    std::fs::remove_dir_all(&cpython)?;
    Ok(directory)
}
