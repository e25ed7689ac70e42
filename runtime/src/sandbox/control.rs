//! What a caller can do with a run while it is under way.

use std::fmt;
use std::sync::Arc;

use tokio::sync::watch;

use crate::backend::Stream;
use crate::output::Clean;

/// What the result says when nobody gave a reason.
const DEFAULT_REASON: &str = "user sent a new message";

/// Receives output while a script runs, already cleaned. Must not block.
pub type LiveOutput = Arc<dyn Fn(Stream, &Clean) + Send + Sync>;

/// Stops a run, from any thread. Clones stop the same run; one `Cancel` may be given to several runs.
#[derive(Debug, Clone)]
pub struct Cancel {
    reason: Arc<watch::Sender<Option<String>>>,
}

impl Default for Cancel {
    fn default() -> Self {
        Self::new()
    }
}

impl Cancel {
    /// Not cancelled yet.
    pub fn new() -> Self {
        Self { reason: Arc::new(watch::Sender::new(None)) }
    }

    /// Stops the run with the default reason, `user sent a new message`.
    pub fn cancel(&self) {
        self.cancel_with(DEFAULT_REASON);
    }

    /// Stops the run; the reason is shown in its output. Only the first call counts.
    pub fn cancel_with(&self, reason: impl Into<String>) {
        self.reason.send_if_modified(|slot| {
            let first = slot.is_none();
            if first {
                *slot = Some(reason.into());
            }
            first
        });
    }

    /// Whether it was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.reason.borrow().is_some()
    }

    async fn cancelled(&self) -> String {
        let mut receiver = self.reason.subscribe();
        // Cloned at once: the guard of a watched value must not live across an await.
        let reason = receiver.wait_for(Option::is_some).await.ok().and_then(|reason| reason.clone());
        match reason {
            Some(reason) => reason,
            // The sender lives in `self`; without it nobody could cancel any more.
            None => std::future::pending().await,
        }
    }
}

/// How a caller takes part in a run.
#[derive(Clone, Default)]
pub struct Controls {
    /// Stops the run.
    pub cancel: Option<Cancel>,
    /// Gets the output while it is printed.
    pub live: Option<LiveOutput>,
}

impl fmt::Debug for Controls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Controls").field("cancel", &self.cancel).field("live", &self.live.is_some()).finish()
    }
}

impl Controls {
    /// Resolves with the reason when the run is to be stopped; never without a [`Cancel`].
    pub(super) async fn cancelled(&self) -> String {
        match &self.cancel {
            Some(cancel) => cancel.cancelled().await,
            None => std::future::pending().await,
        }
    }
}
