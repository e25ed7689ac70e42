//! The channel of the tools: operations on the workspace of an environment, any number at the same time, over one relay.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use bytes::{Bytes, BytesMut};
use gloveport::workspace::WorkspaceError;
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

use crate::frame::{FromRelay, ToRelay, take_u32};
use crate::relay::{Hello, Relay};

/// Operations that wait for the link.
const QUEUED: usize = 32;

/// What an operation came to: its description, and content behind it.
pub(crate) type Filed = (Value, Bytes);

enum Order {
    Do { id: u32, wanted: Value, data: Bytes, reply: oneshot::Sender<Result<Filed, String>> },
    Cancel(u32),
}

/// A handle on the channel. The relay ends with the last handle.
#[derive(Clone)]
pub(crate) struct FileChannel {
    orders: mpsc::Sender<Order>,
    next: Arc<AtomicU32>,
    hello: Arc<Hello>,
    looked: Arc<AtomicBool>,
}

impl FileChannel {
    /// Puts a relay to work on files.
    pub(crate) fn spawn(relay: Relay) -> Self {
        let (orders, queue) = mpsc::channel(QUEUED);
        let hello = Arc::new(relay.hello().clone());
        tokio::spawn(serve(relay, queue));
        Self { orders, next: Arc::new(AtomicU32::new(1)), hello, looked: Arc::default() }
    }

    /// Whether its relay is still there.
    pub(crate) fn is_open(&self) -> bool {
        !self.orders.is_closed()
    }

    /// Whether nobody has looked yet for what an earlier channel may have left half done.
    pub(crate) fn is_new(&self) -> bool {
        !self.looked.swap(true, Ordering::Relaxed)
    }

    /// What the relay found on its machine.
    pub(crate) fn hello(&self) -> &Hello {
        &self.hello
    }

    /// Does one operation. Dropping the future cancels a command.
    pub(crate) async fn call(&self, wanted: Value, data: Bytes) -> Result<Filed, WorkspaceError> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (reply, answer) = oneshot::channel();
        let mut cancel = CancelOnDrop { orders: &self.orders, id, armed: true };
        let sent = self.orders.send(Order::Do { id, wanted, data, reply }).await;
        let answer = if sent.is_ok() { answer.await.ok() } else { None };
        cancel.armed = false;
        match answer {
            Some(Ok(filed)) => Ok(filed),
            Some(Err(message)) => Err(WorkspaceError::Io { message, source: None }),
            None => Err(WorkspaceError::Io { message: "the connection to the workspace is lost".into(), source: None }),
        }
    }
}

struct CancelOnDrop<'a> {
    orders: &'a mpsc::Sender<Order>,
    id: u32,
    armed: bool,
}

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        if self.armed {
            // A full queue means that the command ends by its own time limit.
            let _best_effort = self.orders.try_send(Order::Cancel(self.id));
        }
    }
}

async fn serve(mut relay: Relay, mut queue: mpsc::Receiver<Order>) {
    let mut pending: HashMap<u32, oneshot::Sender<Result<Filed, String>>> = HashMap::new();
    loop {
        tokio::select! {
            order = queue.recv() => match order {
                Some(Order::Do { id, wanted, data, reply }) => {
                    pending.insert(id, reply);
                    send(&relay, id, &wanted, data).await;
                }
                Some(Order::Cancel(id)) => {
                    pending.remove(&id);
                    relay.send(ToRelay::Cancel, &id.to_le_bytes(), Bytes::new()).await;
                }
                None => return,
            },
            frame = relay.recv() => match frame {
                Ok(frame) if frame.kind == FromRelay::Filed => {
                    if let Some((id, filed)) = parse(frame.payload)
                        && let Some(reply) = pending.remove(&id)
                    {
                        let _nobody_waits = reply.send(filed);
                    }
                }
                Ok(_) => {}
                Err(error) => {
                    let text = format!("the workspace on {} is lost: {error}", relay.label());
                    for (_, reply) in pending.drain() {
                        let _nobody_waits = reply.send(Err(text.clone()));
                    }
                    return;
                }
            },
        }
    }
}

async fn send(relay: &Relay, id: u32, wanted: &Value, data: Bytes) {
    let json = wanted.to_string();
    let mut small = BytesMut::with_capacity(8 + json.len());
    small.extend_from_slice(&id.to_le_bytes());
    small.extend_from_slice(&u32::try_from(json.len()).unwrap_or(u32::MAX).to_le_bytes());
    small.extend_from_slice(json.as_bytes());
    relay.send(ToRelay::File, &small, data).await;
}

fn parse(mut payload: Bytes) -> Option<(u32, Result<Filed, String>)> {
    let id = take_u32(&mut payload).ok()?;
    let length = usize::try_from(take_u32(&mut payload).ok()?).ok()?;
    if length > payload.len() {
        return Some((id, Err("the workspace gave a broken answer".into())));
    }
    let json = payload.split_to(length);
    let filed = serde_json::from_slice(&json).map(|value| (value, payload)).map_err(|error| error.to_string());
    Some((id, filed))
}
