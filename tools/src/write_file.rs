//! `write_file`: the whole content of a text file, replaced in one step.

use std::sync::Arc;

use gloveport::tool::{Effect, Tool, ToolContext, ToolError, ToolSpec, tool_fn};
use gloveport::workspace::{Change, Workspace, WorkspaceError};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::Mutex;

use crate::answer::{Action, check_path, failed, guard_write, no_nul, workspace};
use crate::guard::Guard;
use crate::text::{Encoding, is_crlf, to_crlf};

/// Bytes of an existing file that tell its line ends and encoding.
const SAMPLE: usize = 64 << 10;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct WriteFile {
    /// File to write, relative to the workspace or absolute. Missing directories are made.
    path: String,
    /// All of its new content.
    content: String,
}

/// The tool. Writes of one set of tools wait for one another, so that no edit is lost between reading and writing.
pub(crate) fn tool(guard: Guard, turn: Arc<Mutex<()>>) -> Arc<dyn Tool> {
    let text =
        "Writes a text file, replacing all of its content. Returns {bytes_written, dirs_created}. Use patch for edits.";
    let guard = Arc::new(guard);
    tool_fn(ToolSpec::new::<WriteFile>("write_file", text).effect(Effect::Write), move |args: WriteFile, cx| {
        let (guard, turn) = (Arc::clone(&guard), Arc::clone(&turn));
        async move {
            let _turn = turn.lock().await;
            call(&guard, args, &cx).await
        }
    })
}

async fn call(guard: &Guard, args: WriteFile, cx: &ToolContext) -> Result<Value, ToolError> {
    check_path("path", &args.path)?;
    no_nul("content", &args.content)?;
    let workspace = workspace(cx)?;
    guard_write(guard, &*workspace, &args.path).map_err(ToolError::Failed)?;
    write(&*workspace, &args).await.map_err(|error| failed(Action::Write, &args.path, &error))
}

async fn write(workspace: &dyn Workspace, args: &WriteFile) -> Result<Value, WorkspaceError> {
    let content = match existing(workspace, &args.path).await? {
        Some((encoding, crlf)) => {
            let text = args.content.strip_prefix('\u{feff}').unwrap_or(&args.content);
            if crlf { encoding.encode(&to_crlf(text)) } else { encoding.encode(text) }
        }
        None => args.content.clone().into(),
    };
    let written = content.len();
    let change = Change::Write { path: args.path.clone(), content, like: None };
    let applied = workspace.apply(vec![change]).await?;
    Ok(json!({ "bytes_written": written, "dirs_created": applied.directories > 0 }))
}

/// How the file that is there is stored. A file whose credentials may not be read is still one that may be written.
async fn existing(workspace: &dyn Workspace, path: &str) -> Result<Option<(Encoding, bool)>, WorkspaceError> {
    let sample = match workspace.read(path, 0, SAMPLE).await {
        Ok(sample) => sample,
        Err(WorkspaceError::NotFound | WorkspaceError::Denied(_)) => return Ok(None),
        Err(other) => return Err(other),
    };
    let encoding = Encoding::sniff(&sample);
    let crlf = match encoding {
        Encoding::Utf8 { .. } => is_crlf(&sample),
        _ => encoding.decode(&sample[..sample.len() & !1]).is_some_and(|text| is_crlf(text.as_bytes())),
    };
    Ok(Some((encoding, crlf)))
}
