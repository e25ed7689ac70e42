//! `cargo xtask cpython`: builds the guest's base from sources.
//!
//! The result goes to `guest-python/base/` and is committed: `python.wasm.zst` (CPython for WASI with its C libraries and our
//! C module, before any Python code has run), `stdlib.tar.zst` (what `mkblob.py` packs), `provenance.toml` and `licenses/`.
//! With `cargo xtask cpython-profile`, which makes `profile.zst`, it is the only place where a C toolchain, the CPython sources or a package
//! index are needed. Every source is pinned by its
//! SHA-256 (`sources.rs`), and the same sources give the same output in any work folder.

#![expect(clippy::disallowed_methods, reason = "a build starts compilers and lays out folders of its own")]

mod interpreter;
mod libraries;
mod link;
mod pack;
pub(crate) mod profile;
mod provenance;
pub(crate) mod sources;
mod toolchain;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};

/// Options of `cargo xtask cpython`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The tarball of the CPython sources; without it, Debian's source package is fetched through apt.
    #[arg(long, value_name = "PATH")]
    tarball: Option<PathBuf>,
    /// The tarball of wasi-libc, for its dlmalloc; without it, Debian's source package is fetched through apt.
    #[arg(long, value_name = "PATH")]
    wasi_libc: Option<PathBuf>,
    /// Work folder for sources and objects; emptied by each build.
    #[arg(long, value_name = "DIR", default_value = "target/cpython")]
    work: PathBuf,
    /// The Python that runs CPython's build scripts and compiles the standard library; has to be a 3.13 with pip.
    #[arg(long, value_name = "PATH", default_value = "python3.13")]
    python: PathBuf,
    /// Where the result goes.
    #[arg(long, value_name = "DIR", default_value = "guest-python/base")]
    out: PathBuf,
}

/// The folders of one build.
pub(crate) struct Layout {
    /// Sources as they were fetched and unpacked.
    pub(crate) sources: PathBuf,
    /// Headers and archives of the C libraries.
    pub(crate) sysroot: PathBuf,
    /// Objects of the C libraries and of our own C files.
    pub(crate) objects: PathBuf,
    /// The build folder of CPython.
    pub(crate) python: PathBuf,
    /// What `mkblob.py` writes.
    pub(crate) pack: PathBuf,
    /// Our own C files and scripts.
    pub(crate) base: PathBuf,
    /// The root of all of the above except `base`.
    pub(crate) work: PathBuf,
}

impl Layout {
    fn create(work: &Path) -> Result<Self> {
        if work.exists() {
            std::fs::remove_dir_all(work).with_context(|| format!("cannot empty {}", work.display()))?;
        }
        std::fs::create_dir_all(work)?;
        let work = work.canonicalize()?;
        let base = Path::new(env!("CARGO_MANIFEST_DIR")).join("../guest-python/base").canonicalize()?;
        let layout = Self {
            sources: work.join("sources"),
            sysroot: work.join("sysroot"),
            objects: work.join("objects"),
            python: work.join("python"),
            pack: work.join("pack"),
            base,
            work,
        };
        let folders = [&layout.sources, &layout.sysroot.join("include"), &layout.sysroot.join("lib"), &layout.objects];
        for folder in folders.into_iter().chain([&layout.python, &layout.pack]) {
            std::fs::create_dir_all(folder)?;
        }
        Ok(layout)
    }
}

/// Runs the whole build.
pub(crate) fn run(args: &Args) -> Result<()> {
    let python = resolve_python(&args.python)?;
    let layout = Layout::create(&args.work)?;
    let tarballs = sources::Tarballs { cpython: args.tarball.as_deref(), wasi_libc: args.wasi_libc.as_deref() };
    let sources = step("fetch sources", || sources::fetch(&layout, &python, &tarballs))?;
    let toolchain = toolchain::Toolchain::new(&layout, &sources);
    step("build libraries", || libraries::build(&layout, &sources, &toolchain))?;
    step("build interpreter", || interpreter::build(&layout, &sources, &toolchain, &python))?;
    let wasm = step("link", || link::link(&layout, &sources, &toolchain))?;
    let stdlib = step("pack the standard library", || pack::build(&layout, &sources, &python))?;
    std::fs::create_dir_all(&args.out)?;
    step("write", || provenance::write_result(&args.out, &sources, &toolchain, &wasm, &stdlib))
}

fn step<T>(name: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let since = std::time::Instant::now();
    let result = work().with_context(|| format!("cannot {name}"))?;
    eprintln!("{name}: {:.1} s", since.elapsed().as_secs_f64());
    Ok(result)
}

/// The absolute path of the build Python, which must be a 3.13: the bytecode it writes is what the guest loads.
fn resolve_python(python: &Path) -> Result<PathBuf> {
    let program = "import sys; print(sys.executable, *sys.version_info[:2])";
    let text = output(Command::new(python).args(["-I", "-c", program]))?;
    let (path, version) = text.trim().split_once(' ').context("the build Python answers nonsense")?;
    if version != "3 13" {
        bail!("{} is Python {}; a 3.13 is needed (--python)", python.display(), version.replace(' ', "."));
    }
    Ok(PathBuf::from(path))
}

/// Runs a command to its end; its output appears only when it fails.
pub(crate) fn execute(command: &mut Command) -> Result<()> {
    output(command).map(drop)
}

/// Like [`execute`], and returns what the command wrote to standard output.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let done = command.output().with_context(|| format!("cannot start {name}"))?;
    let stdout = String::from_utf8_lossy(&done.stdout).into_owned();
    if !done.status.success() {
        bail!("{command:?} failed ({}):\n{stdout}\n{}", done.status, String::from_utf8_lossy(&done.stderr));
    }
    Ok(stdout)
}

/// The SHA-256 of some bytes, as lowercase hexadecimal digits.
pub(crate) fn sha256(data: &[u8]) -> String {
    Sha256::digest(data).iter().map(|byte| format!("{byte:02x}")).collect()
}
