//! `search_files`: lines that match in files, or files by name, with the crates of ripgrep.
//!
//! A workspace on this machine is walked and searched by threads beneath its handle ([`local`]); a remote one through its list and read
//! operations ([`remote`]). Both feed the same [`page::Page`], which takes hits in the order of paths and stops the search when it is full.

mod ignored;
mod lines;
mod local;
mod page;
mod query;
mod remote;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use gloveport::tool::{Effect, Tool, ToolContext, ToolError, ToolSpec, tool_fn};
use gloveport::workspace::{FileKind, Workspace, WorkspaceError};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::answer::{Action, check_path, failed, guard_read, no_nul, workspace};
use crate::guard::Guard;
use query::Query;
use remote::Remote;

/// Time for one search; what was found until then is the answer.
const MAX_TIME: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Target {
    /// Search the lines of files.
    #[default]
    Content,
    /// Search the names of files.
    Files,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum OutputMode {
    /// The lines that match.
    #[default]
    Content,
    /// Only the paths of files with a match.
    FilesOnly,
    /// The number of matching lines of each file.
    Count,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SearchFiles {
    /// Regular expression for content; for target="files" a glob, or a part of the name.
    pattern: String,
    /// "content" searches lines, "files" searches names.
    #[serde(default)]
    target: Target,
    /// Directory or file to search.
    #[serde(default = "here")]
    path: String,
    /// Only files whose name (or path, if it holds a slash) matches this glob.
    #[serde(default)]
    file_glob: Option<String>,
    /// Most results to return, 10000 at most.
    #[serde(default = "default_limit")]
    limit: u64,
    /// Results to skip.
    #[serde(default)]
    offset: u64,
    /// What to return for target="content".
    #[serde(default)]
    output_mode: OutputMode,
    /// Lines to show before and after each match.
    #[serde(default)]
    context: u64,
}

fn here() -> String {
    ".".into()
}

fn default_limit() -> u64 {
    50
}

/// The tool.
pub(crate) fn tool(guard: Guard) -> Arc<dyn Tool> {
    let text = "Searches file contents by regular expression, or file names by glob. Hidden, ignored and binary files are skipped. Returns \
        {total_count, matches: [{path, line, content}], truncated}; with output_mode='files_only' a list of paths as files, with 'count' an object of \
        numbers as counts. Go on with offset=next_offset.";
    let guard = Arc::new(guard);
    tool_fn(ToolSpec::new::<SearchFiles>("search_files", text).effect(Effect::Read), move |args: SearchFiles, cx| {
        let guard = Arc::clone(&guard);
        async move { call(guard, args, &cx).await }
    })
}

async fn call(guard: Arc<Guard>, args: SearchFiles, cx: &ToolContext) -> Result<Value, ToolError> {
    check_path("path", &args.path)?;
    no_nul("pattern", &args.pattern)?;
    let workspace = workspace(cx)?;
    guard_read(&guard, &*workspace, Action::Search, &args.path)?;
    let query = Query::new(&args)?;
    let stop = Stop::new(cx);
    let _stop_on_drop = StopOnDrop(stop.clone());
    let path = args.path.clone();
    let task = tokio::task::spawn_blocking(move || search(&*workspace, &guard, &query, &path, &stop));
    let found =
        task.await.unwrap_or_else(|_| Err(WorkspaceError::Io { message: "the search broke off".into(), source: None }));
    found.map_err(|error| failed(Action::Search, &args.path, &error))
}

/// Runs on a blocking thread; a remote workspace is asked through the runtime.
fn search(
    workspace: &dyn Workspace,
    guard: &Guard,
    query: &Query,
    path: &str,
    stop: &Stop,
) -> Result<Value, WorkspaceError> {
    let remote = Remote::new(workspace);
    let mut page = match (remote.stat(path)?.kind, workspace.open_host_dir(".")) {
        (FileKind::Directory, Some(_)) => local::search(workspace, guard, query, path, stop)?,
        (FileKind::Directory, None) => remote.search(guard, query, path, stop)?,
        (FileKind::File, _) => remote.search_file(query, path, stop)?,
        _ => return Err(WorkspaceError::WrongKind("it is neither a file nor a directory".into())),
    };
    if stop.is_late() && !page.is_full() {
        page.limit_reason = Some("time");
    }
    Ok(page.render())
}

/// What stands before each path in an answer, so that it can be given to another tool.
fn prefix(path: &str) -> String {
    match path.trim_end_matches('/') {
        "." => String::new(),
        "" => "/".into(),
        other => format!("{}/", other.strip_prefix("./").unwrap_or(other)),
    }
}

/// Tells the threads of a search to end: the run is over, the time is, the page is full, or nobody waits for the answer any more.
#[derive(Debug, Clone)]
struct Stop {
    flag: Arc<AtomicBool>,
    run: tokio_util::sync::CancellationToken,
    until: Instant,
}

impl Stop {
    fn new(cx: &ToolContext) -> Self {
        let until = cx.deadline.into_std().min(Instant::now() + MAX_TIME);
        Self { flag: Arc::default(), run: cx.cancelled.clone(), until }
    }

    fn set(&self) {
        self.flag.store(true, Ordering::Relaxed);
    }

    fn is_set(&self) -> bool {
        self.flag.load(Ordering::Relaxed) || self.run.is_cancelled()
    }

    fn is_late(&self) -> bool {
        Instant::now() >= self.until
    }
}

/// Stops the threads when the future that waits for them is dropped.
struct StopOnDrop(Stop);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.set();
    }
}
