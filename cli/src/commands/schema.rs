//! `gloveport schema`.

use gloveport::schema::{self, Format, SchemaInput};

use crate::Host;
use crate::args::{Format as FormatArg, Global, SchemaArgs};
use crate::assembly::Assembly;
use crate::complaint::Complaint;
use crate::exit::Exit;
use crate::terminal;

/// Prints the tool definition for the enabled tools and the configured limits.
pub(crate) fn run(args: &SchemaArgs, global: &Global, host: &Host) -> Result<Exit, Complaint> {
    let assembly = Assembly::new(&args.scope, global, host)?;
    let config = assembly.config();
    let input = SchemaInput {
        tools: &assembly.specs(),
        module: &config.module,
        timeout: args.scope.timeout.unwrap_or(config.limits.timeout),
        max_tool_calls: args.scope.max_tool_calls.unwrap_or(config.limits.max_tool_calls),
        max_stdout: config.output.max_stdout,
        mode: gloveport::policy::parse_mode(args.scope.mode.as_deref(), config.mode).0,
    };
    let definition = schema::render(&input, format(args.format));
    warn_of_words(&definition.to_string());
    Ok(terminal::print(&format!("{definition:#}\n")))
}

fn format(format: FormatArg) -> Format {
    match format {
        FormatArg::Openai => Format::OpenAi,
        FormatArg::Anthropic => Format::Anthropic,
        FormatArg::Mcp => Format::Mcp,
    }
}

/// Descriptions of the user's own tools may hold words that make models refuse work that needs the network.
fn warn_of_words(definition: &str) {
    let words = schema::forbidden_words(definition);
    if !words.is_empty() {
        let text =
            format!("a tool's description says {}; models then often refuse to use the network", words.join(", "));
        terminal::note("warning", &terminal::clean(&text));
    }
}
