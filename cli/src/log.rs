//! The log on stderr, off unless asked for. Its lines go through redaction like everything else that leaves.

use std::io::{self, Write};

use gloveport::output::Redactor;
use tracing::Level;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::Host;

/// Starts the log if `-v` or `GLOVEPORT_LOG` asks for it.
pub(crate) fn start(verbose: u8, host: &Host) {
    let named = host.variable("GLOVEPORT_LOG").and_then(|level| level.parse::<Level>().ok());
    let level = match (verbose, named) {
        (0, None) => return,
        (0, Some(level)) => level,
        (1, _) => Level::DEBUG,
        (_, _) => Level::TRACE,
    };
    // Without redaction there is no log: it might show anything.
    let Ok(redactor) = Redactor::new() else { return };
    let layer = tracing_subscriber::fmt::layer()
        .with_ansi(false)
        .without_time()
        .with_writer(move || Line { redactor: redactor.clone(), bytes: Vec::new() });
    // Libraries log what they handle, which is not ours to show.
    let ours = Targets::new().with_default(LevelFilter::OFF).with_target("gloveport", level);
    tracing_subscriber::registry().with(layer).with(ours).init();
}

/// One line, cleaned as a whole.
struct Line {
    redactor: Redactor,
    bytes: Vec<u8>,
}

impl Write for Line {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        let text = self.redactor.clean_bytes(&self.bytes);
        let _ = io::stderr().write_all(text.as_str().as_bytes());
    }
}
