//! Scripts on another host or account, through the system's `ssh`: its keys, agent, `known_hosts` and jump hosts keep working.
//!
//! One connection carries at most eight channels, because servers accept ten (`MaxSessions`); when more are wanted, further connections are
//! made, one after the other. What runs there is isolated as far as the account is, and no further.

mod master;
mod target;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use gloveport::backend::{BackendError, Capabilities, Isolation};
pub use gloveport::config::SshConfig as SshOptions;
use openssh::Stdio;
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore};

use crate::backend::{RemoteBackend, Workdir};
use crate::bundle::RelayOptions;
use crate::command::shell_words;
use crate::environment::{EnvironmentPool, PoolLimits, Provider};
use crate::relay::SILENCE;
use crate::remote::{Link, Remote, StderrTail};
use master::{CHANNELS, Master};
pub use target::Target;

/// Tries to open a channel, over the same or a new connection.
const TRIES: u32 = 4;

/// What an account on another host enforces: nothing of ours but time.
const CAPABILITIES: Capabilities = Capabilities {
    isolation: Isolation::Account,
    memory: false,
    disk: false,
    processes: false,
    network_denied: false,
    files_confined: false,
    needs_approval: true,
};

/// Makes the backend. Nothing is connected before the first run.
pub fn backend(options: &SshOptions) -> Result<RemoteBackend, BackendError> {
    let target = Target::parse(&options.host, options.port).map_err(BackendError::setup)?;
    let relay = RelayOptions { place: options.place.clone(), lease: SILENCE, max_frame: crate::MAX_FRAME, poll: false };
    let limits = PoolLimits { idle: Duration::from_secs(options.idle_minutes.max(1) * 60), ..PoolLimits::default() };
    let provider = Arc::new(Ssh { target, options: options.clone() });
    let pool = EnvironmentPool::new(provider, options.python.clone(), relay, limits);
    Ok(RemoteBackend::new("ssh", CAPABILITIES, pool, Workdir::OnRemote(options.workdir.clone())))
}

struct Ssh {
    target: Target,
    options: SshOptions,
}

#[async_trait]
impl Provider for Ssh {
    async fn create(&self, _task_id: &str) -> Result<Arc<dyn Remote>, BackendError> {
        let remote = Account {
            target: self.target.clone(),
            options: self.options.clone(),
            masters: Mutex::new(Vec::new()),
            channels: Arc::new(Semaphore::new(self.options.connections.max(1) * CHANNELS)),
        };
        // Connecting now gives the user its error as the environment's, before anything else is tried.
        let _first = remote.master(&mut *remote.masters.lock().await).await?;
        Ok(Arc::new(remote))
    }
}

/// One account with its connections.
struct Account {
    target: Target,
    options: SshOptions,
    masters: Mutex<Vec<Arc<Master>>>,
    channels: Arc<Semaphore>,
}

/// What a channel holds as long as it lives.
struct Held {
    _channel: OwnedSemaphorePermit,
    _of_master: OwnedSemaphorePermit,
    _child: openssh::Child<Arc<openssh::Session>>,
}

impl Account {
    /// A connection with a free channel; a new one if there is none. The list stays locked meanwhile, so that connections are made one by one:
    /// servers refuse many fresh ones at once (`MaxStartups`).
    async fn master(
        &self,
        masters: &mut Vec<Arc<Master>>,
    ) -> Result<(Arc<Master>, OwnedSemaphorePermit), BackendError> {
        masters.retain(|master| !master.is_broken());
        for master in masters.iter() {
            if let Some(permit) = master.try_channel() {
                return Ok((Arc::clone(master), permit));
            }
        }
        let master = Arc::new(Master::connect(&self.target, &self.options).await?);
        let permit = master.try_channel().ok_or_else(|| BackendError::internal("a new connection without channels"))?;
        masters.push(Arc::clone(&master));
        Ok((master, permit))
    }

    async fn try_open(
        &self,
        line: &str,
        channel: OwnedSemaphorePermit,
    ) -> Result<Link, (OwnedSemaphorePermit, BackendError)> {
        let found = self.master(&mut *self.masters.lock().await).await;
        let (master, of_master) = match found {
            Ok(found) => found,
            Err(error) => return Err((channel, error)),
        };
        let mut command = master.session().arc_raw_command(line);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = match command.spawn().await {
            Ok(child) => child,
            Err(error) => {
                master.mark_broken();
                let message = format!("No channel could be opened to {}: {error}.", self.target);
                return Err((channel, BackendError::Setup { message, source: Some(Box::new(error)) }));
            }
        };
        match (child.stdin().take(), child.stdout().take(), child.stderr().take()) {
            (Some(stdin), Some(stdout), Some(stderr)) => Ok(Link {
                reader: Box::new(stdout),
                writer: Box::new(stdin),
                stderr: StderrTail::follow(stderr),
                guard: Box::new(Held { _channel: channel, _of_master: of_master, _child: child }),
            }),
            _ => Err((channel, BackendError::internal("an ssh channel without pipes"))),
        }
    }
}

#[async_trait]
impl Remote for Account {
    fn label(&self) -> String {
        self.target.to_string()
    }

    async fn open(&self, argv: &[String]) -> Result<Link, BackendError> {
        let line = shell_words(argv);
        let closed = || BackendError::internal("the connections are closed");
        let mut channel = Arc::clone(&self.channels).acquire_owned().await.map_err(|_| closed())?;
        let mut pause = Duration::from_millis(50);
        for _ in 1..TRIES {
            match self.try_open(&line, channel).await {
                Ok(link) => return Ok(link),
                Err((returned, error)) => {
                    tracing::debug!(%error, "an ssh channel was refused");
                    channel = returned;
                }
            }
            // Different waits for different runs, so that they do not come back all at once.
            let [jitter] = crate::random::bytes::<1>()?;
            tokio::time::sleep(pause + Duration::from_millis(jitter.into())).await;
            pause *= 2;
        }
        self.try_open(&line, channel).await.map_err(|(_, error)| error)
    }

    async fn close(&self) {
        self.masters.lock().await.clear();
    }
}
