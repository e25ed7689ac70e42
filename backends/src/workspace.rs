//! The workspace of a remote environment: the tools act where the script runs.
//!
//! Each operation is one frame to a relay, which resolves paths beneath a directory handle (`guest-python/remote/gp_paths.py`). The
//! guard that protects credentials and start-up files is the host's: a change is first resolved, judged here by the path it would really
//! have, and then done only if it still leads there.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use gloveport::backend::BackendError;
use gloveport::job::Access;
use gloveport::workspace::{Applied, Change, Command, CommandOutput, Entry, FileKind, Stat, Workspace, WorkspaceError};
use serde_json::{Value, json};

use crate::environment::EnvironmentPool;
use crate::files::{FileChannel, Filed};

/// Bytes of a file that one frame carries.
const BLOCK: usize = 8 << 20;
/// Names that belong to this machine and mean nothing on another: the remote has its own.
const MACHINE_NAMES: [&str; 11] =
    ["PATH", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "TMP", "TEMP", "VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONPATH"];

/// What a path is about to be used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// Its content is shown.
    Read,
    /// It is written, removed or renamed.
    Write,
}

/// Judges a path of a workspace, free of links: `Some` is what makes it untouchable, as the rest of "it is a …". The first path is the root.
pub type PathGuard = Arc<dyn Fn(&Path, &Path, Use) -> Option<&'static str> + Send + Sync>;

/// A workspace behind a relay.
pub(crate) struct RemoteWorkspace {
    pool: Arc<EnvironmentPool>,
    task_id: String,
    root: String,
    guard: Option<PathGuard>,
    confines: bool,
}

impl RemoteWorkspace {
    /// Opens the workspace of a task. Without a fixed root it is where the remote's processes start.
    pub(crate) async fn open(
        pool: Arc<EnvironmentPool>,
        task_id: &str,
        root: Option<String>,
        guard: Option<PathGuard>,
        confines: bool,
    ) -> Result<Self, BackendError> {
        let channel = channel(&pool, task_id).await?;
        let hello = channel.hello();
        let root = root
            .or_else(|| hello.cwd.clone())
            .or_else(|| hello.home.clone())
            .ok_or_else(|| BackendError::setup("The remote has no working directory; set `workdir`."))?;
        let workspace = Self { pool, task_id: task_id.to_owned(), root, guard, confines };
        if channel.is_new()
            && let Err(error) = workspace.recover().await
        {
            tracing::debug!(%error, "looking for changes that were left half done failed");
        }
        Ok(workspace)
    }

    /// Finishes or undoes changes whose relay was killed. Anybody who can write there can forge such a journal, so its paths are judged like
    /// those of new changes.
    async fn recover(&self) -> Result<(), WorkspaceError> {
        let (answer, _) = self.ask(json!({"op": "dead"}), Bytes::new()).await?;
        let found = answer["journals"].as_array().ok_or_else(broken)?;
        let harmless = |journal: &&Value| {
            let steps = journal.get(1).and_then(Value::as_array);
            let paths = steps.into_iter().flatten().flat_map(|step| step.as_array().into_iter().flatten());
            let mut paths = paths.map(|path| path.as_str().ok_or_else(broken));
            paths.all(|path| path.and_then(|path| self.judge(path, Use::Write)).is_ok())
        };
        let judged: Vec<&Value> = found.iter().filter(harmless).collect();
        if judged.len() < found.len() {
            tracing::warn!(root = %self.root, "a journal of changes names files that no tool may write; it was left alone");
        }
        if !judged.is_empty() {
            let (answer, _) = self.ask(json!({"op": "recover", "journals": judged}), Bytes::new()).await?;
            tracing::info!(root = %self.root, recovered = %answer["recovered"], "repaired changes that were left half done");
        }
        Ok(())
    }

    async fn ask(&self, wanted: Value, data: Bytes) -> Result<Filed, WorkspaceError> {
        let channel = channel(&self.pool, &self.task_id).await.map_err(|error| WorkspaceError::Io {
            message: "the workspace can't be reached".into(),
            source: Some(Box::new(error)),
        })?;
        let mut wanted = wanted;
        wanted["root"] = json!(self.root);
        let (answer, content) = channel.call(wanted, data).await?;
        match answer.get("family").and_then(Value::as_str) {
            Some(family) => Err(refused(family, answer.get("message").and_then(Value::as_str).unwrap_or_default())),
            None => Ok((answer, content)),
        }
    }

    fn judge(&self, real: &str, purpose: Use) -> Result<(), WorkspaceError> {
        match self.guard.as_ref().and_then(|guard| guard(Path::new(&self.root), Path::new(real), purpose)) {
            Some(what) => Err(WorkspaceError::Denied(format!("it is a {what}"))),
            None => Ok(()),
        }
    }
}

/// The channel of an environment; a new environment if the old one died meanwhile.
async fn channel(pool: &Arc<EnvironmentPool>, task_id: &str) -> Result<FileChannel, BackendError> {
    let lease = pool.lease(task_id).await?;
    match lease.get().files().await {
        Err(_) if !lease.fresh => {
            pool.discard(task_id, lease.get());
            pool.lease(task_id).await?.get().files().await
        }
        other => other,
    }
}

#[async_trait]
impl Workspace for RemoteWorkspace {
    fn root(&self) -> &str {
        &self.root
    }

    fn access(&self) -> Access {
        Access::ReadWrite
    }

    async fn stat(&self, path: &str) -> Result<Stat, WorkspaceError> {
        let (answer, _) = self.ask(json!({"op": "stat", "path": path}), Bytes::new()).await?;
        let modified = answer["modified_ns"].as_u64().map(|ns| UNIX_EPOCH + Duration::from_nanos(ns));
        Ok(Stat {
            kind: kind(&answer["kind"]),
            len: answer["len"].as_u64().unwrap_or(0),
            modified,
            mode: answer["mode"].as_u64().and_then(|mode| u32::try_from(mode).ok()).unwrap_or(0),
        })
    }

    async fn read(&self, path: &str, offset: u64, max: usize) -> Result<Bytes, WorkspaceError> {
        let mut content = BytesMut::new();
        while content.len() < max {
            let wanted = (max - content.len()).min(BLOCK);
            let at = offset.saturating_add(content.len() as u64);
            let (answer, block) =
                self.ask(json!({"op": "read", "path": path, "offset": at, "max": wanted}), Bytes::new()).await?;
            self.judge(answer["real"].as_str().unwrap_or(path), Use::Read)?;
            if block.len() > wanted {
                return Err(broken());
            }
            if content.is_empty() && (block.len() < wanted || wanted == max) {
                return Ok(block);
            }
            content.extend_from_slice(&block);
            if block.len() < wanted {
                break;
            }
        }
        Ok(content.freeze())
    }

    async fn list(&self, path: &str, max: usize) -> Result<Vec<Entry>, WorkspaceError> {
        let (answer, _) = self.ask(json!({"op": "list", "path": path, "max": max}), Bytes::new()).await?;
        let rows = answer["entries"].as_array().ok_or_else(broken)?;
        let mut entries: Vec<Entry> = rows
            .iter()
            .filter_map(|row| Some(Entry { name: row.get(0)?.as_str()?.to_owned(), kind: kind(row.get(1)?) }))
            .take(max)
            .collect();
        entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }

    async fn apply(&self, changes: Vec<Change>) -> Result<Applied, WorkspaceError> {
        let described: Vec<Value> = changes.iter().map(describe).collect();
        let (answer, _) = self.ask(json!({"op": "resolve", "changes": described}), Bytes::new()).await?;
        let real = answer["real"].as_array().filter(|real| real.len() == changes.len()).ok_or_else(broken)?;
        for path in real.iter().flat_map(|paths| paths.as_array().into_iter().flatten()) {
            self.judge(path.as_str().ok_or_else(broken)?, Use::Write)?;
        }
        let mut data = BytesMut::new();
        for change in &changes {
            if let Change::Write { content, .. } = change {
                data.extend_from_slice(content);
            }
        }
        let (answer, _) = self.ask(json!({"op": "apply", "changes": described, "real": real}), data.freeze()).await?;
        let directories = answer["directories"].as_u64().and_then(|n| u32::try_from(n).ok()).unwrap_or(0);
        Ok(Applied { directories })
    }

    async fn run(&self, command: Command) -> Result<CommandOutput, WorkspaceError> {
        if command.confined && !self.confines {
            return Err(WorkspaceError::Denied("this workspace can't confine commands".into()));
        }
        let env: serde_json::Map<_, _> = command
            .env
            .into_iter()
            .filter(|(name, _)| !MACHINE_NAMES.contains(&name.as_str()))
            .map(|(name, value)| (name, json!(value)))
            .collect();
        let wanted = json!({
            "op": "run", "command": command.command, "workdir": command.workdir, "env": env,
            "timeout": command.timeout.as_secs_f64(), "keep": [command.keep.0, command.keep.1],
        });
        let (answer, mut content) = self.ask(wanted, Bytes::new()).await?;
        let head = answer["head"]
            .as_u64()
            .and_then(|n| usize::try_from(n).ok())
            .filter(|n| *n <= content.len())
            .ok_or_else(broken)?;
        Ok(CommandOutput {
            head: content.split_to(head),
            tail: content,
            total: answer["total"].as_u64().unwrap_or(0),
            exit_code: answer["exit_code"].as_i64().and_then(|code| i32::try_from(code).ok()),
        })
    }
}

fn describe(change: &Change) -> Value {
    match change {
        Change::Write { path, content, like } => {
            json!({"kind": "write", "path": path, "len": content.len(), "like": like})
        }
        Change::Rename { from, to } => json!({"kind": "rename", "from": from, "to": to}),
        Change::Remove { path } => json!({"kind": "remove", "path": path}),
    }
}

fn kind(name: &Value) -> FileKind {
    match name.as_str() {
        Some("file") => FileKind::File,
        Some("directory") => FileKind::Directory,
        Some("symlink") => FileKind::Symlink,
        _ => FileKind::Special,
    }
}

fn refused(family: &str, message: &str) -> WorkspaceError {
    let message = message.to_owned();
    match family {
        "outside" => WorkspaceError::Outside,
        "not_found" => WorkspaceError::NotFound,
        "denied" => WorkspaceError::Denied(message),
        "kind" => WorkspaceError::WrongKind(message),
        _ => WorkspaceError::Io { message, source: None },
    }
}

fn broken() -> WorkspaceError {
    WorkspaceError::Io { message: "the workspace gave a broken answer".into(), source: None }
}
