//! Runs other programs: what is run is shown, and a failure names it.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

/// The repository's root.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// A command that starts in the repository's root.
pub(crate) fn command(program: &str, args: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(args).current_dir(root());
    command
}

/// Runs a command to its end, its output shown.
pub(crate) fn run(program: &str, args: &[&str]) -> Result<()> {
    eprintln!("+ {program} {}", args.join(" "));
    let status = command(program, args).status().with_context(|| format!("cannot start {program}"))?;
    if status.success() { Ok(()) } else { bail!("`{program} {}` ended with {status}", args.join(" ")) }
}

/// Whether a program can be started with these arguments and ends well.
pub(crate) fn works(program: &str, args: &[&str]) -> bool {
    command(program, args).output().is_ok_and(|output| output.status.success())
}
