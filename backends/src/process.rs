//! Links to child processes of this host.

use std::process::Stdio;

use gloveport::backend::BackendError;
use tokio::process::{Child, Command};

use crate::remote::{Link, StderrTail};

/// Starts a child with piped streams. It gets the environment given and nothing else.
pub(crate) fn spawn(argv: &[String], env: &[(String, String)], label: &str) -> Result<Link, BackendError> {
    let Some((program, args)) = argv.split_first() else {
        return Err(BackendError::internal("an empty command line"));
    };
    let mut command = Command::new(program);
    command.args(args).env_clear().envs(env.iter().map(|(name, value)| (name, value)));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| BackendError::Setup {
        message: format!("'{program}' can't be started for {label}: {error}."),
        source: Some(Box::new(error)),
    })?;
    match (child.stdin.take(), child.stdout.take(), child.stderr.take()) {
        (Some(stdin), Some(stdout), Some(stderr)) => Ok(Link {
            reader: Box::new(stdout),
            writer: Box::new(stdin),
            stderr: StderrTail::follow(stderr),
            guard: Box::new(Reaped(Some(child))),
        }),
        _ => Err(BackendError::internal("a child process without pipes")),
    }
}

/// A child that ends because its input ended. It is waited for, so that no zombie stays, and never killed while it cleans up.
struct Reaped(Option<Child>);

impl Drop for Reaped {
    fn drop(&mut self) {
        let Some(mut child) = self.0.take() else { return };
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                if tokio::time::timeout(LAST_SECONDS, child.wait()).await.is_err() {
                    let _already_gone = child.kill().await;
                }
            });
        }
    }
}

/// How long a child may take to clean up after its input ended.
const LAST_SECONDS: std::time::Duration = std::time::Duration::from_secs(20);
