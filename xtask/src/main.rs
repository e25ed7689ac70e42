//! Development tasks: `cargo xtask <task>`.

#![expect(clippy::print_stderr, reason = "a command-line program reports on standard error")]

mod cpython;

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
}

fn main() -> ExitCode {
    let result = match Cli::parse().task {
        Task::Cpython(args) => cpython::run(&args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
