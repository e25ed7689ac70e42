//! Shows a script's output while it is printed.
//!
//! A thread of its own writes, so that a reader which is slow holds up the script and nothing else: not the time limit, not Ctrl-C.

use std::collections::VecDeque;
use std::io::{self, IsTerminal as _, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use gloveport::backend::Stream;
use gloveport::output::Clean;
use gloveport::{Cancel, LiveOutput};

/// Bytes that may wait for the reader before the script does.
const HIGH_WATER: usize = 4 << 20;
/// Bytes that may wait at all. Reached only when a reader takes nothing for minutes while the script prints on.
const MOST_WAITING: usize = 64 << 20;
/// How long one piece of output waits for the reader, and with it the script.
const HOLD: Duration = Duration::from_millis(250);

/// Writes each piece to the stream it belongs to. When nobody reads stdout any more, the run is stopped.
pub(super) struct Live {
    queue: Mutex<Queue>,
    changed: Condvar,
    cancel: Cancel,
}

#[derive(Default)]
struct Queue {
    pieces: VecDeque<(Stream, Clean)>,
    /// Bytes of the pieces, and of the one that is being written.
    waiting: usize,
    /// Bytes that were not shown.
    dropped: usize,
    /// Why stdout takes nothing more.
    broken: Option<io::Error>,
    mid_line: bool,
    closed: bool,
}

impl Live {
    /// Starts the thread that writes.
    pub(super) fn start(cancel: Cancel) -> Arc<Self> {
        let live = Arc::new(Self { queue: Mutex::default(), changed: Condvar::new(), cancel });
        let writer = Arc::clone(&live);
        std::thread::spawn(move || writer.write_all(&mut io::stdout(), &mut io::stderr()));
        live
    }

    pub(super) fn callback(self: &Arc<Self>) -> LiveOutput {
        let live = Arc::clone(self);
        Arc::new(move |stream, text: &Clean| live.push(stream, text))
    }

    /// Waits until all is shown. With `patience`, no longer than that for a reader that takes nothing. Says how much was not shown.
    pub(super) fn finish(&self, patience: Option<Duration>) -> Shown {
        let mut queue = self.lock();
        queue.closed = true;
        self.changed.notify_all();
        while queue.waiting > 0 && queue.broken.is_none() {
            let before = queue.waiting;
            let stuck = |queue: &mut Queue| queue.waiting == before && queue.broken.is_none();
            let waited = self.changed.wait_timeout_while(queue, patience.unwrap_or(HOLD), stuck);
            let timed_out;
            (queue, timed_out) = waited.unwrap_or_else(PoisonError::into_inner);
            if patience.is_some() && timed_out.timed_out() {
                break;
            }
        }
        let mid_line = queue.mid_line && io::stderr().is_terminal();
        Shown { broken: queue.broken.take(), missed: queue.dropped + queue.waiting, mid_line }
    }

    fn push(&self, stream: Stream, text: &Clean) {
        let queue = self.lock();
        let full = |queue: &mut Queue| queue.waiting > HIGH_WATER && queue.broken.is_none();
        let held = self.changed.wait_timeout_while(queue, HOLD, full);
        let mut queue = held.unwrap_or_else(PoisonError::into_inner).0;
        if queue.broken.is_some() || queue.closed {
            return;
        }
        if queue.waiting + text.len() > MOST_WAITING {
            queue.dropped += text.len();
            return;
        }
        queue.waiting += text.len();
        queue.pieces.push_back((stream, text.clone()));
        self.changed.notify_all();
    }

    /// The writing thread. What a script says on stderr is not worth stopping it for; its stdout is.
    fn write_all(&self, stdout: &mut impl Write, stderr: &mut impl Write) {
        while let Some((stream, text)) = self.next() {
            let bytes = text.as_str().as_bytes();
            let written = match stream {
                Stream::Stdout => stdout.write_all(bytes).and_then(|()| stdout.flush()),
                Stream::Stderr => stderr.write_all(bytes).and_then(|()| stderr.flush()).or(Ok(())),
            };
            let mut queue = self.lock();
            queue.waiting -= bytes.len();
            queue.mid_line = bytes.last().is_some_and(|last| *last != b'\n');
            self.changed.notify_all();
            if let Err(error) = written {
                queue.broken = Some(error);
                self.cancel.cancel_with("nobody reads the output any more");
                return;
            }
        }
    }

    fn next(&self) -> Option<(Stream, Clean)> {
        let idle = |queue: &mut Queue| queue.pieces.is_empty() && !queue.closed;
        let waited = self.changed.wait_while(self.lock(), idle);
        waited.unwrap_or_else(PoisonError::into_inner).pieces.pop_front()
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        // Nothing that runs under this lock can fail half way.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How the showing ended.
#[derive(Debug)]
pub(super) struct Shown {
    /// stdout was closed by its reader, or could not be written for another reason.
    pub(super) broken: Option<io::Error>,
    /// Bytes that no reader took.
    pub(super) missed: usize,
    /// What comes next on the terminal would stand behind an unfinished line.
    pub(super) mid_line: bool,
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Instant;

    use super::*;

    /// Takes nothing until it is told to.
    struct SlowReader(mpsc::Receiver<()>);

    impl Write for SlowReader {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.recv().map(|()| bytes.len()).map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn live() -> Arc<Live> {
        Arc::new(Live { queue: Mutex::default(), changed: Condvar::new(), cancel: Cancel::new() })
    }

    fn text(length: usize) -> Clean {
        Clean::concat(std::iter::repeat_n(&Clean::from_static("x"), length))
    }

    #[test]
    fn pieces_arrive_in_order_on_their_streams() {
        let live = live();
        for (stream, piece) in [(Stream::Stdout, "a"), (Stream::Stderr, "b"), (Stream::Stdout, "c\n")] {
            live.push(stream, &Clean::from_static(piece));
        }
        live.lock().closed = true;
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        live.write_all(&mut stdout, &mut stderr);
        assert_eq!((stdout, stderr), (b"ac\n".to_vec(), b"b".to_vec()));
        let shown = live.finish(None);
        assert_eq!((shown.broken.is_none(), shown.missed, shown.mid_line), (true, 0, false));
    }

    #[test]
    fn a_reader_that_takes_nothing_holds_a_piece_up_for_a_moment_only() {
        let (live, started) = (live(), Instant::now());
        live.push(Stream::Stdout, &text(HIGH_WATER + 1));
        live.push(Stream::Stdout, &text(1));
        assert!(started.elapsed() >= HOLD && started.elapsed() < HOLD * 20);
        live.lock().waiting = MOST_WAITING;
        live.push(Stream::Stdout, &text(7));
        assert_eq!(live.lock().dropped, 7);
    }

    #[test]
    fn the_end_waits_for_a_slow_reader_but_not_for_one_that_is_stuck() {
        let live = live();
        let (go, told) = mpsc::channel();
        let writer = Arc::clone(&live);
        let thread = std::thread::spawn(move || writer.write_all(&mut SlowReader(told), &mut io::sink()));
        live.push(Stream::Stdout, &text(3));
        let shown = live.finish(Some(Duration::from_millis(50)));
        assert_eq!((shown.broken.is_none(), shown.missed, shown.mid_line), (true, 3, false));
        go.send(()).unwrap();
        assert_eq!(live.finish(None).missed, 0);
        thread.join().unwrap();
    }

    #[test]
    fn a_closed_stdout_stops_the_run() {
        let live = live();
        let (go, told) = mpsc::channel();
        drop(go);
        live.push(Stream::Stdout, &text(3));
        live.write_all(&mut SlowReader(told), &mut io::sink());
        assert!(live.cancel.is_cancelled());
        live.push(Stream::Stdout, &text(3));
        assert!(live.lock().pieces.is_empty());
        assert_eq!(live.finish(None).broken.unwrap().kind(), io::ErrorKind::BrokenPipe);
    }
}
