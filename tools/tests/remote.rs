//! The tools over a workspace that is not on this machine: the same answers through its operations alone.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use gloveport::job::Access;
use gloveport::workspace::{Applied, Change, Command, CommandOutput, Entry, Stat, Workspace, WorkspaceError};
use gloveport_tools::HostWorkspace;
use serde_json::json;

use crate::support::{Bench, call, context};

/// A workspace that hides that it is here.
struct Remote(HostWorkspace);

#[async_trait]
impl Workspace for Remote {
    fn root(&self) -> &str {
        self.0.root()
    }
    fn access(&self) -> Access {
        self.0.access()
    }
    async fn stat(&self, path: &str) -> Result<Stat, WorkspaceError> {
        self.0.stat(path).await
    }
    async fn read(&self, path: &str, offset: u64, max: usize) -> Result<Bytes, WorkspaceError> {
        self.0.read(path, offset, max).await
    }
    async fn list(&self, path: &str, max: usize) -> Result<Vec<Entry>, WorkspaceError> {
        self.0.list(path, max).await
    }
    async fn apply(&self, changes: Vec<Change>) -> Result<Applied, WorkspaceError> {
        self.0.apply(changes).await
    }
    async fn run(&self, command: Command) -> Result<CommandOutput, WorkspaceError> {
        self.0.run(command).await
    }
}

#[tokio::test]
async fn searches_are_the_same_as_on_this_machine() {
    let bench = Bench::new();
    bench.put("a.rs", "fn one() {}\nlet x = 1;\nfn two() {}\n");
    bench.put("b/c.rs", "fn three() {}\n");
    bench.put("b/d/e.txt", "fn four\n");
    bench.put("b/.gitignore", "*.log\n!keep.log\n/d/only\n");
    bench.put("b/x.log", "fn ignored\n");
    bench.put("b/d/keep.log", "fn kept\n");
    bench.put("b/d/only", "fn ignored\n");
    bench.put(".hidden/x", "fn hidden\n");
    bench.put("target/x.rs", "fn built\n");
    bench.put(".gitignore", "target/\n");
    bench.put("bin", b"fn bin\0\n");
    bench.put("credentials.json", "fn secret\n");
    std::os::unix::fs::symlink(bench.outside(""), bench.ws("out")).unwrap();
    std::os::unix::fs::symlink("a.rs", bench.ws("in")).unwrap();
    let remote = context(Some(Arc::new(Remote(bench.workspace.clone()))));
    for args in [
        json!({ "pattern": "fn " }),
        json!({ "pattern": "fn ", "limit": 2 }),
        json!({ "pattern": "fn ", "limit": 2, "offset": 2 }),
        json!({ "pattern": "let", "context": 1 }),
        json!({ "pattern": "fn ", "output_mode": "files_only" }),
        json!({ "pattern": "fn ", "output_mode": "count", "path": "b" }),
        json!({ "pattern": "fn ", "path": "b/d" }),
        json!({ "pattern": "fn ", "path": "./b/" }),
        json!({ "pattern": "fn ", "path": bench.ws("b") }),
        json!({ "pattern": "fn ", "path": "target" }),
        json!({ "pattern": "fn ", "path": "a.rs" }),
        json!({ "pattern": "fn ", "file_glob": "*.rs" }),
        json!({ "pattern": "fn ", "file_glob": "b/**" }),
        json!({ "pattern": "x", "path": "nope" }),
        json!({ "pattern": "x", "path": "out" }),
        json!({ "pattern": "x", "path": "../outside" }),
        json!({ "pattern": "*.rs", "target": "files" }),
        json!({ "pattern": "e", "target": "files", "path": "b", "limit": 1 }),
    ] {
        let here = bench.call("search_files", args.clone()).await;
        let there = call(&bench.tools, "search_files", args.clone(), &remote).await;
        assert_eq!(there, here, "{args}");
    }
}

#[tokio::test]
async fn files_are_read_written_and_edited_through_operations() {
    let bench = Bench::new();
    let remote = context(Some(Arc::new(Remote(bench.workspace.clone()))));
    let on = async |tool: &str, args| call(&bench.tools, tool, args, &remote).await;
    assert_eq!(
        on("write_file", json!({ "path": "a/b", "content": "x\n" })).await,
        json!({ "bytes_written": 2, "dirs_created": true })
    );
    assert_eq!(on("patch", json!({ "path": "a/b", "old_string": "x", "new_string": "y" })).await["success"], true);
    assert_eq!(on("read_file", json!({ "path": "a/b" })).await["content"], "y\n");
    let env = vec![("PATH".to_owned(), "/usr/bin:/bin".to_owned())];
    let terminal = [gloveport_tools::terminal_tool(gloveport::config::Terminal::Off, env)];
    let ran = call(&terminal, "terminal", json!({ "command": "cat a/b" }), &remote).await;
    assert_eq!(
        ran,
        json!({ "output": "y\n", "exit_code": 0, "error": null, "ran": "workspace" }),
        "a remote terminal is not the host's"
    );
}
