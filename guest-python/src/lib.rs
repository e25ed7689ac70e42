//! The guest: CPython for WASI with its standard library imported, as machine code that only has to be mapped.
//!
//! The build script makes the image from three inputs in this folder, without network or C compiler:
//!
//! 1. the base, `base/python.wasm.zst`: a static CPython with the C module `_gloveport` (`cargo xtask cpython` makes it);
//! 2. the standard library, `base/stdlib.tar.zst`;
//! 3. the Python shim, `python/*.py`.
//!
//! It starts the interpreter, lets the shim import the standard library, takes a snapshot and compiles it with
//! [`engine::config`]. `ABI.md` says what an image imports and exports. This crate does not run anything: that is the
//! runtime's part, which also decides where the machine code is laid and checks it before it is mapped.

pub mod engine;
#[cfg(feature = "making")]
pub mod making;
#[cfg(feature = "making")]
mod snapshot;
pub mod stored;
#[cfg(feature = "making")]
mod written;

use sha2::{Digest, Sha256};

/// A guest image: machine code as written by `wasmtime::Engine::precompile_module`, compressed.
#[derive(Clone, Copy)]
pub struct Image {
    /// A short name of the image, for file names and logs.
    pub name: &'static str,
    /// SHA-256 of the machine code, as 64 lowercase hexadecimal digits.
    pub sha256: &'static str,
    /// The machine code as one LZ4 block.
    pub compressed: &'static [u8],
    /// Length of the machine code in bytes.
    pub len: usize,
    /// Pages of 4096 bytes of the memory that every run writes to: first page and number of pages. May be empty.
    pub written: &'static [(u32, u32)],
}

/// Why an image could not be unpacked. The binary that carries it is damaged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UnpackError {
    /// The compressed bytes are no LZ4 block of the expected length.
    #[error("the guest image is damaged")]
    Decompress(#[source] lz4_flex::block::DecompressError),
    /// The bytes are not those that were compressed.
    #[error("the guest image has the hash {actual}, expected {expected}")]
    Hash {
        /// What [`Image::sha256`] says.
        expected: &'static str,
        /// What the bytes have.
        actual: String,
    },
}

impl Image {
    /// Returns the machine code, checked against [`Image::sha256`].
    ///
    /// # Errors
    ///
    /// [`UnpackError`] when the bytes in this binary are not those that the build wrote.
    pub fn unpack(&self) -> Result<Vec<u8>, UnpackError> {
        let code = lz4_flex::block::decompress(self.compressed, self.len).map_err(UnpackError::Decompress)?;
        let actual = hex(&Sha256::digest(&code));
        if actual != self.sha256 {
            return Err(UnpackError::Hash { expected: self.sha256, actual });
        }
        Ok(code)
    }
}

impl std::fmt::Debug for Image {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Image").field("name", &self.name).field("sha256", &self.sha256).field("len", &self.len).finish()
    }
}

/// One input of the image, by its path in this crate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    /// Path relative to the crate's folder, with `/`.
    pub path: &'static str,
    /// SHA-256 of the file, as 64 lowercase hexadecimal digits.
    pub sha256: &'static str,
}

include!(concat!(env!("OUT_DIR"), "/generated.rs"));

/// The image that this build carries.
#[must_use]
pub fn image() -> Image {
    IMAGE
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_image_unpacks_to_its_hash() {
        let code = image().unpack().expect("the image that was just built is intact");
        assert_eq!(code.len(), image().len);
    }

    #[test]
    fn a_damaged_image_is_refused() {
        let wrong = "0000000000000000000000000000000000000000000000000000000000000000";
        assert!(matches!(Image { sha256: wrong, ..image() }.unpack(), Err(UnpackError::Hash { .. })));
        assert!(matches!(Image { compressed: &[1, 2, 3], ..image() }.unpack(), Err(UnpackError::Decompress(_))));
    }

    #[test]
    fn the_engine_configuration_loads_the_image() {
        let engine =
            wasmtime::Engine::new(&engine::config(engine::Exceptions::Off)).expect("the configuration is valid");
        let code = image().unpack().expect("the image that was just built is intact");
        // SAFETY: the bytes come from this build's precompile_module, and their hash was checked.
        #[expect(unsafe_code, reason = "loading trusted machine code")]
        let module = unsafe { wasmtime::Module::deserialize(&engine, code) }.expect("the image fits the engine");
        let exports: Vec<_> = module.exports().map(|export| export.name().to_owned()).collect();
        for name in ["memory", "gloveport_alloc", "gloveport_run", "gloveport_streams"] {
            assert!(exports.iter().any(|export| export == name), "{name} is not exported: {exports:?}");
        }
    }

    /// wasmtime's pool puts back so many pieces of a used memory by hand; the pages of all others are thrown away, and fault in again in the next run.
    #[test]
    fn a_small_run_writes_to_few_places() {
        let written = image().written;
        assert!(!written.is_empty() && written.len() <= 32, "{written:?}");
    }

    /// If this fails, wasmtime copies the whole image at each instantiation: milliseconds instead of microseconds.
    #[test]
    fn the_image_is_small_enough_for_copy_on_write() {
        let engine =
            wasmtime::Engine::new(&engine::config(engine::Exceptions::Off)).expect("the configuration is valid");
        let code = image().unpack().expect("the image that was just built is intact");
        // SAFETY: the bytes come from this build's precompile_module, and their hash was checked.
        #[expect(unsafe_code, reason = "loading trusted machine code")]
        let module = unsafe { wasmtime::Module::deserialize(&engine, code) }.expect("the image fits the engine");
        let Some(wasmtime::ExternType::Memory(memory)) = module.get_export("memory") else {
            panic!("the image exports no memory");
        };
        let size = memory.minimum() * memory.page_size();
        assert!(size < engine::MAX_IMAGE_SIZE, "{size}");
    }
}
