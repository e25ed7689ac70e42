//! The profile that the interpreter is compiled with: how often each branch of its C code is taken when it runs what scripts do.
//!
//! A wasm build can't count its own branches, its toolchain lacks the library for that. But the compiler's front end counts them by the shape of the
//! source, which is the same for every machine: so `cargo xtask cpython-profile` counts them in a build for this machine and keeps the result in
//! `guest-python/base/`. What the few functions that differ between machines are told is ignored.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use super::provenance::write_compressed;
use super::{Layout, execute, sources, step};
use crate::command::root;

/// The profile, compressed, in `guest-python/base/`.
pub(crate) const FILE: &str = "profile.zst";
/// What is counted, besides CPython's own choice of tests, in the same folder.
const TRAINING: &str = "training.py";
/// How much more a count of the training weighs than one of the tests, which take odd paths on purpose.
const WEIGHT: u32 = 30;
/// As for the guest, as far as it changes which code there is.
const CONFIGURE: [&str; 5] = [
    "--with-pymalloc",
    "--without-mimalloc",
    "--disable-test-modules",
    "--without-ensurepip",
    // The guest's instructions can't jump to computed places.
    "--without-computed-gotos",
];
const INSTRUMENT: &str = "-fprofile-instr-generate";

/// Options of `cargo xtask cpython-profile`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The tarball of the CPython sources; without it, Debian's source package is fetched through apt.
    #[arg(long, value_name = "PATH")]
    tarball: Option<PathBuf>,
    /// Work folder; emptied first.
    #[arg(long, value_name = "DIR", default_value = "target/cpython-profile")]
    work: PathBuf,
    /// A clang no newer than the toolchain's, with its runtime library for profiles (Debian: libclang-rt-19-dev).
    #[arg(long, value_name = "PATH", default_value = "clang-19")]
    clang: PathBuf,
    /// The llvm-profdata of the same version (Debian: llvm-19).
    #[arg(long, value_name = "PATH", default_value = "llvm-profdata-19")]
    profdata: PathBuf,
}

/// The flags that make the compiler use the profile.
pub(crate) fn flags(layout: &Layout) -> Result<String> {
    let compressed = std::fs::read(layout.base.join(FILE)).with_context(|| format!("cannot read {FILE}"))?;
    let path = layout.work.join("profile.profdata");
    std::fs::write(&path, zstd::decode_all(compressed.as_slice())?)?;
    Ok(format!(
        "-fprofile-instr-use={} -Wno-profile-instr-unprofiled -Wno-profile-instr-missing -Wno-profile-instr-out-of-date",
        path.display()
    ))
}

/// Builds an instrumented CPython for this machine, lets it work, and writes what it counted.
pub(crate) fn record(args: &Args) -> Result<()> {
    let base = root().join("guest-python/base").canonicalize()?;
    if args.work.exists() {
        std::fs::remove_dir_all(&args.work)?;
    }
    let counts = args.work.join("counts");
    std::fs::create_dir_all(&counts)?;
    let (work, counts) = (args.work.canonicalize()?, counts.canonicalize()?);
    let cpython = step("fetch sources", || sources::unpack_cpython(&work, args.tarball.as_deref()))?.canonicalize()?;
    let build = work.join("build");
    std::fs::create_dir(&build)?;
    step("build an instrumented interpreter", || build_instrumented(&cpython, &build, &args.clang))?;
    let count = |name: &str, arguments: &[&str]| {
        let raw = counts.join(format!("{name}-%4m.profraw"));
        execute(Command::new(build.join("python")).args(arguments).current_dir(&build).env("LLVM_PROFILE_FILE", raw))
    };
    let training = base.join(TRAINING).to_string_lossy().into_owned();
    step("run the training", || count("training", &[&training]))?;
    step("run CPython's tests for profiles", || count("tests", &["-m", "test", "--pgo", "--timeout", "900"]))?;
    let profile = work.join("profile.profdata");
    step("merge", || merge(&args.profdata, &counts, &profile))?;
    write_compressed(&base.join(FILE), &std::fs::read(&profile)?)
}

fn build_instrumented(cpython: &Path, build: &Path, clang: &Path) -> Result<()> {
    let mut configure = Command::new(cpython.join("configure"));
    configure.args(CONFIGURE).current_dir(build).env("CC", clang).env("CFLAGS", INSTRUMENT).env("LDFLAGS", INSTRUMENT);
    execute(configure.env("OPT", "-DNDEBUG -O1 -fwrapv"))?;
    let jobs = std::thread::available_parallelism()?;
    // The interpreter runs while it is built, and its counts of that are nobody's business.
    execute(Command::new("make").arg(format!("-j{jobs}")).current_dir(build).env("LLVM_PROFILE_FILE", "/dev/null"))
}

fn merge(profdata: &Path, counts: &Path, profile: &Path) -> Result<()> {
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(counts)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?;
    files.sort();
    let mut command = Command::new(profdata);
    command.arg("merge").arg("-o").arg(profile);
    for file in files {
        let is_training = file.file_name().is_some_and(|name| name.to_string_lossy().starts_with("training"));
        let weight = if is_training { WEIGHT } else { 1 };
        command.arg(format!("-weighted-input={weight},{}", file.display()));
    }
    execute(&mut command)
}
