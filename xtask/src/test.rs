//! `cargo xtask test`: all tests, with the set-up that they need.

use anyhow::Result;

use crate::command::{run, works};

/// Options of `cargo xtask test`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Passed to the tests: names to run, or flags after `--`.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<String>,
}

/// Pythons that can run the shim's unit tests: its code is for 3.13 alone.
const PYTHONS: &[&str] = &["python3.13", "python3"];

pub(crate) fn run_all(args: &Args) -> Result<()> {
    let rest: Vec<&str> = args.rest.iter().map(String::as_str).collect();
    run("cargo", &[&["test", "--workspace", "--locked"], rest.as_slice()].concat())?;
    if !rest.is_empty() {
        return Ok(());
    }
    let is_313 = "import sys; sys.exit(sys.version_info[:2] != (3, 13))";
    match PYTHONS.iter().find(|python| works(python, &["-c", is_313])) {
        Some(python) => run(python, &["-m", "unittest", "discover", "-s", "guest-python/tests"]),
        None => {
            eprintln!(
                "ignored: the shim's unit tests need a native Python 3.13; the integration suite runs the shim itself"
            );
            Ok(())
        }
    }
}
