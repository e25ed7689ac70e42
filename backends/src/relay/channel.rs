//! The two tasks of a channel: one reads frames, one writes them and gives signs of life.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufWriter};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::{HEARTBEAT, LinkError, SILENCE};
use crate::frame::{Frame, FromRelay, Outgoing, ToRelay, decode, encode};
use crate::remote::Link;

/// Room made for each read.
const READ_SIZE: usize = 256 << 10;

/// Ends both tasks, and with them the process at the other end.
pub(super) struct Tasks {
    handles: [AbortHandle; 2],
    _guard: Box<dyn Send + Sync>,
}

impl Drop for Tasks {
    fn drop(&mut self) {
        for handle in &self.handles {
            handle.abort();
        }
    }
}

/// Starts the tasks. `rest` is what came behind the first frame.
pub(super) fn spawn(
    link: Link,
    rest: BytesMut,
    outgoing: mpsc::Receiver<Outgoing>,
    incoming: mpsc::Sender<Result<Frame, LinkError>>,
    max_frame: Arc<AtomicUsize>,
) -> Tasks {
    let reading = tokio::spawn(read(link.reader, rest, incoming, max_frame));
    let writing = tokio::spawn(async move {
        // A link that can't be written to shows as one that ends or falls silent.
        if let Err(error) = write(link.writer, outgoing).await {
            tracing::debug!(%error, "writing to a relay failed");
        }
    });
    Tasks { handles: [reading.abort_handle(), writing.abort_handle()], _guard: link.guard }
}

async fn read(
    mut reader: Box<dyn AsyncRead + Send + Unpin>,
    mut buffer: BytesMut,
    incoming: mpsc::Sender<Result<Frame, LinkError>>,
    max_frame: Arc<AtomicUsize>,
) {
    loop {
        let next = match decode(&mut buffer, max_frame.load(Ordering::Relaxed)) {
            Ok(Some(frame)) if frame.kind == FromRelay::Pong => continue,
            Ok(Some(frame)) => Ok(frame),
            Ok(None) => match fill(&mut reader, &mut buffer).await {
                Ok(()) => continue,
                Err(error) => Err(error),
            },
            Err(error) => Err(error.into()),
        };
        let over = next.is_err();
        if incoming.send(next).await.is_err() || over {
            return;
        }
    }
}

async fn fill(reader: &mut (dyn AsyncRead + Send + Unpin), buffer: &mut BytesMut) -> Result<(), LinkError> {
    buffer.reserve(READ_SIZE);
    match timeout(SILENCE, reader.read_buf(buffer)).await {
        Ok(Ok(0)) => Err(LinkError::Ended),
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(LinkError::Broken(Arc::new(error))),
        Err(_elapsed) => Err(LinkError::Silent),
    }
}

async fn write(
    writer: Box<dyn AsyncWrite + Send + Unpin>,
    mut outgoing: mpsc::Receiver<Outgoing>,
) -> std::io::Result<()> {
    let mut writer = BufWriter::with_capacity(64 << 10, writer);
    let mut beat = interval(HEARTBEAT);
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let frame = tokio::select! {
            frame = outgoing.recv() => match frame {
                Some(frame) => Some(frame),
                None => return writer.shutdown().await,
            },
            _ = beat.tick() => encode(ToRelay::Ping, &[], bytes::Bytes::new()),
        };
        if let Some(frame) = frame {
            writer.write_all(&frame.head).await?;
            writer.write_all(&frame.body).await?;
        }
        if outgoing.is_empty() {
            writer.flush().await?;
        }
    }
}
