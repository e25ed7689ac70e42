//! What a remote has to be able to do: start a process with piped stdin and stdout, and end it.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use gloveport::backend::BackendError;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite};

/// Bytes of a remote's error stream that are kept for messages.
const STDERR_TAIL: usize = 4096;

/// The two ends of a process on a remote. Dropping it ends the process, sooner or later: the relay ends when its input does.
pub struct Link {
    /// Its standard output.
    pub reader: Box<dyn AsyncRead + Send + Unpin>,
    /// Its standard input.
    pub writer: Box<dyn AsyncWrite + Send + Unpin>,
    /// Last words of its standard error, and of what carries it.
    pub stderr: StderrTail,
    /// Whatever has to live as long as the process: a child, a session, a permit.
    pub guard: Box<dyn Send + Sync>,
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").finish_non_exhaustive()
    }
}

/// What is known of a remote after a link to it broke.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Autopsy {
    /// Nothing beyond the broken link.
    Unknown,
    /// The remote itself is gone, and what is known of it.
    Gone(String),
    /// It was ended by its memory limit.
    OutOfMemory,
}

/// A place where relays can be started: a container, a host, a local process.
#[async_trait]
pub trait Remote: Send + Sync {
    /// What messages call it: `container gloveport-ab12`, `user@host`.
    fn label(&self) -> String;

    /// Starts a process. The arguments are passed as they are, whatever shells lie in between.
    async fn open(&self, argv: &[String]) -> Result<Link, BackendError>;

    /// Tells why a link broke.
    async fn autopsy(&self) -> Autopsy {
        Autopsy::Unknown
    }

    /// Whether it is still there, asked before an environment is used again.
    async fn alive(&self) -> bool {
        true
    }

    /// Ends everything. Must be safe to call twice; also called when the environment is dropped.
    async fn close(&self) {}
}

/// The last bytes of an error stream, filled by a task of its own.
#[derive(Clone, Default)]
pub struct StderrTail {
    bytes: Arc<Mutex<Vec<u8>>>,
}

impl StderrTail {
    /// Follows a stream until its end.
    pub fn follow(mut stream: impl AsyncRead + Send + Unpin + 'static) -> Self {
        let tail = Self::default();
        let kept = tail.clone();
        tokio::spawn(async move {
            let mut block = vec![0; 4096];
            while let Ok(count) = stream.read(&mut block).await {
                if count == 0 {
                    break;
                }
                kept.push(&block[..count]);
            }
        });
        tail
    }

    /// Adds bytes and forgets what is too old.
    pub fn push(&self, bytes: &[u8]) {
        let mut kept = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend_from_slice(bytes);
        let surplus = kept.len().saturating_sub(STDERR_TAIL);
        kept.drain(..surplus);
    }

    /// The text so far, for a message: one line, no control characters.
    pub fn text(&self) -> String {
        let kept = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        printable(&kept)
    }
}

impl fmt::Debug for StderrTail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("StderrTail").field(&self.text()).finish()
    }
}

/// Foreign bytes as one line of text.
pub(crate) fn printable(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let words: Vec<&str> =
        text.split(|c: char| c.is_control() || c.is_whitespace()).filter(|word| !word.is_empty()).collect();
    words.join(" ")
}
