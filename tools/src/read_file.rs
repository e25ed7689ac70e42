//! `read_file`: lines of a text file, as the file has them.

mod window;

use std::sync::Arc;
use std::time::{Duration, Instant};

use gloveport::tool::{Effect, Tool, ToolContext, ToolError, ToolSpec, tool_fn};
use gloveport::workspace::{FileKind, Workspace, WorkspaceError};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::answer::{Action, check_path, error_with, failed, guard_read, not_found, workspace};
use crate::guard::Guard;
use crate::text::{Encoding, SNIFF, binary_type, grouped, is_binary};
use window::{Window, WindowLimits};

/// Lines in one answer.
const MAX_LINES: u64 = 2_000;
/// Characters of a line; the rest is cut and marked.
const MAX_LINE_CHARS: usize = 2_000;
/// Characters in one answer; more is an error, because a script can ask for fewer lines.
const MAX_CHARS: usize = 100_000;
/// Bytes of the first read; most files end in it.
const FIRST_READ: usize = 256 << 10;
/// Bytes of each further read.
const NEXT_READ: usize = 8 << 20;
/// Time for counting the lines after those that were asked for. A file that takes longer gets a lower bound.
const COUNT_TIME: Duration = Duration::from_millis(500);
/// Time for reaching the lines that were asked for.
const SEEK_TIME: Duration = Duration::from_secs(10);
/// Bytes of a UTF-16 file, which is decoded as a whole.
const MAX_UTF16: u64 = 32 << 20;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ReadFile {
    /// File to read, relative to the workspace or absolute.
    path: String,
    /// First line to return, counted from 1.
    #[serde(default = "first_line")]
    offset: u64,
    /// Lines to return, 2000 at most.
    #[serde(default = "default_limit")]
    limit: u64,
}

fn first_line() -> u64 {
    1
}

fn default_limit() -> u64 {
    500
}

/// The tool.
pub(crate) fn tool(guard: Guard) -> Arc<dyn Tool> {
    let text = "Reads lines of a text file. Returns {content, total_lines, file_size, truncated}; content is the file's own text without line \
        numbers. Lines over 2000 characters are cut. Read on with offset when truncated is true.";
    let guard = Arc::new(guard);
    tool_fn(ToolSpec::new::<ReadFile>("read_file", text).effect(Effect::Read), move |args: ReadFile, cx| {
        let guard = Arc::clone(&guard);
        async move { call(&guard, args, &cx).await }
    })
}

async fn call(guard: &Guard, args: ReadFile, cx: &ToolContext) -> Result<Value, ToolError> {
    check_path("path", &args.path)?;
    let workspace = workspace(cx)?;
    guard_read(guard, &*workspace, Action::Read, &args.path)?;
    match read(&*workspace, &args).await {
        Err(WorkspaceError::NotFound) => Ok(not_found(&*workspace, &args.path).await),
        other => other.map_err(|error| failed(Action::Read, &args.path, &error)),
    }
}

async fn read(workspace: &dyn Workspace, args: &ReadFile) -> Result<Value, WorkspaceError> {
    let path = &args.path;
    let stat = workspace.stat(path).await?;
    if stat.kind == FileKind::Directory {
        let text =
            "it is a directory, not a regular file. List it with search_files(\"*\", target=\"files\", path=...)";
        return Err(WorkspaceError::WrongKind(text.into()));
    }
    let start = workspace.read(path, 0, FIRST_READ).await?;
    if is_binary(&start) {
        return Ok(binary(path, stat.len, binary_type(&start)));
    }
    let encoding = Encoding::sniff(&start);
    let offset = args.offset.max(1);
    let limit = args.limit.clamp(1, MAX_LINES);
    let mut window = Window::new(offset, limit, WindowLimits { line: MAX_LINE_CHARS, total: MAX_CHARS });
    match encoding {
        Encoding::Utf8 { .. } => stream(workspace, path, &start, encoding.mark_len(), &mut window).await?,
        _ => match utf16(workspace, path, stat.len, encoding).await? {
            Ok(text) => window.push(text.as_bytes()),
            Err(kind) => return Ok(binary(path, stat.len, kind)),
        },
    }
    Ok(render(path, stat.len, limit, window))
}

/// Feeds the file to the window piece by piece, until its end or until the time is over.
async fn stream(
    workspace: &dyn Workspace,
    path: &str,
    start: &[u8],
    skip: usize,
    window: &mut Window,
) -> Result<(), WorkspaceError> {
    window.push(&start[skip.min(start.len())..]);
    let mut at = start.len() as u64;
    let mut last = start.len() < FIRST_READ;
    let began = Instant::now();
    while !last {
        let budget = if window.is_complete() { COUNT_TIME } else { SEEK_TIME };
        if began.elapsed() > budget {
            window.stop("the file is too large to be read to its end in time");
            return Ok(());
        }
        let piece = workspace.read(path, at, NEXT_READ).await?;
        at += piece.len() as u64;
        last = piece.len() < NEXT_READ;
        if !window.is_complete()
            && let Some(nul) = memchr::memchr(0, &piece)
        {
            window.push(&piece[..nul]);
            window.stop("binary data follows");
            return Ok(());
        }
        window.push(&piece);
    }
    Ok(())
}

/// The text of a UTF-16 file, or what else it is.
async fn utf16(
    workspace: &dyn Workspace,
    path: &str,
    len: u64,
    encoding: Encoding,
) -> Result<Result<String, &'static str>, WorkspaceError> {
    if len > MAX_UTF16 {
        return Ok(Err("UTF-16 text over 32 MiB"));
    }
    let max = usize::try_from(MAX_UTF16).unwrap_or(usize::MAX);
    let bytes = workspace.read(path, 0, max).await?;
    Ok(encoding.decode(&bytes).ok_or("binary data"))
}

fn binary(path: &str, len: u64, kind: &str) -> Value {
    let text = format!("Cannot read '{path}': it is a binary file ({kind}, {} bytes)", grouped(len));
    // A script that looks at `truncated` alone must not take this for a whole file.
    error_with(text, json!({ "path": path, "file_size": len, "truncated": len > SNIFF as u64 }))
}

fn render(path: &str, len: u64, limit: u64, window: Window) -> Value {
    let seen = window.finish();
    if seen.overflowed {
        let text = format!(
            "Cannot read '{path}': the requested lines hold more than {} characters (the file has {} lines and {} bytes). \
             Use a smaller limit.",
            grouped(MAX_CHARS as u64),
            grouped(seen.total_lines),
            grouped(len)
        );
        return error_with(text, json!({ "path": path, "total_lines": seen.total_lines, "file_size": len }));
    }
    let more = seen.next_line.is_some();
    let hints = hints(limit, more, &seen);
    let mut answer = Map::new();
    answer.insert("content".into(), seen.content.into());
    answer.insert("total_lines".into(), seen.total_lines.into());
    answer.insert("file_size".into(), len.into());
    answer.insert("truncated".into(), (more || seen.cut_lines > 0 || seen.stopped.is_some()).into());
    if seen.stopped.is_some() {
        answer.insert("total_lines_is_lower_bound".into(), true.into());
    }
    if !hints.is_empty() {
        answer.insert("hint".into(), hints.join(" ").into());
    }
    Value::Object(answer)
}

fn hints(limit: u64, more: bool, seen: &window::Seen) -> Vec<String> {
    let mut hints = Vec::new();
    if more && seen.shown > 0 {
        let (first, last) = (seen.first_line, seen.first_line + seen.shown - 1);
        hints.push(format!(
            "Showing lines {first}-{last} of {}. Use offset={} to read on (limit is {limit}, {MAX_LINES} at most).",
            seen.total_lines,
            last + 1
        ));
    }
    if seen.shown == 0 && seen.first_line > 1 && seen.stopped.is_none() {
        hints.push(format!("offset {} is past the last line ({}).", seen.first_line, seen.total_lines));
    }
    if seen.cut_lines > 0 {
        let cut = seen.cut_lines;
        hints.push(format!("{cut} line(s) longer than {MAX_LINE_CHARS} characters were cut."));
    }
    if seen.invalid {
        hints.push("Bytes that are not UTF-8 are shown as U+FFFD.".into());
    }
    if let Some(reason) = seen.stopped {
        hints.push(format!("Reading stopped early: {reason}."));
    }
    hints
}
