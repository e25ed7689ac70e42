//! stub
use gloveport::workspace::{Command, CommandOutput, WorkspaceError};
pub(crate) async fn run(_: &super::Inner, _: Command) -> Result<CommandOutput, WorkspaceError> { Err(WorkspaceError::NotFound) }
