//! Ctrl-C and its kin: the first stops the script and shows what there is, the second ends the process at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use gloveport::Cancel;
use tokio::runtime::Runtime;

/// The reason that the result shows.
pub(super) const CTRL_C: &str = "Ctrl-C";
/// Number of the signal that Ctrl-C sends.
const SIGINT: u8 = 2;

/// Which signal came, if any.
#[derive(Clone, Default)]
pub(super) struct Signal(Arc<AtomicU8>);

impl Signal {
    /// Its number, unless it is that of Ctrl-C.
    pub(super) fn seen(&self) -> Option<u8> {
        Some(self.0.load(Ordering::Relaxed)).filter(|number| *number != 0 && *number != SIGINT)
    }

    /// Stops the run; with the second signal nobody wants to wait any longer.
    fn arrived(&self, number: u8, reason: &str, cancel: &Cancel) {
        if self.0.swap(number, Ordering::Relaxed) != 0 {
            std::process::exit(128 + i32::from(number));
        }
        cancel.cancel_with(reason);
    }
}

/// Watches from now on.
pub(super) fn watch(runtime: &Runtime, cancel: &Cancel) -> Signal {
    let signal = Signal::default();
    for (number, reason) in SIGNALS {
        let (signal, cancel) = (signal.clone(), cancel.clone());
        runtime.spawn(async move {
            while next(*number).await.is_some() {
                signal.arrived(*number, reason, &cancel);
            }
        });
    }
    signal
}

#[cfg(unix)]
const SIGNALS: &[(u8, &str)] =
    &[(SIGINT, CTRL_C), (15, "the process was asked to end"), (1, "the terminal was closed")];
#[cfg(not(unix))]
const SIGNALS: &[(u8, &str)] = &[(SIGINT, CTRL_C)];

#[cfg(unix)]
async fn next(number: u8) -> Option<()> {
    use tokio::signal::unix::{SignalKind, signal};
    signal(SignalKind::from_raw(number.into())).ok()?.recv().await
}

#[cfg(not(unix))]
async fn next(_: u8) -> Option<()> {
    tokio::signal::ctrl_c().await.ok()
}
