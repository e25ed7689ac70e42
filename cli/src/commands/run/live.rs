//! Shows a script's output while it is printed.

use std::io::{self, IsTerminal as _, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use gloveport::backend::Stream;
use gloveport::output::Clean;
use gloveport::{Cancel, LiveOutput};

/// Writes each piece to the stream it belongs to. When nobody reads stdout any more, the run is stopped.
pub(super) struct Live {
    cancel: Cancel,
    broken: AtomicBool,
    mid_line: AtomicBool,
}

impl Live {
    pub(super) fn new(cancel: Cancel) -> Self {
        Self { cancel, broken: AtomicBool::new(false), mid_line: AtomicBool::new(false) }
    }

    pub(super) fn callback(self: &Arc<Self>) -> LiveOutput {
        let live = Arc::clone(self);
        Arc::new(move |stream, text: &Clean| live.write(stream, text))
    }

    /// Whether stdout was closed.
    pub(super) fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Relaxed)
    }

    /// What comes next on a terminal begins on a line of its own.
    pub(super) fn end_line(&self) {
        if self.mid_line.load(Ordering::Relaxed) && io::stderr().is_terminal() {
            let _ = writeln!(io::stderr());
        }
    }

    fn write(&self, stream: Stream, text: &Clean) {
        if self.is_broken() {
            return;
        }
        let bytes = text.as_str().as_bytes();
        let written = match stream {
            Stream::Stdout => write_all(&mut io::stdout().lock(), bytes),
            // What a script says on stderr is not worth stopping it for.
            Stream::Stderr => write_all(&mut io::stderr().lock(), bytes).or(Ok(())),
        };
        if let Some(last) = bytes.last() {
            self.mid_line.store(*last != b'\n', Ordering::Relaxed);
        }
        if written.is_err() {
            self.broken.store(true, Ordering::Relaxed);
            self.cancel.cancel_with("nobody reads the output any more");
        }
    }
}

fn write_all(stream: &mut impl io::Write, bytes: &[u8]) -> io::Result<()> {
    stream.write_all(bytes)?;
    stream.flush()
}
