//! What the file tools have in common: the granted workspace, the guards, and one wording for each refusal.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use gloveport::tool::{ToolContext, ToolError};
use gloveport::workspace::{Workspace, WorkspaceError};
use serde_json::{Map, Value, json};

use crate::guard::Guard;
use crate::host::path::clean;

/// What a tool was about to do with a path, for the text of a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    Read,
    Write,
    Search,
}

impl Action {
    fn verb(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Search => "search",
        }
    }
}

/// The workspace of the run that calls.
pub(crate) fn workspace(cx: &ToolContext) -> Result<Arc<dyn Workspace>, ToolError> {
    let granted = cx.workspace.clone();
    granted.ok_or_else(|| ToolError::failed("No workspace is granted to this run, so there are no files to act on."))
}

/// The text of a refusal. It names the path as the script wrote it and nothing else of the host.
pub(crate) fn explain(action: Action, path: &str, error: &WorkspaceError) -> String {
    match error {
        WorkspaceError::Outside => format!("Access denied: '{path}' is outside the workspace"),
        WorkspaceError::NotFound if action == Action::Search => format!("Path not found: {path}"),
        WorkspaceError::NotFound => format!("File not found: {path}"),
        other => format!("Cannot {} '{path}': {other}", action.verb()),
    }
}

/// The same as an error of the tool.
pub(crate) fn failed(action: Action, path: &str, error: &WorkspaceError) -> ToolError {
    ToolError::Failed(explain(action, path, error))
}

/// An error answer with fields that tell a script more than the text does.
pub(crate) fn error_with(text: String, fields: Value) -> Value {
    let mut answer = Map::new();
    answer.insert("error".into(), text.into());
    if let Value::Object(fields) = fields {
        answer.extend(fields);
    }
    Value::Object(answer)
}

/// A path argument that can be a path at all.
pub(crate) fn check_path(argument: &str, path: &str) -> Result<(), ToolError> {
    if path.is_empty() {
        return Err(ToolError::Arguments(format!("argument '{argument}': must not be empty")));
    }
    no_nul(argument, path)
}

/// Refuses a NUL character, which no path or command can hold and under whose cut form nothing may be opened.
pub(crate) fn no_nul(argument: &str, text: &str) -> Result<(), ToolError> {
    if text.contains('\0') {
        return Err(ToolError::Arguments(format!("argument '{argument}': must not contain a NUL character")));
    }
    Ok(())
}

/// Refuses to show what holds credentials. A workspace on this machine asks again for the path behind links.
pub(crate) fn guard_read(
    guard: &Guard,
    workspace: &dyn Workspace,
    action: Action,
    path: &str,
) -> Result<(), ToolError> {
    match absolute(workspace, path).and_then(|path| guard.read(&path)) {
        Some(refused) => {
            let error = WorkspaceError::Denied(format!("it is a {}", refused.0));
            Err(failed(action, path, &error))
        }
        None => Ok(()),
    }
}

/// Refuses to change what the host would execute, or what holds credentials.
pub(crate) fn guard_write(guard: &Guard, workspace: &dyn Workspace, path: &str) -> Result<(), String> {
    match absolute(workspace, path).and_then(|path| guard.write(Path::new(workspace.root()), &path)) {
        Some(refused) => {
            let error = WorkspaceError::Denied(format!("it is a {}", refused.0));
            Err(explain(Action::Write, path, &error))
        }
        None => Ok(()),
    }
}

/// The path as the workspace will take it by its text. What is outside is left to the workspace, which has one answer for all of it.
fn absolute(workspace: &dyn Workspace, path: &str) -> Option<PathBuf> {
    let root = Path::new(workspace.root());
    let path = clean(&root.join(path));
    path.starts_with(root).then_some(path)
}

/// Up to five names in the directory of a missing path that look like it, as paths that can be used in its place.
pub(crate) async fn similar_paths(workspace: &dyn Workspace, path: &str) -> Vec<String> {
    const SHOWN: usize = 5;
    const LOOKED_AT: usize = 2_000;
    const CUTOFF: f32 = 0.6;
    let (parent, name) = path.rsplit_once('/').unwrap_or((".", path));
    let directory = if parent.is_empty() { "/" } else { parent };
    let Ok(entries) = workspace.list(directory, LOOKED_AT).await else { return Vec::new() };
    let wanted = name.to_lowercase();
    let stem = |name: &str| name.rsplit_once('.').map_or(name, |(stem, _)| stem).to_owned();
    let mut scored: Vec<(f32, &str)> = Vec::new();
    for entry in &entries {
        let have = entry.name.to_lowercase();
        let ratio = if stem(&have) == stem(&wanted) { 1.0 } else { ratio(&wanted, &have) };
        if ratio >= CUTOFF {
            scored.push((ratio, &entry.name));
        }
    }
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(b.1)));
    let prefix = path.strip_suffix(name).unwrap_or_default();
    scored.iter().take(SHOWN).map(|(_, name)| format!("{prefix}{name}")).collect()
}

/// How alike two short texts are, from 0 to 1.
fn ratio(a: &str, b: &str) -> f32 {
    if a.len() > 255 || b.len() > 255 {
        return 0.0;
    }
    similar::TextDiff::from_chars(a, b).ratio()
}

/// The answer for a missing file.
pub(crate) async fn not_found(workspace: &dyn Workspace, path: &str) -> Value {
    let similar = similar_paths(workspace, path).await;
    if similar.is_empty() {
        return json!({ "error": format!("File not found: {path}") });
    }
    let text = format!("File not found: {path}. Similar names: {}", similar.join(", "));
    error_with(text, json!({ "similar_files": similar }))
}
