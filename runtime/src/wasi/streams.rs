//! The guest's standard streams: the buffers in its memory that the host may read at any time, and what goes to descriptors 1 and 2.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::AsyncWrite;
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi::p2::{OutputStream, Pollable, StreamResult};

use crate::backend::{ByteSink, Stream};

/// Bytes of one record of the stream table: address, capacity, length.
const RECORD_BYTES: usize = 12;

/// Reads the stream table of `guest-python/ABI.md` and remembers how much of each buffer it took.
pub(super) struct GuestStreams {
    sink: Arc<dyn ByteSink>,
    table: Option<usize>,
    consumed: [usize; 2],
}

impl GuestStreams {
    pub(super) fn new(sink: Arc<dyn ByteSink>) -> Self {
        Self { sink, table: None, consumed: [0; 2] }
    }

    /// Tells where the image has its stream table.
    pub(super) fn set_table(&mut self, address: Option<usize>) {
        self.table = address;
    }

    /// Takes what the buffers hold beyond what was taken before. A table that makes no sense is ignored: the guest only loses its own output.
    pub(super) fn drain(&mut self, memory: &[u8]) {
        for stream in [Stream::Stdout, Stream::Stderr] {
            if let Some((buffer, _)) = self.record(memory, stream) {
                let consumed = &mut self.consumed[stream as usize];
                if let Some(fresh) = buffer.get(*consumed..)
                    && !fresh.is_empty()
                {
                    self.sink.write(stream, fresh);
                    *consumed = buffer.len();
                }
            }
        }
    }

    /// Takes an OUTPUT message. The host empties the guest's buffer itself, so that no tick between this call and the guest's own
    /// store can read the same bytes again.
    pub(super) fn output(&mut self, memory: &mut [u8], stream: Stream, start: usize, len: usize) {
        let record = self.record(memory, stream).map(|(buffer, at)| (buffer.as_ptr(), at));
        let bytes = &memory[start..start + len];
        // Only a flush of the buffer itself repeats bytes that were taken already; a large write comes from elsewhere.
        let is_buffer = record.is_some_and(|(buffer, _)| buffer == bytes.as_ptr());
        let skip = if is_buffer { std::mem::take(&mut self.consumed[stream as usize]).min(len) } else { 0 };
        self.sink.write(stream, &bytes[skip..]);
        if let (true, Some((_, at))) = (is_buffer, record)
            && let Some(length) = memory.get_mut(at + 8..at + RECORD_BYTES)
        {
            length.fill(0);
        }
    }

    /// The filled part of a stream's buffer and the address of its record.
    fn record<'m>(&self, memory: &'m [u8], stream: Stream) -> Option<(&'m [u8], usize)> {
        let at = self.table?.checked_add(stream as usize * RECORD_BYTES)?;
        let record = memory.get(at..at.checked_add(RECORD_BYTES)?)?;
        let word = |i: usize| Some(u32::from_le_bytes(record.get(i..i + 4)?.try_into().ok()?) as usize);
        let (address, capacity, length) = (word(0)?, word(4)?, word(8)?);
        if length > capacity {
            return None;
        }
        Some((memory.get(address..address.checked_add(length)?)?, at))
    }
}

/// Descriptor 1 or 2 as WASI sees it: never full, never an error, straight into the sink.
#[derive(Clone)]
pub(super) struct SinkStream {
    pub(super) sink: Arc<dyn ByteSink>,
    pub(super) stream: Stream,
}

impl IsTerminal for SinkStream {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for SinkStream {
    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.clone())
    }

    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        Box::new(self.clone())
    }
}

#[async_trait::async_trait]
impl Pollable for SinkStream {
    async fn ready(&mut self) {}
}

#[async_trait::async_trait]
impl OutputStream for SinkStream {
    fn write(&mut self, bytes: bytes::Bytes) -> StreamResult<()> {
        self.sink.write(self.stream, &bytes);
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(1 << 20)
    }
}

impl AsyncWrite for SinkStream {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<std::io::Result<usize>> {
        self.sink.write(self.stream, bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[derive(Default)]
    struct Recorder(Mutex<Vec<u8>>);

    impl ByteSink for Recorder {
        fn write(&self, _: Stream, bytes: &[u8]) {
            self.0.lock().unwrap().extend_from_slice(bytes);
        }
    }

    fn memory(length: u32, text: &[u8]) -> Vec<u8> {
        let mut memory = vec![0; 256];
        for (i, word) in [64_u32, 32, length, 128, 32, 0].into_iter().enumerate() {
            memory[i * 4..i * 4 + 4].copy_from_slice(&word.to_le_bytes());
        }
        memory[64..64 + text.len()].copy_from_slice(text);
        memory
    }

    #[test]
    fn bytes_taken_by_a_tick_are_not_taken_again_by_the_flush() {
        let sink = Arc::new(Recorder::default());
        let mut streams = GuestStreams::new(sink.clone());
        streams.set_table(Some(0));
        streams.drain(&memory(3, b"abc"));
        let mut now = memory(5, b"abcde");
        streams.output(&mut now, Stream::Stdout, 64, 5);
        streams.drain(&now);
        let mut direct = memory(0, b"");
        direct[200..204].copy_from_slice(b"long");
        streams.output(&mut direct, Stream::Stdout, 200, 4);
        streams.drain(&memory(1, b"f"));
        assert_eq!(*sink.0.lock().unwrap(), b"abcdelongf");
    }

    #[test]
    fn a_table_that_lies_is_ignored() {
        let sink = Arc::new(Recorder::default());
        let mut streams = GuestStreams::new(sink.clone());
        for table in [0, 250, usize::MAX - 4] {
            streams.set_table(Some(table));
            let mut lying = memory(33, b"abc");
            streams.drain(&lying);
            lying[0..4].copy_from_slice(&u32::MAX.to_le_bytes());
            lying[4..8].copy_from_slice(&u32::MAX.to_le_bytes());
            streams.drain(&lying);
        }
        assert_eq!(*sink.0.lock().unwrap(), b"");
    }
}
