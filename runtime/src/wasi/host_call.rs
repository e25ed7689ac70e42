//! The one host call: messages of `guest-python/ABI.md` in, replies out.
//!
//! Every pointer, length and byte comes from code that may be hostile: lengths are checked before anything is copied.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::{BufMut as _, Bytes, BytesMut};
use tokio::task::{AbortHandle, JoinSet};
use wasmtime::{Caller, Linker};

use super::guest::{Guest, ProtocolViolation};
use crate::backend::{Show, Stream};
use crate::dispatch::CallPort;

const FETCH: u8 = 0;
const CALL: u8 = 1;
const START: u8 = 2;
const WAIT: u8 = 3;
const DROP: u8 = 4;
const OUTPUT: u8 = 5;
const REPORT: u8 = 6;
const FIGURE: u8 = 7;

/// Malformed message or unknown opcode.
const ERR_MALFORMED: i32 = -1;
/// Message longer than the host accepts.
const ERR_TOO_LONG: i32 = -2;
/// Too many calls outstanding.
const ERR_TOO_MANY: i32 = -3;

/// Bytes that a message may have beyond the tool request that it carries.
const MESSAGE_OVERHEAD: usize = 4_096;
/// Answers that wait to be collected may take this many times the size of one answer.
const UNCOLLECTED_FACTOR: usize = 4;
/// A clock can't sleep for longer; the run's deadline comes first anyway.
const LONGEST_WAIT: Duration = Duration::from_secs(365 * 24 * 3_600);

/// Bounds of the host call.
#[derive(Debug, Clone, Copy)]
pub(super) struct CallBounds {
    pub(super) request_bytes: usize,
    pub(super) answer_bytes: usize,
    pub(super) outstanding: usize,
}

/// The calls of one run that are under way or wait to be collected.
pub(super) struct HostCalls {
    port: CallPort,
    bounds: CallBounds,
    running: JoinSet<(u32, Bytes)>,
    handles: HashMap<u32, AbortHandle>,
    finished: HashMap<u32, Bytes>,
    /// Calls that were dropped while they ran: their answers are thrown away.
    dropped: HashSet<u32>,
    uncollected: usize,
    next_id: u32,
    /// The reply that did not fit.
    pending: Bytes,
    exception: Option<String>,
    show: Arc<Show>,
}

impl HostCalls {
    pub(super) fn new(port: CallPort, bounds: CallBounds, show: Arc<Show>) -> Self {
        Self {
            show,
            port,
            bounds,
            running: JoinSet::new(),
            handles: HashMap::new(),
            finished: HashMap::new(),
            dropped: HashSet::new(),
            uncollected: 0,
            next_id: 1,
            pending: Bytes::new(),
            exception: None,
        }
    }

    /// Name of the exception that the guest says ended the script.
    pub(super) fn reported_exception(&self) -> Option<&str> {
        self.exception.as_deref()
    }

    async fn message(&mut self, message: Bytes) -> Result<Bytes, i32> {
        let body = message.slice(1..);
        match message[0] {
            FETCH => Ok(std::mem::take(&mut self.pending)),
            CALL => Ok(self.port.call(body).await),
            START => self.start(body),
            WAIT => self.wait(&body).await,
            DROP => self.drop_calls(&body),
            REPORT => self.report(&body),
            FIGURE => self.show.keep(body).then(Bytes::new).ok_or(ERR_TOO_MANY),
            _ => Err(ERR_MALFORMED),
        }
    }

    fn start(&mut self, request: Bytes) -> Result<Bytes, i32> {
        self.collect();
        if self.handles.len() + self.finished.len() >= self.bounds.outstanding {
            return Err(ERR_TOO_MANY);
        }
        let id = self.next_id;
        self.next_id = self.next_id.checked_add(1).ok_or(ERR_TOO_MANY)?;
        let port = self.port.clone();
        let handle = self.running.spawn(async move { (id, port.call(request).await) });
        self.handles.insert(id, handle);
        Ok(Bytes::copy_from_slice(&id.to_le_bytes()))
    }

    async fn wait(&mut self, body: &[u8]) -> Result<Bytes, i32> {
        let (timeout, ids) = body.split_first_chunk::<8>().ok_or(ERR_MALFORMED)?;
        let ids = self.parse_ids(ids)?;
        let timeout = match i64::from_le_bytes(*timeout) {
            negative if negative < 0 => LONGEST_WAIT,
            nanos => Duration::from_nanos(nanos.unsigned_abs()).min(LONGEST_WAIT),
        };
        let wake = tokio::time::sleep(timeout);
        tokio::pin!(wake);
        loop {
            self.collect();
            if let Some(reply) = self.take_finished(&ids) {
                return Ok(reply);
            }
            tokio::select! {
                biased;
                Some(done) = self.running.join_next(), if !ids.is_empty() => self.record(done),
                () = &mut wake => return Ok(Bytes::new()),
            }
        }
    }

    /// The answer of the first of these calls that is finished; an id that never was is answered too, so that nobody waits for it.
    fn take_finished(&mut self, ids: &[u32]) -> Option<Bytes> {
        for id in ids {
            let answer = match self.finished.remove(id) {
                Some(answer) => {
                    self.uncollected = self.uncollected.saturating_sub(answer.len());
                    answer
                }
                None if self.handles.contains_key(id) => continue,
                None => Bytes::from_static(br#"{"error": "no such call"}"#),
            };
            let mut reply = BytesMut::with_capacity(4 + answer.len());
            reply.put_u32_le(*id);
            reply.extend_from_slice(&answer);
            return Some(reply.freeze());
        }
        None
    }

    fn drop_calls(&mut self, body: &[u8]) -> Result<Bytes, i32> {
        for id in self.parse_ids(body)? {
            if let Some(handle) = self.handles.remove(&id) {
                handle.abort();
                self.dropped.insert(id);
            }
            if let Some(answer) = self.finished.remove(&id) {
                self.uncollected = self.uncollected.saturating_sub(answer.len());
            }
        }
        Ok(Bytes::new())
    }

    /// Identifiers of calls. More than can be outstanding have no meaning, and would only keep the host busy.
    fn parse_ids(&self, bytes: &[u8]) -> Result<Vec<u32>, i32> {
        let (chunks, rest) = bytes.as_chunks::<4>();
        if rest.is_empty() && chunks.len() <= self.bounds.outstanding {
            Ok(chunks.iter().map(|chunk| u32::from_le_bytes(*chunk)).collect())
        } else {
            Err(ERR_MALFORMED)
        }
    }

    fn report(&mut self, body: &[u8]) -> Result<Bytes, i32> {
        #[derive(serde::Deserialize)]
        struct Report {
            exception: String,
        }
        let report: Report = serde_json::from_slice(body).map_err(|_| ERR_MALFORMED)?;
        self.exception = Some(report.exception);
        Ok(Bytes::new())
    }

    fn collect(&mut self) {
        while let Some(done) = self.running.try_join_next() {
            self.record(done);
        }
    }

    fn record(&mut self, done: Result<(u32, Bytes), tokio::task::JoinError>) {
        // An error means that the task was aborted by DROP; the dispatcher itself catches panics of handlers.
        let Ok((id, mut answer)) = done else { return };
        self.handles.remove(&id);
        if self.dropped.remove(&id) {
            return;
        }
        if self.uncollected + answer.len() > self.bounds.answer_bytes.saturating_mul(UNCOLLECTED_FACTOR) {
            answer = Bytes::from_static(br#"{"error": "Answers that were not collected yet take too much memory."}"#);
        }
        self.uncollected += answer.len();
        self.finished.insert(id, answer);
    }
}

/// Links `gloveport.call`.
pub(super) fn add_to_linker(linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
    linker.func_wrap_async("gloveport", "call", |caller, (request, len, out, cap): (u32, u32, u32, u32)| {
        Box::new(call(caller, request as usize, len as usize, out as usize, cap as usize))
    })?;
    Ok(())
}

async fn call(
    mut caller: Caller<'_, Guest>,
    start: usize,
    len: usize,
    out: usize,
    cap: usize,
) -> wasmtime::Result<i32> {
    let Some(memory) = caller.data().memory else {
        return Err(ProtocolViolation("host call before the instance was ready").into());
    };
    let (data, guest) = memory.data_and_store_mut(&mut caller);
    let Some(message) = slice(data, start, len) else {
        return Err(ProtocolViolation("host call with a message outside the memory").into());
    };
    if slice(data, out, cap).is_none() {
        return Err(ProtocolViolation("host call with a buffer outside the memory").into());
    }
    if len == 0 {
        return Ok(ERR_MALFORMED);
    }
    // Output is not copied here, and may be as long as the guest's memory.
    if message[0] == OUTPUT {
        return Ok(output(data, guest, start + 1, len - 1));
    }
    if len > guest.calls.bounds.request_bytes + MESSAGE_OVERHEAD {
        return Ok(ERR_TOO_LONG);
    }
    let message = Bytes::copy_from_slice(message);
    if message[0] != FETCH {
        guest.calls.pending = Bytes::new();
    }
    // What was printed before a call must be seen before its effects.
    guest.streams.drain(data);
    let reply = match guest.calls.message(message).await {
        Ok(reply) => reply,
        Err(code) => return Ok(code),
    };
    let Ok(reply_len) = i32::try_from(reply.len()) else { return Ok(ERR_TOO_LONG) };
    let (data, guest) = memory.data_and_store_mut(&mut caller);
    match data.get_mut(out..out + reply.len()) {
        Some(buffer) if reply.len() <= cap => buffer.copy_from_slice(&reply),
        _ => guest.calls.pending = reply,
    }
    Ok(reply_len)
}

fn output(data: &mut [u8], guest: &mut Guest, start: usize, len: usize) -> i32 {
    let stream = match data.get(start) {
        Some(1) if len > 0 => Stream::Stdout,
        Some(2) if len > 0 => Stream::Stderr,
        _ => return ERR_MALFORMED,
    };
    guest.streams.output(data, stream, start + 1, len - 1);
    0
}

fn slice(data: &[u8], start: usize, len: usize) -> Option<&[u8]> {
    data.get(start..start.checked_add(len)?)
}
