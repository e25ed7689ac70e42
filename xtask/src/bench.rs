//! `cargo xtask bench`: the table of BENCHMARKS.md.

use anyhow::Result;

use crate::command::run;

pub(crate) fn run_bench() -> Result<()> {
    // The bench starts the command-line program for the figure of a whole process.
    run("cargo", &["build", "--quiet", "--locked", "-p", "gloveport-cli"])?;
    run("cargo", &["run", "--quiet", "--locked", "-p", "gloveport-tests", "--bin", "bench"])
}
