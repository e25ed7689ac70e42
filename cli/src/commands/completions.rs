//! `gloveport completions`.

use clap::CommandFactory as _;

use crate::args::{Cli, CompletionArgs};
use crate::complaint::Complaint;
use crate::exit::Exit;
use crate::terminal;

/// Prints the completion script of one shell.
pub(crate) fn run(args: &CompletionArgs) -> Result<Exit, Complaint> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "gloveport", &mut script);
    Ok(terminal::print(&String::from_utf8_lossy(&script)))
}
