//! Finds and reads `gloveport.toml`.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use gloveport::config::WorkspaceConfig;
use toml::{Table, Value};

use super::{Keys, Layer, SettingsError};
use crate::Host;
use crate::source::described;

/// Name of the file in a project and in the user's configuration directory.
const FILE_NAME: &str = "gloveport.toml";
/// A larger file is not a configuration.
const MAX_BYTES: u64 = 1 << 20;

/// The files to read, the least important first: the one that was named, or the user's and the project's.
pub(super) fn find(option: Option<&Path>, host: &Host) -> Vec<PathBuf> {
    let named = option.map(Path::to_owned).or_else(|| host.variable("GLOVEPORT_CONFIG").map(PathBuf::from));
    match named {
        Some(path) if path.as_os_str() == "none" => Vec::new(),
        Some(path) => vec![host.cwd.join(path)],
        None => {
            let user = user_file(host).filter(|path| exists(path));
            let project = host.cwd.ancestors().map(|directory| directory.join(FILE_NAME)).find(|path| exists(path));
            let project = project.filter(|path| Some(path) != user.as_ref());
            user.into_iter().chain(project).collect()
        }
    }
}

fn user_file(host: &Host) -> Option<PathBuf> {
    config_directory(host).map(|directory| directory.join(FILE_NAME))
}

/// `$XDG_CONFIG_HOME/gloveport`, else `~/.config/gloveport`.
pub(crate) fn config_directory(host: &Host) -> Option<PathBuf> {
    let absolute = |name| host.variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = absolute("XDG_CONFIG_HOME").or_else(|| absolute("HOME").map(|home| home.join(".config")))?;
    Some(base.join("gloveport"))
}

/// A name that stands there at all: a broken link or a directory is read, and then reported.
#[expect(clippy::disallowed_methods, reason = "this file owns the configuration files")]
fn exists(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

pub(super) fn read(path: &Path, keys: &Keys) -> Result<Layer, SettingsError> {
    let place = path.display().to_string();
    let failed = |problem: String| SettingsError::File { place: place.clone(), problem };
    let text = text(path).map_err(&failed)?;
    let mut table: Table = toml::from_str(&text).map_err(|error: toml::de::Error| failed(syntax(&error, &text)))?;
    if let Some(key) = keys.unknown_in(&table) {
        return Err(SettingsError::UnknownKey { place, nearest: keys.nearest(&key), key });
    }
    resolve_paths(&mut table, path.parent().unwrap_or(Path::new("/")));
    Ok(Layer { place, table })
}

#[expect(clippy::disallowed_methods, reason = "this file owns the configuration files")]
fn text(path: &Path) -> Result<String, String> {
    let file = File::open(path).map_err(|error| format!("can't be read: {}", described(&error)))?;
    let metadata = file.metadata().map_err(|error| format!("can't be read: {}", described(&error)))?;
    if !metadata.is_file() {
        return Err("is not a regular file".to_owned());
    }
    trusted(&metadata)?;
    let mut text = String::new();
    match file.take(MAX_BYTES + 1).read_to_string(&mut text) {
        Ok(read) if read as u64 > MAX_BYTES => Err("is larger than 1 MB".to_owned()),
        Ok(_) => Ok(text),
        Err(error) => Err(format!("can't be read: {}", described(&error))),
    }
}

/// A configuration says what scripts may do and which commands are tools, so nobody else may write it. The nearest file upwards may lie in a directory
/// like `/tmp`, where anybody can put one.
#[cfg(unix)]
pub(crate) fn trusted(metadata: &std::fs::Metadata) -> Result<(), String> {
    use std::os::unix::fs::MetadataExt as _;
    let owner = metadata.uid();
    if owner != 0 && owner != rustix::process::geteuid().as_raw() {
        return Err("is refused: it belongs to another user".to_owned());
    }
    if metadata.mode() & 0o002 != 0 {
        return Err("is refused: anybody can write it (chmod o-w)".to_owned());
    }
    Ok(())
}

#[cfg(not(unix))]
pub(crate) fn trusted(_: &std::fs::Metadata) -> Result<(), String> {
    Ok(())
}

/// What is wrong with the text, and where.
fn syntax(error: &toml::de::Error, text: &str) -> String {
    let line = error.span().and_then(|span| text.get(..span.start)).map(|before| before.matches('\n').count() + 1);
    let message = error.message().replace('\n', ", ");
    line.map_or_else(|| message.clone(), |line| format!("line {line}: {message}"))
}

/// Relative paths in a file count from where the file is.
fn resolve_paths(table: &mut Table, base: &Path) {
    if let Some(Value::String(workspace)) = table.get_mut("workspace")
        && matches!(WorkspaceConfig::parse(workspace), Ok(WorkspaceConfig::Directory { .. }))
    {
        *workspace = under(base, workspace);
    }
    for (section, key) in [("output", "spill"), ("env", "home"), ("ssh", "identity"), ("ssh", "known_hosts")] {
        if let Some(Value::String(path)) = table.get_mut(section).and_then(|section| section.get_mut(key))
            // ssh knows whose home that is.
            && !(section == "ssh" && path.starts_with("~/"))
        {
            *path = under(base, path);
        }
    }
    let tools = table.get_mut("tool").and_then(Value::as_array_mut).into_iter().flatten();
    for tool in tools {
        // A bare name is looked up in PATH; one with a slash is a file.
        if let Some(Value::String(program)) = tool.get_mut("command").and_then(|command| command.get_mut(0))
            && program.contains('/')
        {
            *program = under(base, program);
        }
    }
}

fn under(base: &Path, path: &str) -> String {
    if path.is_empty() { String::new() } else { base.join(path).to_string_lossy().into_owned() }
}
