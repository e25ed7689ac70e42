//! A running relay and the channel to it: frames out, frames in, signs of life both ways.

mod channel;
mod handshake;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use gloveport::backend::BackendError;
use serde::Deserialize;
use tokio::sync::mpsc;

use crate::bundle::RelayOptions;
use crate::frame::{BASE_MAX_FRAME, Frame, Outgoing, ToRelay, encode};
use crate::remote::{Remote, StderrTail};

/// How often this host gives a sign of life.
pub(crate) const HEARTBEAT: Duration = Duration::from_secs(2);
/// Silence after which the other side is taken for dead. The relay ends itself after the same time.
pub(crate) const SILENCE: Duration = Duration::from_secs(10);
/// Frames that wait for whoever drives the run.
const INCOMING: usize = 64;
/// Frames that wait for the link.
const OUTGOING: usize = 64;

/// What a relay found on its machine.
#[derive(Debug, Clone, Deserialize)]
pub struct Hello {
    /// Version of Python.
    pub python: String,
    /// Its path.
    pub executable: Option<String>,
    /// `linux`, `darwin`…
    pub platform: String,
    /// Process id of the relay.
    pub pid: u32,
    /// When it started, in the kernel's ticks; with the id it names the process for good.
    pub started: u64,
    /// User id it runs as.
    pub uid: u32,
    /// Where run directories are made; absent if no place is usable.
    pub place: Option<String>,
    /// Why not.
    pub trouble: Option<String>,
    /// Free bytes there.
    pub free: u64,
    /// How scripts ring: `fifo` or `poll`.
    pub bell: String,
    /// Home directory of the account.
    pub home: Option<String>,
    /// Working directory in which the relay was started.
    pub cwd: Option<String>,
    /// Whether orphans can be found after a run.
    pub subreaper: bool,
}

/// Why nothing comes any more.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum LinkError {
    /// The channel ended.
    #[error("the connection ended")]
    Ended,
    /// The channel broke.
    #[error("the connection broke: {0}")]
    Broken(Arc<std::io::Error>),
    /// No sign of life.
    #[error("no sign of life for {} s", SILENCE.as_secs())]
    Silent,
    /// Not what a relay says.
    #[error("it does not speak the relay's protocol: {0}")]
    Garbled(#[from] crate::frame::FrameError),
}

/// One relay. Dropping it ends the channel, and with it everything that runs there.
pub(crate) struct Relay {
    label: String,
    hello: Hello,
    outgoing: mpsc::Sender<Outgoing>,
    incoming: mpsc::Receiver<Result<Frame, LinkError>>,
    max_frame: Arc<AtomicUsize>,
    stderr: StderrTail,
    _tasks: channel::Tasks,
}

impl Relay {
    /// Starts a relay on a remote. Errors say what was found there.
    pub(crate) async fn start(remote: &dyn Remote, python: &str, options: &RelayOptions) -> Result<Self, BackendError> {
        let (link, hello, rest) = handshake::shake(remote, python, options).await?;
        let (out_tx, out_rx) = mpsc::channel(OUTGOING);
        let (in_tx, in_rx) = mpsc::channel(INCOMING);
        let max_frame = Arc::new(AtomicUsize::new(BASE_MAX_FRAME));
        let stderr = link.stderr.clone();
        let tasks = channel::spawn(link, rest, out_rx, in_tx, Arc::clone(&max_frame));
        let label = remote.label();
        Ok(Self { label, hello, outgoing: out_tx, incoming: in_rx, max_frame, stderr, _tasks: tasks })
    }

    /// What it found on its machine.
    pub(crate) fn hello(&self) -> &Hello {
        &self.hello
    }

    /// What messages call the remote.
    pub(crate) fn label(&self) -> &str {
        &self.label
    }

    /// Accepts frames up to this many bytes, and never fewer than the base.
    pub(crate) fn accept_frames(&self, max: usize) {
        self.max_frame.store(max.max(BASE_MAX_FRAME), Ordering::Relaxed);
    }

    /// Sends a frame; waits while the link is busy. A link that is gone shows when receiving.
    pub(crate) async fn send(&self, kind: ToRelay, small: &[u8], body: Bytes) {
        if let Some(frame) = encode(kind, small, body) {
            let _gone = self.outgoing.send(frame).await;
        }
    }

    /// The next frame, in order.
    pub(crate) async fn recv(&mut self) -> Result<Frame, LinkError> {
        self.incoming.recv().await.unwrap_or(Err(LinkError::Ended))
    }

    /// A frame that has already come, if any.
    pub(crate) fn try_recv(&mut self) -> Option<Result<Frame, LinkError>> {
        match self.incoming.try_recv() {
            Ok(frame) => Some(frame),
            Err(mpsc::error::TryRecvError::Empty) => None,
            Err(mpsc::error::TryRecvError::Disconnected) => Some(Err(LinkError::Ended)),
        }
    }

    /// Whether it waits for work: an idle relay says nothing.
    pub(crate) fn is_idle(&mut self) -> bool {
        self.try_recv().is_none()
    }

    /// The error of a link that broke, with the remote's last words.
    pub(crate) fn lost(&self, error: &LinkError) -> BackendError {
        let words = self.stderr.text();
        let said = if words.is_empty() { String::new() } else { format!("; it said: {words}") };
        BackendError::Lost {
            message: format!("Lost {}: {error}{said}.", self.label),
            source: Some(Box::new(error.clone())),
        }
    }
}

impl std::fmt::Debug for Relay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Relay").field("label", &self.label).field("pid", &self.hello.pid).finish_non_exhaustive()
    }
}
