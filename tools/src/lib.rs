//! The tools that a Gloveport script calls, over the granted directory of this machine or a remote workspace.
//!
//! Each tool is a module: the type of its arguments (its schema and its text for the model), what it decides as pure functions, and thin I/O through
//! [`gloveport::workspace::Workspace`]. [`guard`] says which paths are refused inside a workspace, [`host`] is the workspace on this machine.
#![deny(missing_docs)]

mod answer;
mod custom;
pub mod guard;
pub mod host;
mod patch;
mod process;
mod read_file;
mod search_files;
mod terminal;
mod text;
#[cfg(feature = "web")]
pub mod web;
mod write_file;

use std::sync::Arc;

use gloveport::tool::Tool;

pub use custom::CustomToolError;
pub use guard::Guard;
pub use host::{HostWorkspace, HostWorkspaceOptions};
#[cfg(feature = "web")]
pub use web::{WebError, WebTools};

/// `read_file` and `search_files`: they change nothing.
pub fn reading_tools(guard: &Guard) -> Vec<Arc<dyn Tool>> {
    vec![read_file::tool(guard.clone()), search_files::tool(guard.clone())]
}

/// `write_file` and `patch`: they change files of a read-write workspace.
pub fn writing_tools(guard: &Guard) -> Vec<Arc<dyn Tool>> {
    let turn = Arc::new(tokio::sync::Mutex::new(()));
    vec![write_file::tool(guard.clone(), Arc::clone(&turn)), patch::tool(guard.clone(), turn)]
}

/// `terminal`. `mode` says what happens to commands that would run on this machine; a remote workspace runs them where it is. `env` is their whole
/// environment: the scrubbed one of scripts, with names that mean something to programs of the machine (`PATH`, `HOME`, `LANG`).
pub fn terminal_tool(mode: gloveport::config::Terminal, env: Vec<(String, String)>) -> Arc<dyn Tool> {
    terminal::Terminal::tool(mode, env)
}

/// The tools of `[[tool]]`. `env` is the whole environment of their commands, `directory` where they run.
///
/// # Errors
/// A tool's configuration is not usable; the error names it.
pub fn custom_tools(
    configured: &[gloveport::config::CustomTool],
    env: Vec<(String, String)>,
    directory: impl Into<std::path::PathBuf>,
) -> Result<Vec<Arc<dyn Tool>>, CustomToolError> {
    let (env, directory) = (Arc::from(env), directory.into());
    configured.iter().map(|tool| custom::Custom::tool(tool, Arc::clone(&env), directory.clone())).collect()
}
