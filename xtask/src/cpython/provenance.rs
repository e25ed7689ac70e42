//! Writes the result with the record of what it was made from.

use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;

use super::sources::{PINS, Sources};
use super::toolchain::{CFLAGS, LTO, TARGET, Toolchain};
use super::{link, output, profile, sha256};

/// Decompression is pure Rust and happens at each build, so the level costs only the one who builds the base.
const ZSTD_LEVEL: i32 = 19;

#[derive(Serialize)]
struct Provenance {
    build: Build,
    outputs: Vec<Output>,
    inputs: Vec<Input>,
    sources: Vec<Source>,
}

#[derive(Serialize)]
struct Build {
    compiler: String,
    target: &'static str,
    flags: Vec<&'static str>,
    stack_size: u32,
    initial_memory: u32,
}

#[derive(Serialize)]
struct Output {
    file: &'static str,
    /// Of the contents before compression.
    sha256: String,
    len: usize,
}

/// A file of ours that the outputs were made from.
#[derive(Serialize)]
struct Input {
    file: String,
    sha256: String,
}

#[derive(Serialize)]
struct Source {
    name: &'static str,
    version: &'static str,
    origin: &'static str,
    sha256: &'static str,
    license: &'static str,
}

/// Writes both artifacts compressed, `provenance.toml` and `licenses/` to `out`.
pub(crate) fn write_result(
    out: &Path,
    sources: &Sources,
    toolchain: &Toolchain,
    wasm: &[u8],
    stdlib: &[u8],
) -> Result<()> {
    write_compressed(&out.join("python.wasm.zst"), wasm)?;
    write_compressed(&out.join("stdlib.tar.zst"), stdlib)?;
    let provenance = Provenance {
        build: Build {
            compiler: compiler_version(toolchain)?,
            target: TARGET,
            flags: CFLAGS.into_iter().chain([LTO]).collect(),
            stack_size: link::STACK_SIZE,
            initial_memory: link::INITIAL_MEMORY,
        },
        outputs: vec![
            Output { file: "python.wasm.zst", sha256: sha256(wasm), len: wasm.len() },
            Output { file: "stdlib.tar.zst", sha256: sha256(stdlib), len: stdlib.len() },
        ],
        inputs: inputs()?,
        sources: PINS
            .iter()
            .map(|pin| Source {
                name: pin.name,
                version: pin.version,
                origin: pin.origin,
                sha256: pin.sha256,
                license: pin.license,
            })
            .collect(),
    };
    let text = format!("# Written by `cargo xtask cpython`.\n\n{}", toml::to_string(&provenance)?);
    std::fs::write(out.join("provenance.toml"), text)?;
    write_licenses(&out.join("licenses"), sources)
}

/// Our own sources, so that `cargo xtask tidy` can tell whether the base was built from what stands beside it.
fn inputs() -> Result<Vec<Input>> {
    let folder = crate::command::root().join("guest-python/base");
    let mut inputs = Vec::new();
    for entry in std::fs::read_dir(&folder)? {
        let path = entry?.path();
        let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let is_source =
            path.extension().is_some_and(|extension| ["c", "h", "py"].iter().any(|ours| extension == *ours));
        if is_source || file == profile::FILE {
            inputs.push(Input { file, sha256: sha256(&std::fs::read(&path)?) });
        }
    }
    inputs.sort_by(|a, b| a.file.cmp(&b.file));
    Ok(inputs)
}

/// Writes a file that the repository keeps compressed.
pub(crate) fn write_compressed(path: &Path, data: &[u8]) -> Result<()> {
    let compressed = zstd::bulk::compress(data, ZSTD_LEVEL)?;
    std::fs::write(path, compressed).with_context(|| format!("cannot write {}", path.display()))
}

fn compiler_version(toolchain: &Toolchain) -> Result<String> {
    let text = output(toolchain.cc().arg("--version"))?;
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

/// Copies the license texts of everything that ends up in the two artifacts.
fn write_licenses(folder: &Path, sources: &Sources) -> Result<()> {
    std::fs::create_dir_all(folder)?;
    let libc = sources.ziglang.join("lib/libc");
    let texts = [
        ("cpython.txt", sources.cpython.join("LICENSE")),
        ("cpython-incorporated-software.rst", sources.cpython.join("Doc/license.rst")),
        ("zlib.txt", sources.zlib.join("LICENSE")),
        ("bzip2.txt", sources.bzip2.join("LICENSE")),
        ("liblzma.txt", sources.liblzma.join("xz/COPYING")),
        ("liblzma-0BSD.txt", sources.liblzma.join("xz/COPYING.0BSD")),
        ("wasi-libc.txt", libc.join("wasi/LICENSE")),
        ("wasi-libc-MIT.txt", libc.join("wasi/LICENSE-MIT")),
        ("wasi-libc-Apache-2.0-LLVM.txt", libc.join("wasi/LICENSE-APACHE-LLVM")),
        ("musl.txt", libc.join("musl/COPYRIGHT")),
        ("ziglang.txt", sources.ziglang.join("LICENSE")),
        ("tzdata.txt", sources.tzdata_licenses.join("LICENSE")),
        ("tzdata-Apache-2.0.txt", sources.tzdata_licenses.join("licenses/LICENSE_APACHE")),
    ];
    for (name, source) in texts {
        std::fs::copy(&source, folder.join(name)).with_context(|| format!("cannot copy {}", source.display()))?;
    }
    // SQLite has no license file; its authors dedicate it with this text at the top of the source.
    let sqlite = std::fs::read_to_string(sources.sqlite.join("sqlite3.h"))?;
    let dedication: String =
        sqlite.lines().take_while(|line| !line.starts_with("*****")).map(|l| format!("{l}\n")).collect();
    std::fs::write(folder.join("sqlite.txt"), dedication)?;
    Ok(())
}
