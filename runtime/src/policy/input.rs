//! Checks of what a request brings, one function per field.

use std::time::Duration;

use super::{DEFAULT_FILENAME, DEFAULT_TASK_ID, PolicyError};
use crate::job::Mode;

/// Bytes of Python source that a run takes.
pub const MAX_CODE_BYTES: usize = 1 << 20;
/// Bytes of all arguments together: what Linux allows for one of them.
const MAX_ARGS_BYTES: usize = 128 << 10;
/// Shorter than this a time limit means nothing: the run would be over before its first check.
const SHORTEST_TIMEOUT: Duration = Duration::from_millis(1);
/// Names that a warning lists.
const NAMES_SHOWN: usize = 5;
/// Characters of foreign text that a message repeats.
const TEXT_SHOWN: usize = 40;

pub(super) fn check_code(code: &str) -> Result<(), PolicyError> {
    if code.len() > MAX_CODE_BYTES {
        return Err(PolicyError::CodeTooLarge { bytes: code.len(), limit: MAX_CODE_BYTES });
    }
    // Python's own idea of blank takes in the four separators U+001C to U+001F; a byte order mark alone is no program either.
    let blank = |c: char| c.is_whitespace() || ('\x1c'..='\x1f').contains(&c) || c == '\u{feff}';
    if code.chars().all(blank) {
        return Err(PolicyError::NoCode);
    }
    match code.find('\0') {
        Some(position) => Err(PolicyError::NulInCode { line: code[..position].matches('\n').count() + 1 }),
        None => Ok(()),
    }
}

pub(super) fn timeout(given: f64, most: f64) -> Result<Duration, PolicyError> {
    let refused = PolicyError::Timeout { given, most };
    // Written so that NaN fails.
    if !(given > 0.0 && given <= most) {
        return Err(refused);
    }
    Duration::try_from_secs_f64(given).map(|limit| limit.max(SHORTEST_TIMEOUT)).map_err(|_| refused)
}

pub(super) fn args(args: &[String]) -> Result<Vec<String>, PolicyError> {
    if let Some(index) = args.iter().position(|arg| arg.contains('\0')) {
        return Err(PolicyError::NulInArgument { position: index + 1 });
    }
    let bytes = args.iter().map(|arg| arg.len() + 1).sum();
    if bytes > MAX_ARGS_BYTES {
        return Err(PolicyError::ArgumentsTooLarge { bytes, limit: MAX_ARGS_BYTES });
    }
    Ok(args.to_vec())
}

pub(super) fn filename(name: Option<&str>) -> String {
    match name.map(|name| name.replace(char::is_control, "?")) {
        Some(name) if !name.trim().is_empty() => name,
        _ => DEFAULT_FILENAME.to_owned(),
    }
}

pub(super) fn task_id(id: Option<&str>) -> String {
    id.map(str::trim).filter(|id| !id.is_empty()).unwrap_or(DEFAULT_TASK_ID).to_owned()
}

/// The mode, and a warning about a text that is none.
pub fn parse_mode(text: Option<&str>, configured: Mode) -> (Mode, Option<String>) {
    let Some(text) = text else { return (configured, None) };
    match text.trim().to_ascii_lowercase().as_str() {
        "project" => (Mode::Project, None),
        "strict" => (Mode::Strict, None),
        _ => (Mode::Project, Some(format!("Unknown mode {} is taken as project.", quoted(text)))),
    }
}

/// The tools of a run: absent = all, empty = none, a list = those of it that exist, in registered order. Names are exact. The warning tells
/// of names that don't exist.
pub(super) fn enabled_tools(registered: &[String], wanted: Option<&[String]>) -> (Vec<String>, Option<String>) {
    let Some(wanted) = wanted else { return (registered.to_vec(), None) };
    let enabled = registered.iter().filter(|name| wanted.contains(name)).cloned().collect();
    let unknown: Vec<&str> = wanted.iter().filter(|name| !registered.contains(name)).map(String::as_str).collect();
    if unknown.is_empty() {
        return (enabled, None);
    }
    let shown: Vec<String> = unknown.iter().take(NAMES_SHOWN).map(|name| quoted(name)).collect();
    let more = match unknown.len().saturating_sub(NAMES_SHOWN) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let there = if registered.is_empty() { "none".to_owned() } else { registered.join(", ") };
    let warning = format!("Unknown tools are ignored: {}{more}. Available: {there}.", shown.join(", "));
    (enabled, Some(warning))
}

/// Foreign text for a message: short, on one line, in quotes.
pub(super) fn quoted(text: &str) -> String {
    match text.char_indices().nth(TEXT_SHOWN) {
        Some((cut, _)) => format!("{:?}...", &text[..cut]),
        None => format!("{text:?}"),
    }
}
