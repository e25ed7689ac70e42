//! Makes the guest image: base + standard library + shim → snapshot → machine code. See `src/lib.rs`.

#![expect(clippy::disallowed_methods, reason = "a build script reads its own inputs and what cargo tells it")]

#[path = "src/engine.rs"]
#[expect(unreachable_pub, reason = "public in the library that shares this file")]
mod engine;
#[path = "build/inputs.rs"]
mod inputs;
#[path = "src/snapshot.rs"]
#[expect(dead_code, reason = "the library that shares this file uses all of it")]
mod snapshot;
#[path = "src/written.rs"]
mod written;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use inputs::Inputs;
use sha2::{Digest, Sha256};
use snapshot::Start;
use wasmtime::error::Context as _;
use wasmtime::{Engine, Result, bail};

/// Name of the image that this script makes.
const IMAGE_NAME: &str = "cpython-3.13";

/// Chooses the processor that machine code is made for: `native` (the default) is this machine's, `baseline` runs on any
/// processor of the architecture.
const CPU_VARIABLE: &str = "GLOVEPORT_GUEST_CPU";

fn main() -> Result<()> {
    let out = PathBuf::from(std::env::var_os("OUT_DIR").context("OUT_DIR is not set")?);
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=build");
    println!("cargo::rerun-if-changed=src/engine.rs");
    println!("cargo::rerun-if-changed=src/snapshot.rs");
    println!("cargo::rerun-if-changed=src/written.rs");
    println!("cargo::rerun-if-env-changed={CPU_VARIABLE}");

    let mut stages = Stages::new();
    let inputs = Inputs::read(Path::new("."))?;
    // File by file: whole folders also change when Python writes its caches.
    for (path, _) in inputs.files() {
        println!("cargo::rerun-if-changed={path}");
    }
    let boot = inputs.unpack_boot_folder(&out)?;
    stages.done("unpack");
    let wasm = snapshot::take(inputs.base_wasm(), &Start::of_our_base(boot.path()))?;
    stages.done("snapshot");
    let (engine, code) = precompile(&wasm)?;
    stages.done("compile");
    let written = if is_cross()? { Vec::new() } else { written::pages(&engine, &code)? };
    stages.done("first run");
    let compressed = lz4_flex::block::compress(&code);
    stages.done("compress");

    write(&out.join("guest.cwasm"), &code)?;
    write(&out.join("guest.cwasm.lz4"), &compressed)?;
    write(&out.join("generated.rs"), generated_source(&inputs, &code, &written)?.as_bytes())?;
    stages.done("write");
    stages.note(&format!("sizes: snapshot {} code {} compressed {}", wasm.len(), code.len(), compressed.len()));
    write(&out.join("stages.txt"), stages.report.as_bytes())
}

/// Compiles the snapshot with the configuration that the runtime loads it with.
fn precompile(wasm: &[u8]) -> Result<(Engine, Vec<u8>)> {
    let mut config = engine::config(engine::Exceptions::Off);
    let target = std::env::var("TARGET").context("TARGET is not set")?;
    match std::env::var(CPU_VARIABLE).as_deref() {
        Ok("baseline") => {
            config.target(&target)?;
        }
        // Without a target, wasmtime asks the processor what it can do.
        Ok("native") | Err(_) if !is_cross()? => {}
        Ok("native") | Err(_) => {
            config.target(&target)?;
        }
        Ok(other) => bail!("{CPU_VARIABLE} is {other:?}; use `native` or `baseline`"),
    }
    let engine = Engine::new(&config)?;
    let code = engine.precompile_module(wasm).context("the snapshot does not compile")?;
    Ok((engine, code))
}

/// Whether the code is for another kind of machine than this one, which can't run it.
fn is_cross() -> Result<bool> {
    let target = std::env::var("TARGET").context("TARGET is not set")?;
    let host = std::env::var("HOST").context("HOST is not set")?;
    Ok(target != host)
}

/// The Rust source that `lib.rs` includes.
fn generated_source(inputs: &Inputs, code: &[u8], written: &[(u32, u32)]) -> Result<String> {
    let mut text = String::new();
    writeln!(text, "const IMAGE: Image = Image {{")?;
    writeln!(text, "    name: {IMAGE_NAME:?},")?;
    writeln!(text, "    sha256: {:?},", hex(&Sha256::digest(code)))?;
    writeln!(text, "    compressed: include_bytes!(concat!(env!(\"OUT_DIR\"), \"/guest.cwasm.lz4\")),")?;
    writeln!(text, "    len: {},", code.len())?;
    writeln!(text, "    written: &{written:?},")?;
    writeln!(text, "}};")?;
    writeln!(text, "\n/// The inputs of [`image`]: the base, the standard library, and the files of the shim.")?;
    writeln!(text, "pub const SOURCES: &[Source] = &[")?;
    for (path, data) in inputs.files() {
        writeln!(text, "    Source {{ path: {path:?}, sha256: {:?} }},", hex(&Sha256::digest(data)))?;
    }
    writeln!(text, "];")?;
    embedded(&mut text, "SHIM", "python")?;
    embedded(&mut text, "SCIENCE", "science")?;
    Ok(text)
}

/// The Python files of a folder with their contents, for images that are made at run time.
fn embedded(text: &mut String, constant: &str, folder: &str) -> Result<()> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).with_context(|| format!("cannot list {folder}"))? {
        let name = entry?.file_name().into_string().map_err(|_| wasmtime::Error::msg("a file name is not UTF-8"))?;
        if name.ends_with(".py") {
            names.push(name);
        }
    }
    names.sort();
    writeln!(text, "\n#[cfg(feature = \"making\")]\npub(crate) const {constant}: &[(&str, &[u8])] = &[")?;
    for name in names {
        println!("cargo::rerun-if-changed={folder}/{name}");
        let path = format!("concat!(env!(\"CARGO_MANIFEST_DIR\"), \"/{folder}/{name}\")");
        writeln!(text, "    ({name:?}, include_bytes!({path})),")?;
    }
    writeln!(text, "];")?;
    Ok(())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn write(path: &Path, data: &[u8]) -> Result<()> {
    std::fs::write(path, data).with_context(|| format!("cannot write {}", path.display()))
}

/// How long each stage took; written to `stages.txt` in OUT_DIR.
struct Stages {
    since: Instant,
    report: String,
}

impl Stages {
    fn new() -> Self {
        Self { since: Instant::now(), report: String::new() }
    }

    fn done(&mut self, stage: &str) {
        self.note(&format!("{stage}: {:.2} s", self.since.elapsed().as_secs_f64()));
        self.since = Instant::now();
    }

    fn note(&mut self, line: &str) {
        self.report.push_str(line);
        self.report.push('\n');
    }
}
