//! `gloveport config`.

use gloveport::Config;

use crate::Host;
use crate::args::{ConfigArgs, Global};
use crate::complaint::Complaint;
use crate::exit::Exit;
use crate::settings;
use crate::terminal::{self, one_line};

/// Prints the settings in force as TOML, with where they come from; secrets are hidden.
pub(crate) fn run(args: &ConfigArgs, global: &Global, host: &Host) -> Result<Exit, Complaint> {
    if args.schema {
        return Ok(terminal::print(&format!("{:#}\n", Config::json_schema())));
    }
    let settings = settings::load(global.config.as_deref(), host)?;
    let mut text = String::from("# defaults");
    for source in &settings.sources {
        text.push_str(&format!(", {}", one_line(source)));
    }
    let settings = toml::to_string(&settings.config).map_err(|error| Complaint::setup(error.to_string()))?;
    Ok(terminal::print(&format!("{text}\n{settings}")))
}
