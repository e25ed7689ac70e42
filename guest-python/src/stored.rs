//! Images that were made at run time, as they lie in a directory: machine code, a library, and a manifest that says what they are.

use serde::{Deserialize, Serialize};

/// Name of the manifest in an image's directory.
pub const MANIFEST: &str = "image.json";
/// Name of the machine code in an image's directory.
pub const CODE: &str = "image.cwasm";
/// Name of the directory that guests of the image see as [`LIBRARY_MOUNT`], read-only.
pub const LIBRARY: &str = "lib";
/// Where the guest sees the library.
pub const LIBRARY_MOUNT: &str = "/usr/local/lib";
/// The working directory of a run without a grant, as the guest sees it.
pub const PRIVATE_CWD: &str = "/work";
/// The form of the manifest; another one is another version of Gloveport's.
pub const FORMAT: u32 = 2;

/// What an image is and what it was made of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// [`FORMAT`].
    pub format: u32,
    /// The image's name.
    pub name: String,
    /// The image that it was made from, or the package.
    pub from: String,
    /// Version of its Python, as 3.15.
    pub python: String,
    /// SHA-256 of the machine code.
    pub sha256: String,
    /// Bytes of the machine code.
    pub bytes: u64,
    /// Whether its engine needs exception handling.
    pub exceptions: bool,
    /// Whether it has a library beside it.
    pub library: bool,
    /// Megabytes (2^20 bytes) of memory that an instance starts with.
    pub memory: u64,
    /// Pages of 4096 bytes of the memory that every run writes to: first page and number of pages.
    pub written: Vec<(u32, u32)>,
    /// Top-level modules beyond the standard library.
    pub modules: Vec<String>,
    /// What compiled it: version of Gloveport and architecture.
    pub compiler: String,
    /// SHA-256 of the snapshot before it was compiled: the same inputs give the same one on every machine.
    pub snapshot_sha256: String,
    /// The inputs: name, and SHA-256.
    pub inputs: Vec<Input>,
}

/// One input of an image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// File name or path.
    pub name: String,
    /// SHA-256 of its bytes.
    pub sha256: String,
}

/// What compiles images here. For people: wasmtime itself refuses code of another version or processor.
#[must_use]
pub fn compiler() -> String {
    format!("Gloveport {} on {}", env!("CARGO_PKG_VERSION"), std::env::consts::ARCH)
}
