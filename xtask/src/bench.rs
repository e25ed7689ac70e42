//! `cargo xtask bench`: the table of BENCHMARKS.md.

use anyhow::Result;

use crate::command::run;

pub(crate) fn run_bench() -> Result<()> {
    // The whole workspace, as for the tests: parts of it would have other features, and wasmtime would be compiled once more. The bench
    // starts the command-line program for the figure of a whole process.
    run("cargo", &["build", "--quiet", "--locked", "--workspace", "--bins"])?;
    let bench = std::env::current_exe()?.with_file_name("bench");
    run(&bench.to_string_lossy(), &[])
}
