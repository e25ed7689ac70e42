//! `gloveport tools`.

use gloveport::stubs;

use crate::Host;
use crate::args::{Global, ToolsArgs};
use crate::assembly::Assembly;
use crate::complaint::Complaint;
use crate::exit::Exit;
use crate::terminal::{self, one_line};

/// Lists the tools that scripts get, as signatures with their first sentence or as a stub file.
pub(crate) fn run(args: &ToolsArgs, global: &Global, host: &Host) -> Result<Exit, Complaint> {
    let assembly = Assembly::new(&args.scope, global, host)?;
    let specs = assembly.specs();
    if args.stubs {
        return Ok(terminal::print(&stubs::pyi(&specs, &assembly.config().module)));
    }
    let mut text = String::new();
    for spec in &specs {
        let sentence = spec.description.split_inclusive(". ").next().unwrap_or_default();
        text.push_str(&format!("{}\n    {}\n", one_line(&stubs::signature(spec)), one_line(sentence)));
    }
    if specs.is_empty() {
        text.push_str("no tools: scripts can only compute\n");
    }
    Ok(terminal::print(&text))
}
