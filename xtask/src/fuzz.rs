//! `cargo xtask fuzz`: a smoke run of every fuzz target over its corpus.

use anyhow::{Result, bail};

use crate::command::{command, run, works};

/// Options of `cargo xtask fuzz`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Seconds for each target.
    #[arg(long, default_value_t = 60)]
    seconds: u32,
    /// Targets to run; all when none is named.
    targets: Vec<String>,
}

/// The version of cargo-fuzz that is installed where none is.
const CARGO_FUZZ: &str = "0.13.2";
/// Longest input in bytes: beyond it a target only repeats itself.
const MAX_LEN: &str = "-max_len=4096";

pub(crate) fn run_fuzz(args: &Args) -> Result<()> {
    if !works("cargo", &["fuzz", "--version"]) {
        run("cargo", &["install", "--locked", "cargo-fuzz", "--version", CARGO_FUZZ])?;
    }
    let mut targets = args.targets.clone();
    if targets.is_empty() {
        let listed = command("cargo", &["fuzz", "list"]).output()?;
        targets.extend(String::from_utf8(listed.stdout)?.lines().map(str::to_owned));
    }
    if targets.is_empty() {
        bail!("no fuzz target");
    }
    let time = format!("-max_total_time={}", args.seconds);
    // libFuzzer's instrumentation is an unstable flag of the compiler: a nightly has it, a stable one with RUSTC_BOOTSTRAP too, but not its sanitizers.
    let toolchain: &[&str] = if works("cargo", &["+nightly", "--version"]) { &["+nightly"] } else { &[] };
    let sanitizer: &[&str] = if toolchain.is_empty() { &["-s", "none"] } else { &[] };
    for target in &targets {
        let arguments = [toolchain, &["fuzz", "run"], sanitizer, &[target.as_str(), "--", &time, MAX_LEN]].concat();
        eprintln!("+ cargo {}", arguments.join(" "));
        let mut fuzz = command("cargo", &arguments);
        if toolchain.is_empty() {
            fuzz.env("RUSTC_BOOTSTRAP", "1");
        }
        if !fuzz.status()?.success() {
            bail!("fuzz target {target} found a crash");
        }
    }
    Ok(())
}
