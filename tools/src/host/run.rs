//! Runs a command of the shell in the workspace, confined or not.

use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::Arc;

use cap_std::fs::Dir;
use gloveport::workspace::{Command, CommandOutput, WorkspaceError};

use super::Inner;
use super::open::{handle_path, refusal};
use crate::process::{self, Running, Start, broken, stream};

/// Runs the command. Dropping the future kills it.
pub(crate) async fn run(host: &Arc<Inner>, command: Command) -> Result<CommandOutput, WorkspaceError> {
    let host = Arc::clone(host);
    let timeout = command.timeout;
    let ended = process::run(move || start(&host, &command), timeout).await?;
    let (head, tail, total) = ended.outputs.into_iter().next().unwrap_or_default().into_parts();
    Ok(CommandOutput { head, tail, total, exit_code: ended.code })
}

fn start(host: &Inner, command: &Command) -> Result<Running, WorkspaceError> {
    let directory = host.at(command.workdir.as_deref().unwrap_or("."), |path| host.dir.open_dir(path))?;
    // One pipe for both streams keeps their order.
    let (output, stdout) = stream(command.keep)?;
    let stderr = stdout.try_clone().map_err(|e| refusal(&e))?;
    let scratch = command.confined.then(tempfile::tempdir).transpose().map_err(|e| refusal(&e))?;
    let private = scratch.as_ref().map(|scratch| scratch.path().to_owned());
    let shell = shell(command, &directory, private.as_deref());
    let start = Start { command: shell, stdin: Stdio::null(), stdout, stderr, streams: vec![output], scratch };
    start.spawn(|mut shell| match private {
        Some(private) => spawn_confined(host, shell, &private),
        None => shell.spawn().map_err(|e| refusal(&e)),
    })
}

/// The shell with an environment that holds what the caller gave and nothing else.
#[expect(clippy::disallowed_methods, reason = "this file owns the commands of scripts")]
fn shell(command: &Command, directory: &Dir, private: Option<&Path>) -> std::process::Command {
    let mut shell = std::process::Command::new("/bin/sh");
    shell.arg("-c").arg(&command.command).env_clear();
    shell.envs(command.env.iter().map(|(name, value)| (name, value)));
    if let Some(private) = private {
        shell.env("TMPDIR", private);
    }
    shell.current_dir(directory_path(directory));
    shell
}

/// The handle, not a path: the directory may have been moved meanwhile. The command finds its own name for it.
fn directory_path(directory: &Dir) -> PathBuf {
    let by_handle = PathBuf::from(format!("/proc/self/fd/{}", directory.as_fd().as_raw_fd()));
    if handle_path(directory).is_some() { by_handle } else { PathBuf::from(".") }
}

/// Starts on a thread that is confined first; the child inherits it, and the thread ends.
#[cfg(target_os = "linux")]
fn spawn_confined(host: &Inner, mut shell: std::process::Command, scratch: &Path) -> Result<Child, WorkspaceError> {
    use super::confine::{Reach, confine_thread};
    let started = std::thread::scope(|scope| {
        let confined = scope.spawn(|| {
            let reach = Reach { root: host.dir.as_fd(), access: host.access, readable: &host.readable, scratch };
            confine_thread(&reach).map_err(WorkspaceError::Denied)?;
            shell.spawn().map_err(|e| refusal(&e))
        });
        confined.join()
    });
    started.unwrap_or_else(|_| Err(broken("the command could not be confined")))
}

/// Only Linux has Landlock.
#[cfg(not(target_os = "linux"))]
fn spawn_confined(_: &Inner, _: std::process::Command, _: &Path) -> Result<Child, WorkspaceError> {
    Err(WorkspaceError::Denied("commands can be confined on Linux only".into()))
}
