//! Takes a script's bytes from the backend and keeps what the result will show.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use super::control::LiveOutput;
use crate::backend::{ByteSink, Stream};
use crate::config::OutputConfig;
use crate::output::{Captured, Clean, Collector, Limits, Redactor, Streamer};

/// Bytes of output that a file holds at most.
const SPILL_BYTES: usize = 5_000_000;

/// The sink of one run.
pub(super) struct Capture {
    kept: Mutex<Kept>,
    live: Option<Live>,
}

struct Kept {
    stdout: Collector,
    stderr: Collector,
    /// More of standard output, for a file; only where that is configured.
    spill: Option<Collector>,
    /// What a run that was left behind still writes is nobody's output.
    closed: bool,
}

/// Output for somebody who watches. Its lock is held while the callback writes, and that may take as long as a slow reader likes: then the script
/// waits, and nothing else may. So what is kept has a lock of its own, and only the script's own writes wait for this one.
struct Live {
    output: LiveOutput,
    /// `None` once the run is over.
    streamers: Mutex<Option<Streamers>>,
}

struct Streamers {
    stdout: Streamer,
    stderr: Streamer,
}

impl Capture {
    pub(super) fn new(config: &OutputConfig, redactor: &Redactor, live: Option<LiveOutput>) -> Arc<Self> {
        let collector = |limits: Limits| Collector::new(limits.with_margin_for(redactor));
        let kept = Kept {
            stdout: collector(Limits::with_ratio(config.max_stdout, config.head_ratio)),
            stderr: collector(Limits::head_only(config.max_stderr)),
            spill: config.spill.as_ref().map(|_| collector(Limits::head_only(SPILL_BYTES))),
            closed: false,
        };
        let live = live.map(|output| Live {
            output,
            streamers: Mutex::new(Some(Streamers {
                stdout: Streamer::new(redactor.clone()),
                stderr: Streamer::new(redactor.clone()),
            })),
        });
        Arc::new(Self { kept: Mutex::new(kept), live })
    }

    /// Shows live output that waits for the end of its line.
    pub(super) fn tick(&self) {
        if let Some(live) = &self.live
            && let Some(mut guard) = live.try_lock()
            && let Some(streamers) = guard.as_mut()
        {
            live.show(Stream::Stdout, &streamers.stdout.tick());
            live.show(Stream::Stderr, &streamers.stderr.tick());
        }
    }

    /// What a file of the whole output holds, cleaned like everything else; `None` where no file is wanted.
    pub(super) fn spilled(&self, redactor: &Redactor) -> Option<Clean> {
        self.kept().spill.take().map(|collector| collector.finish(redactor).text)
    }

    /// Ends the capture; both streams as the result shows them. A reader that is slow even now misses what it did not read.
    pub(super) fn close(&self, redactor: &Redactor) -> (Captured, Captured) {
        if let Some(live) = &self.live
            && let Some(mut guard) = live.try_lock()
            && let Some(streamers) = guard.take()
        {
            live.show(Stream::Stdout, &streamers.stdout.finish());
            live.show(Stream::Stderr, &streamers.stderr.finish());
        }
        let mut kept = self.kept();
        kept.closed = true;
        (kept.stdout.snapshot(redactor), kept.stderr.snapshot(redactor))
    }

    /// Keeps bytes; `false` when the run is over.
    fn keep(&self, stream: Stream, bytes: &[u8]) -> bool {
        let mut kept = self.kept();
        if kept.closed {
            return false;
        }
        if let (Stream::Stdout, Some(spill)) = (stream, &mut kept.spill) {
            spill.push(bytes);
        }
        match stream {
            Stream::Stdout => kept.stdout.push(bytes),
            Stream::Stderr => kept.stderr.push(bytes),
        }
        true
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        // Nothing that runs under this lock calls out, so a poisoned lock still holds whole collectors.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Live {
    fn show(&self, stream: Stream, text: &Clean) {
        if !text.is_empty() {
            (self.output)(stream, text);
        }
    }

    /// `None` while a write is under way. A callback that panicked has lost at most what it was shown.
    fn try_lock(&self) -> Option<MutexGuard<'_, Option<Streamers>>> {
        match self.streamers.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

impl ByteSink for Capture {
    fn write(&self, stream: Stream, bytes: &[u8]) {
        if !self.keep(stream, bytes) {
            return;
        }
        let Some(live) = &self.live else { return };
        let mut guard = live.streamers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(streamers) = guard.as_mut() {
            let text = match stream {
                Stream::Stdout => streamers.stdout.push(bytes),
                Stream::Stderr => streamers.stderr.push(bytes),
            };
            live.show(stream, &text);
        }
    }
}
