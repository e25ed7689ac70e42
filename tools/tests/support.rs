//! A workspace in a temporary directory, and calls of its tools.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use gloveport::job::Access;
use gloveport::tool::{Tool, ToolContext, ToolError};
use gloveport_tools::{Guard, HostWorkspace, reading_tools, writing_tools};
use serde_json::{Value, json};

/// A directory with a workspace `ws`, a directory `outside`, and the tools.
pub(crate) struct Bench {
    pub(crate) base: tempfile::TempDir,
    pub(crate) tools: Vec<Arc<dyn Tool>>,
    pub(crate) workspace: HostWorkspace,
}

impl Bench {
    pub(crate) fn new() -> Self {
        Self::with(Access::ReadWrite)
    }

    pub(crate) fn with(access: Access) -> Self {
        let base = tempfile::tempdir().unwrap();
        std::fs::create_dir(base.path().join("ws")).unwrap();
        std::fs::create_dir(base.path().join("outside")).unwrap();
        std::fs::write(base.path().join("outside/secret.txt"), "outside\n").unwrap();
        let workspace = HostWorkspace::builder(base.path().join("ws")).access(access).open().unwrap();
        let guard = Guard::default();
        let tools = reading_tools(&guard).into_iter().chain(writing_tools(&guard)).collect();
        Self { base, tools, workspace }
    }

    pub(crate) fn ws(&self, path: &str) -> PathBuf {
        self.base.path().join("ws").join(path)
    }

    pub(crate) fn outside(&self, path: &str) -> PathBuf {
        self.base.path().join("outside").join(path)
    }

    pub(crate) fn put(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.ws(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    pub(crate) fn get(&self, path: &str) -> String {
        std::fs::read_to_string(self.ws(path)).unwrap()
    }

    pub(crate) fn context(&self) -> ToolContext {
        context(Some(Arc::new(self.workspace.clone())))
    }

    /// The answer as a script gets it.
    pub(crate) async fn call(&self, tool: &str, args: Value) -> Value {
        call(&self.tools, tool, args, &self.context()).await
    }
}

pub(crate) fn context(workspace: Option<Arc<dyn gloveport::workspace::Workspace>>) -> ToolContext {
    ToolContext {
        run_id: "run".into(),
        task_id: "default".into(),
        workspace,
        cancelled: tokio_util::sync::CancellationToken::new(),
        deadline: tokio::time::Instant::now() + Duration::from_secs(300),
    }
}

pub(crate) async fn call(tools: &[Arc<dyn Tool>], name: &str, args: Value, cx: &ToolContext) -> Value {
    let tool = tools.iter().find(|tool| tool.spec().name == name).unwrap();
    let Value::Object(args) = args else { panic!("arguments are an object") };
    match tool.call(args, cx).await {
        Ok(value) => value,
        Err(ToolError::Arguments(text) | ToolError::Failed(text) | ToolError::Denied(text)) => json!({ "error": text }),
        Err(other) => json!({ "error": other.to_string() }),
    }
}

/// Every file below a directory with its content, for "nothing was changed" checks.
pub(crate) fn snapshot(dir: &Path) -> std::collections::BTreeMap<PathBuf, Vec<u8>> {
    let mut all = std::collections::BTreeMap::new();
    let mut todo = vec![dir.to_owned()];
    while let Some(next) = todo.pop() {
        for entry in std::fs::read_dir(next).unwrap() {
            let entry = entry.unwrap();
            match entry.file_type().unwrap() {
                t if t.is_dir() => todo.push(entry.path()),
                t if t.is_file() => _ = all.insert(entry.path(), std::fs::read(entry.path()).unwrap()),
                _ => _ = all.insert(entry.path(), Vec::new()),
            }
        }
    }
    all
}
