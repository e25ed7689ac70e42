//! `cargo xtask redaction`: the figures of the redactor.
//!
//! - `recall`: of samples generated per family, how many are masked, in the places where keys turn up.
//! - `clean DIR…`: what is masked in texts that should hold no secrets.
//! - `compare DIR…`: the same files through `detect-secrets` (PyPI), an independent scanner.
//! - `speed`: the worst inputs, a flood, and what redaction costs of it.
//! - `train DIR…`: makes the table of character pairs anew.

#![expect(clippy::print_stdout, reason = "the figures go to standard output")]

mod clean;
mod compare;
mod recall;
mod shapes;
mod speed;
mod train;

use anyhow::{Result, bail};

/// Runs one of the measurements and prints its table.
///
/// # Errors
///
/// If the arguments name none, if a corpus can't be read, or if a figure misses its bound.
pub(crate) fn run(args: &[String]) -> Result<()> {
    let Some((command, rest)) = args.split_first() else {
        bail!("usage: cargo xtask redaction recall | clean DIR… | compare DIR… | speed | train DIR…");
    };
    match command.as_str() {
        "recall" => recall::run(),
        "clean" => clean::run(rest),
        "compare" => compare::run(rest),
        "speed" => speed::run(),
        "train" => train::run(rest),
        other => bail!("no measurement is called {other:?}"),
    }
}
