//! Takes a script's bytes from the backend and keeps what the result will show.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::control::LiveOutput;
use crate::backend::{ByteSink, Stream};
use crate::config::OutputConfig;
use crate::output::{Captured, Clean, Collector, Limits, Redactor, Streamer};

/// Bytes of output that a file holds at most.
const SPILL_BYTES: usize = 5_000_000;

/// The sink of one run.
pub(super) struct Capture {
    state: Mutex<State>,
    live: Option<LiveOutput>,
}

struct State {
    stdout: Lane,
    stderr: Lane,
    /// More of standard output, for a file; only where that is configured.
    spill: Option<Collector>,
    /// What a run that was left behind still writes is nobody's output.
    closed: bool,
}

struct Lane {
    collector: Collector,
    streamer: Option<Streamer>,
}

impl Capture {
    pub(super) fn new(config: &OutputConfig, redactor: &Redactor, live: Option<LiveOutput>) -> Arc<Self> {
        let lane = |limits: Limits| Lane {
            collector: Collector::new(limits.with_margin_for(redactor)),
            streamer: live.is_some().then(|| Streamer::new(redactor.clone())),
        };
        let stdout = lane(Limits::with_ratio(config.max_stdout, config.head_ratio));
        let stderr = lane(Limits::head_only(config.max_stderr));
        let spill =
            config.spill.as_ref().map(|_| Collector::new(Limits::head_only(SPILL_BYTES).with_margin_for(redactor)));
        Arc::new(Self { state: Mutex::new(State { stdout, stderr, spill, closed: false }), live })
    }

    /// Shows live output that waits for the end of its line.
    pub(super) fn tick(&self) {
        let mut state = self.lock();
        for stream in [Stream::Stdout, Stream::Stderr] {
            if let Some(streamer) = &mut state.lane(stream).streamer {
                let text = streamer.tick();
                self.show(stream, &text);
            }
        }
    }

    /// What a file of the whole output holds, cleaned like everything else; `None` where no file is wanted.
    pub(super) fn spilled(&self, redactor: &Redactor) -> Option<Clean> {
        self.lock().spill.take().map(|collector| collector.finish(redactor).text)
    }

    /// Ends the capture; both streams as the result shows them.
    pub(super) fn close(&self, redactor: &Redactor) -> (Captured, Captured) {
        let mut state = self.lock();
        state.closed = true;
        for stream in [Stream::Stdout, Stream::Stderr] {
            if let Some(streamer) = state.lane(stream).streamer.take() {
                self.show(stream, &streamer.finish());
            }
        }
        (state.stdout.collector.snapshot(redactor), state.stderr.collector.snapshot(redactor))
    }

    fn show(&self, stream: Stream, text: &Clean) {
        if let Some(live) = &self.live
            && !text.is_empty()
        {
            live(stream, text);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A callback of the embedder that panics leaves the collectors whole: they were filled before.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn lane(&mut self, stream: Stream) -> &mut Lane {
        match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        }
    }
}

impl ByteSink for Capture {
    fn write(&self, stream: Stream, bytes: &[u8]) {
        let mut state = self.lock();
        if state.closed {
            return;
        }
        if let (Stream::Stdout, Some(spill)) = (stream, &mut state.spill) {
            spill.push(bytes);
        }
        let lane = state.lane(stream);
        lane.collector.push(bytes);
        if let Some(streamer) = &mut lane.streamer {
            let text = streamer.push(bytes);
            self.show(stream, &text);
        }
    }
}
