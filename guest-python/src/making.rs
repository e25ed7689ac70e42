//! Making images at run time, for packages that this crate does not carry.

mod adapter;

use std::path::Path;

use wasmtime::Result;

use crate::engine::{self, Exceptions};
use crate::snapshot::{self, Start};

/// Probe.
pub fn probe(base: &Path, boot: &Path, lib: &Path, code: &str, kept: &Path, out: &Path) -> Result<()> {
    let at = std::time::Instant::now();
    let wasm = std::fs::read(base)?;
    let adapted = adapter::adapt(&wasm)?;
    eprintln!("adapted {:?}", at.elapsed());
    std::fs::write(out.with_extension("adapted.wasm"), &adapted)?;
    let wasm = snapshot::take(&adapted, &Start::of_adapted_base(vec![(boot, "/boot", wasmtime_wasi::FsPerms::ReadOnly), (lib, "/usr/local/lib", wasmtime_wasi::FsPerms::ReadOnly), (std::path::Path::new("/work/build/sci/tmp"), "/tmp", wasmtime_wasi::FsPerms::ReadWrite)], code, Some(kept)))?;
    eprintln!("snapshot {:?} {}", at.elapsed(), wasm.len());
    std::fs::write(out.with_extension("wasm"), &wasm)?;
    if std::env::var_os("SKIP").is_some() { return Ok(()); }
    let engine = wasmtime::Engine::new(&engine::config(Exceptions::On))?;
    let code = engine.precompile_module(&wasm)?;
    eprintln!("compiled {:?} {}", at.elapsed(), code.len());
    std::fs::write(out, &code)?;
    Ok(())
}
