//! Settings in layers: the user's file, the project's file, variables, and (put on top by the commands) options.
//!
//! Each layer is checked by itself, so that a mistake is reported with the place where it was made, and the nearest known name. TOML tables are merged key
//! by key; everything else is replaced. The order of keys is kept, because that of a `[[tool]]`'s properties is the order of its parameters.

mod env;
mod file;
mod keys;

use std::cell::LazyCell;
use std::path::{Path, PathBuf};

use gloveport::Config;
use gloveport::config::ConfigError;
use serde::Deserialize as _;
use toml::{Table, Value};

use crate::Host;
pub(crate) use file::{config_directory, trusted};
use keys::Keys;

/// The configuration and where it came from.
#[derive(Debug, PartialEq)]
pub(crate) struct Settings {
    pub(crate) config: Config,
    /// Where something was set, first to last.
    pub(crate) sources: Vec<String>,
    /// Files that were read: no tool may change them.
    pub(crate) files: Vec<PathBuf>,
}

/// Why there are no settings. Each is one sentence that names the place.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SettingsError {
    #[error("{place}: {problem}")]
    File { place: String, problem: String },
    #[error("{place}: unknown key `{key}`{}", hint(.nearest))]
    UnknownKey { place: String, key: String, nearest: Option<String> },
    #[error("unknown variable `{name}`{}", hint(.nearest))]
    UnknownVariable { name: String, nearest: Option<String> },
    #[error("{place}: `{key}`: {problem}")]
    Value { place: String, key: String, problem: String },
    #[error(transparent)]
    Config(#[from] ConfigError),
}

fn hint(nearest: &Option<String>) -> String {
    nearest.as_ref().map(|name| format!("; did you mean `{name}`?")).unwrap_or_default()
}

/// One source of settings.
struct Layer {
    place: String,
    table: Table,
}

/// Reads and merges every layer but the options.
pub(crate) fn load(config_option: Option<&Path>, host: &Host) -> Result<Settings, SettingsError> {
    // Made only if a layer names a key: most runs have no settings.
    let keys: LazyCell<Keys> = LazyCell::new(Keys::of_config);
    let files = file::find(config_option, host);
    let mut layers = Vec::new();
    for path in &files {
        layers.push(file::read(path, &keys)?);
    }
    layers.extend(env::read(host, &keys)?);
    merge(layers, files)
}

fn merge(layers: Vec<Layer>, files: Vec<PathBuf>) -> Result<Settings, SettingsError> {
    let mut merged = Table::new();
    let mut sources = Vec::new();
    for Layer { place, table } in layers {
        // Alone first, so that a wrong type is reported with its place.
        typed(&place, table.clone())?;
        overlay(&mut merged, table);
        sources.push(place);
    }
    let config = typed("settings", merged)?;
    config.check()?;
    Ok(Settings { config, sources, files })
}

fn typed(place: &str, table: Table) -> Result<Config, SettingsError> {
    serde_path_to_error::deserialize(Value::Table(table)).map_err(|error| SettingsError::Value {
        place: place.to_owned(),
        key: error.path().to_string(),
        problem: error.inner().message().to_owned(),
    })
}

fn overlay(below: &mut Table, above: Table) {
    for (key, value) in above {
        match (below.get_mut(&key), value) {
            (Some(Value::Table(below)), Value::Table(above)) => overlay(below, above),
            (_, value) => drop(below.insert(key, value)),
        }
    }
}

/// Reads one value as TOML: `3`, `true`, `["a"]`.
fn parse_value(text: &str) -> Option<Value> {
    Value::deserialize(toml::de::ValueDeserializer::parse(text).ok()?).ok()
}

#[cfg(test)]
mod tests;
