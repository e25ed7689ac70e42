//! The files that the image is made of.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use tempfile::TempDir;
use wasmtime::Result;
use wasmtime::error::Context as _;

const BASE: &str = "base/python.wasm.zst";
const STDLIB: &str = "base/stdlib.tar.zst";
const SHIM: &str = "python";

/// The inputs, read once, so that what is hashed is what is used.
pub(crate) struct Inputs {
    /// Contents by path relative to the crate, in sorted order.
    files: BTreeMap<String, Vec<u8>>,
    base_wasm: Vec<u8>,
}

impl Inputs {
    /// Reads base, standard library and shim below `root`, the crate's folder.
    pub(crate) fn read(root: &Path) -> Result<Self> {
        let mut files = BTreeMap::new();
        for path in [BASE, STDLIB] {
            files.insert(path.to_owned(), read(&root.join(path))?);
        }
        let shim = root.join(SHIM);
        for entry in std::fs::read_dir(&shim).with_context(|| format!("cannot list {}", shim.display()))? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "py") {
                let name =
                    path.file_name().and_then(|name| name.to_str()).context("a file name of the shim is not UTF-8")?;
                files.insert(format!("{SHIM}/{name}"), read(&path)?);
            }
        }
        let base_wasm = decompress(&files[BASE]).context("the base is damaged")?;
        Ok(Self { files, base_wasm })
    }

    /// The module before the snapshot.
    pub(crate) fn base_wasm(&self) -> &[u8] {
        &self.base_wasm
    }

    /// All inputs as (path, contents).
    pub(crate) fn files(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.files.iter().map(|(path, data)| (path.as_str(), data.as_slice()))
    }

    /// Lays out the folder that the guest sees as `/boot` while it starts: `stdlib.blob`, `lib/` and the shim.
    pub(crate) fn unpack_boot_folder(&self, parent: &Path) -> Result<TempDir> {
        let folder = tempfile::Builder::new().prefix("boot").tempdir_in(parent)?;
        let archive = decompress(&self.files[STDLIB]).context("the standard library is damaged")?;
        tar::Archive::new(archive.as_slice()).unpack(folder.path()).context("cannot unpack the standard library")?;
        for (path, data) in self.files() {
            if let Some(name) = path.strip_prefix(SHIM).and_then(|rest| rest.strip_prefix('/')) {
                std::fs::write(folder.path().join(name), data)?;
            }
        }
        Ok(folder)
    }
}

fn read(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

fn decompress(data: &[u8]) -> Result<Vec<u8>> {
    let mut decoded = Vec::new();
    ruzstd::decoding::StreamingDecoder::new(data)?.read_to_end(&mut decoded)?;
    Ok(decoded)
}
