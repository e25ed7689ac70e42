//! `patch`: edits of text files, one text for another or a V4A patch over several files.
//!
//! Everything up to the list of changes is text to text ([`replace`], [`plan`]); only then the workspace makes all of them or none.

mod adapt;
mod diff;
mod find;
mod fold;
mod plan;
mod replace;
mod similarity;
mod v4a;
mod view;

use std::collections::BTreeMap;
use std::sync::Arc;

use gloveport::tool::{Effect, Tool, ToolContext, ToolError, ToolSpec, tool_fn};
use gloveport::workspace::{Change, FileKind, Workspace, WorkspaceError};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::sync::Mutex;

use crate::answer::{Action, check_path, explain, guard_read, guard_write, no_nul, similar_paths, workspace};
use crate::guard::Guard;
use crate::text::{Encoding, grouped, is_binary, to_lf};
use plan::{Loaded, Plan, plan};
use replace::Replacement;
use view::{Lines, View};

/// Bytes of a file that is edited.
const MAX_FILE: u64 = 64 << 20;
/// Bytes of one read.
const PIECE: usize = 8 << 20;
/// Bytes of the diff in an answer.
const MAX_DIFF: usize = 2 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Mode {
    /// Replace old_string by new_string in the file at path.
    #[default]
    Replace,
    /// Apply the V4A patch in patch.
    Patch,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Patch {
    /// File to edit (mode "replace").
    #[serde(default)]
    path: Option<String>,
    /// Text to find; it has to be unique unless replace_all is true.
    #[serde(default)]
    old_string: Option<String>,
    /// Text to put in its place; empty to delete.
    #[serde(default)]
    new_string: Option<String>,
    /// Replace every match.
    #[serde(default)]
    replace_all: bool,
    /// "replace" or "patch".
    #[serde(default)]
    mode: Mode,
    /// V4A patch (mode "patch"): "*** Update File: p", "*** Add File: p", "*** Delete File: p", "*** Move File: a -> b"; hunks begin with @@.
    #[serde(default)]
    patch: Option<String>,
}

/// The tool. Edits of one set of tools wait for one another, so that none is lost between reading and writing.
pub(crate) fn tool(guard: Guard, turn: Arc<Mutex<()>>) -> Arc<dyn Tool> {
    let text = "Edits text files. mode=\"replace\" replaces old_string, found exactly or with small differences in whitespace, by new_string. \
        mode=\"patch\" applies a V4A patch to several files, all or nothing. Returns {success, diff, files_modified, files_created, \
        files_deleted}.";
    let guard = Arc::new(guard);
    tool_fn(ToolSpec::new::<Patch>("patch", text).effect(Effect::Write), move |args: Patch, cx| {
        let (guard, turn) = (Arc::clone(&guard), Arc::clone(&turn));
        async move {
            let _turn = turn.lock().await;
            call(&guard, args, &cx).await
        }
    })
}

async fn call(guard: &Guard, args: Patch, cx: &ToolContext) -> Result<Value, ToolError> {
    let answer = match args.mode {
        Mode::Replace => {
            let (path, old, new) = replace_args(args.path, args.old_string, args.new_string)?;
            let workspace = workspace(cx)?;
            replace_in_file(guard, workspace, path, old, new, args.replace_all).await
        }
        Mode::Patch => {
            let required = || ToolError::Arguments("argument 'patch': required for mode \"patch\"".into());
            let patch = args.patch.ok_or_else(required)?;
            let workspace = workspace(cx)?;
            apply_patch(guard, workspace, patch).await
        }
    };
    Ok(answer.unwrap_or_else(failure))
}

fn replace_args(
    path: Option<String>,
    old: Option<String>,
    new: Option<String>,
) -> Result<(String, String, String), ToolError> {
    let need = |name: &str, value: Option<String>| {
        value.ok_or_else(|| ToolError::Arguments(format!("argument '{name}': required for mode \"replace\"")))
    };
    let (path, old, new) = (need("path", path)?, need("old_string", old)?, need("new_string", new)?);
    check_path("path", &path)?;
    no_nul("new_string", &new)?;
    Ok((path, old, new))
}

fn failure(text: String) -> Value {
    let mut answer = Map::new();
    answer.insert("success".into(), false.into());
    answer.insert("error".into(), text.into());
    Value::Object(answer)
}

async fn replace_in_file(
    guard: &Guard,
    workspace: Arc<dyn Workspace>,
    path: String,
    old: String,
    new: String,
    all: bool,
) -> Result<Value, String> {
    replace::check(&old, &new)?;
    let (text, encoding) = match load(guard, &*workspace, &path, true).await {
        Loaded::Text { text, encoding } => (text, encoding),
        Loaded::Missing => return Err(missing(&*workspace, &path).await),
        Loaded::Opaque(reason) | Loaded::Refused(reason) => return Err(reason),
    };
    let shown = plan::shown_path(workspace.root(), &path);
    let worked_out = blocking(move || {
        let view = View::new(&text);
        let (old, new) = (to_lf(&old), to_lf(&new));
        Ok(match replace::replace(&Lines::new(&view.text), &old, &new, all)? {
            Replacement::AlreadyApplied => None,
            Replacement::Edits(edits, strategy) => {
                let edited = view.apply(&edits);
                let diff = diff::unified(diff::FileDiff {
                    old_path: &shown,
                    new_path: &shown,
                    old: Some(&text),
                    new: Some(&edited),
                });
                Some((edited, diff, edits.len(), strategy))
            }
        })
    })
    .await
    .map_err(|problem: String| format!("{path}: {problem}"))?;
    let Some((edited, diff, count, strategy)) = worked_out else {
        return Ok(no_change("The file has new_string already and no longer has old_string."));
    };
    if diff.is_empty() {
        return Ok(no_change("The file has this text already."));
    }
    let change = Change::Write { path: path.clone(), content: encoding.encode(&edited), like: None };
    workspace.apply(vec![change]).await.map_err(|error| explain(Action::Write, &path, &error))?;
    let mut answer = success(&Plan { diff, modified: vec![path], ..Plan::default() });
    answer.insert("replacements".into(), count.into());
    answer.insert("strategy".into(), strategy.name().into());
    Ok(Value::Object(answer))
}

async fn apply_patch(guard: &Guard, workspace: Arc<dyn Workspace>, patch: String) -> Result<Value, String> {
    let operations = v4a::parse(&patch)?;
    let mut files = BTreeMap::new();
    for path in plan::paths(&operations) {
        files.insert(path.to_owned(), load(guard, &*workspace, path, false).await);
    }
    let root = workspace.root().to_owned();
    let planned = blocking(move || Ok(plan(&operations, &files, &root))).await?;
    let plan = planned
        .map_err(|problems| format!("The patch was not applied, nothing was written:\n- {}", problems.join("\n- ")))?;
    if plan.changes.is_empty() {
        return Ok(no_change("The files have these changes already."));
    }
    workspace
        .apply(plan.changes.clone())
        .await
        .map_err(|error| format!("The patch was not applied, nothing was changed: {error}"))?;
    Ok(Value::Object(success(&plan)))
}

fn success(plan: &Plan) -> Map<String, Value> {
    let mut answer = Map::new();
    answer.insert("success".into(), true.into());
    let cut = plan.diff.len() > MAX_DIFF;
    let shown = if cut { &plan.diff[..plan.diff.floor_char_boundary(MAX_DIFF)] } else { plan.diff.as_str() };
    answer.insert("diff".into(), shown.into());
    answer.insert("files_modified".into(), json!(plan.modified));
    answer.insert("files_created".into(), json!(plan.created));
    answer.insert("files_deleted".into(), json!(plan.deleted));
    if cut {
        answer.insert("diff_truncated".into(), true.into());
    }
    answer
}

fn no_change(note: &str) -> Value {
    let mut answer = success(&Plan::default());
    answer.insert("no_change".into(), true.into());
    answer.insert("note".into(), note.into());
    Value::Object(answer)
}

/// Work on large texts must not hold up the runtime.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T, String> + Send + 'static) -> Result<T, String> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|_| Err("the patch broke off".into()))
}

async fn missing(workspace: &dyn Workspace, path: &str) -> String {
    let similar = similar_paths(workspace, path).await;
    match similar.as_slice() {
        [] => format!("File not found: {path}"),
        names => format!("File not found: {path}. Similar names: {}", names.join(", ")),
    }
}

/// The text of a file, or why there is none.
async fn load(guard: &Guard, workspace: &dyn Workspace, path: &str, needs_text: bool) -> Loaded {
    if let Err(reason) = guard_write(guard, workspace, path) {
        return Loaded::Refused(reason);
    }
    let stat = match workspace.stat(path).await {
        Ok(stat) => stat,
        Err(WorkspaceError::NotFound) => return Loaded::Missing,
        Err(error) => return Loaded::Refused(explain(Action::Write, path, &error)),
    };
    if stat.kind != FileKind::File {
        let error = WorkspaceError::WrongKind("it is not a regular file".into());
        return Loaded::Refused(explain(Action::Write, path, &error));
    }
    if let Err(refused) = guard_read(guard, workspace, Action::Read, path) {
        return Loaded::Opaque(refused.to_string());
    }
    if stat.len > MAX_FILE {
        return Loaded::Opaque(format!("Cannot edit '{path}': it has {} bytes, 64 MiB is the most", grouped(stat.len)));
    }
    match read_all(workspace, path).await {
        Ok(bytes) => decode(path, &bytes),
        Err(error) if needs_text => Loaded::Refused(explain(Action::Read, path, &error)),
        Err(error) => Loaded::Opaque(explain(Action::Read, path, &error)),
    }
}

async fn read_all(workspace: &dyn Workspace, path: &str) -> Result<Vec<u8>, WorkspaceError> {
    let mut all = Vec::new();
    loop {
        let piece = workspace.read(path, all.len() as u64, PIECE).await?;
        all.extend_from_slice(&piece);
        if piece.len() < PIECE || all.len() as u64 > MAX_FILE {
            return Ok(all);
        }
    }
}

fn decode(path: &str, bytes: &[u8]) -> Loaded {
    let encoding = Encoding::sniff(bytes);
    let text = if is_binary(bytes) { None } else { encoding.decode(bytes) };
    match text {
        Some(text) => Loaded::Text { text, encoding },
        None => Loaded::Opaque(format!("Cannot edit '{path}': it is not UTF-8 text")),
    }
}
