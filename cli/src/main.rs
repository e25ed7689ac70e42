//! The command line of Gloveport.
//!
//! `main` reads the process's arguments and environment, the only place that does, and maps what a command returns to an exit code. What was typed
//! ([`args`]) is turned into what the program needs once: layers of configuration ([`settings`]), then tools and workspace ([`assembly`]).

mod args;
mod assembly;
mod commands;
mod complaint;
mod decisions;
mod exit;
mod log;
mod prompt;
mod remote;
mod settings;
mod source;
mod terminal;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser as _;

use args::{Cli, Command};
use exit::Exit;

/// What the process was started with, read once.
pub(crate) struct Host {
    /// Environment variables.
    pub(crate) environment: Vec<(OsString, OsString)>,
    /// Working directory.
    pub(crate) cwd: std::path::PathBuf,
}

impl Host {
    #[expect(clippy::disallowed_methods, reason = "this is the one place that reads the environment")]
    fn read() -> Self {
        // A working directory that was removed is found out when something in it is needed.
        let cwd = std::env::current_dir().unwrap_or_else(|_| ".".into());
        Self { environment: std::env::vars_os().collect(), cwd }
    }

    /// One variable, if it is text and not empty.
    pub(crate) fn variable(&self, name: &str) -> Option<&str> {
        let (_, value) = self.environment.iter().find(|(known, _)| known == name)?;
        value.to_str().filter(|value| !value.is_empty())
    }
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    let host = Host::read();
    log::start(cli.verbose, &host);
    let done = match &cli.command {
        Command::Run(args) => commands::run::run(args, &cli.global, &host),
        Command::Schema(args) => commands::schema::run(args, &cli.global, &host),
        Command::Tools(args) => commands::tools::run(args, &cli.global, &host),
        Command::Doctor(args) => commands::doctor::run(args, &cli.global, &host),
        Command::Env(args) => commands::env::run(args, &cli.global, &host),
        Command::Config(args) => commands::config::run(args, &cli.global, &host),
        #[cfg(feature = "wasi")]
        Command::Image { action } => commands::image::run(action, &host),
        Command::Completions(args) => commands::completions::run(args),
    };
    done.unwrap_or_else(|error| terminal::complain(&error)).into()
}

/// What clap has to say: help and version are data on stdout, mistakes go to stderr. A closed pipe is nobody's mistake.
fn usage(error: &clap::Error) -> ExitCode {
    let _ = error.print();
    if error.use_stderr() { Exit::Usage.into() } else { ExitCode::SUCCESS }
}
