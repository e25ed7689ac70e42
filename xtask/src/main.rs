//! Development tasks: `cargo xtask <task>`.

#![expect(clippy::print_stderr, reason = "a command-line program reports on standard error")]
#![expect(
    clippy::disallowed_methods,
    reason = "development tasks work on this repository's own files and start its tools"
)]

mod bench;
mod command;
mod cpython;
mod cpython_tests;
mod fuzz;
mod image;
mod redaction_report;
mod test;
mod tidy;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Development tasks of Gloveport")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Build the guest's base and standard library from sources.
    Cpython(cpython::Args),
    /// Record the profile that the base is compiled with.
    CpythonProfile(cpython::profile::Args),
    /// Run CPython's own tests inside the guest.
    CpythonTests(cpython_tests::Args),
    /// Run all tests, set-up included.
    Test(test::Args),
    /// Build an image, as `gloveport image build` does: `science`.
    Image(image::Args),
    /// Print the table of BENCHMARKS.md.
    Bench,
    /// Check what compilers and linters can't.
    Tidy,
    /// Run every fuzz target for a while.
    Fuzz(fuzz::Args),
    /// Print the tables about redaction: `recall`, `clean DIR…`, `compare DIR=REPORT.json…`, `speed`.
    Redaction {
        /// What to print, and its folders.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        rest: Vec<String>,
    },
}

fn main() -> ExitCode {
    let result = match Cli::parse().task {
        Task::Cpython(args) => cpython::run(&args),
        Task::CpythonProfile(args) => cpython::profile::record(&args),
        Task::CpythonTests(args) => cpython_tests::run_tests(&args),
        Task::Test(args) => test::run_all(&args),
        Task::Image(args) => image::build(&args),
        Task::Bench => bench::run_bench(),
        Task::Tidy => tidy::run_tidy(),
        Task::Fuzz(args) => fuzz::run_fuzz(&args),
        Task::Redaction { rest } => redaction_report::run(&rest),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
