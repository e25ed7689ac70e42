//! One job on one relay: start, output, calls, end. What happens when nobody waits any more is in [`Running::drop`].

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use gloveport::backend::{BackendError, Exit, ExitCause, RunIo, Stream};
use gloveport::job::{Job, Mode};
use serde::Deserialize;
use serde_json::json;
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::JoinSet;

use crate::environment::Environment;
use crate::frame::{Frame, FromRelay, ToRelay, take_u8, take_u32};
use crate::journal::{self, Journal, Verdict};
use crate::random;
use crate::relay::{LinkError, Relay};
use crate::remote::Autopsy;
use crate::seal::{self, RunKey};

/// Output that may be on its way before the script has to wait. Small enough that calls don't queue behind seconds of output.
const OUTPUT_WINDOW: u32 = 4 << 20;
/// Credit is given back in pieces of this size.
const CREDIT_STEP: u32 = OUTPUT_WINDOW / 8;
/// The relay never ends a run by itself before this: time limits are the host's, whose clock stops while somebody is asked.
const RELAY_TIMEOUT: Duration = Duration::from_secs(7 * 86_400);
/// How long a stopped run may take to be gone; the relay's own bounds add up to less.
const WIND_UP: Duration = Duration::from_secs(16);
/// How long the last words of a run that broke the protocol are waited for.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// Room for the line around a request or an answer.
const FRAME_MARGIN: usize = 64 << 10;
/// The exit code of a process that the kernel killed for its memory.
const KILLED: i32 = 9;

/// How the backend wants its scripts started.
#[derive(Debug, Clone)]
pub(crate) struct Launch {
    /// Working directory in project mode; `None` = a private one.
    pub(crate) workdir: Option<String>,
    /// Directories at the end of `sys.path`.
    pub(crate) path: Vec<String>,
    /// Whether the script also gets the names that belong to the remote machine.
    pub(crate) inherit_env: bool,
}

#[derive(Debug, Deserialize)]
struct Started {
    dir: String,
    bell: String,
}

#[derive(Debug, Deserialize)]
struct Ended {
    cause: String,
    detail: String,
    code: Option<i32>,
    signal: Option<i32>,
    oom: bool,
    left: Vec<String>,
    survivors: u32,
}

#[derive(Debug, Deserialize)]
struct Failed {
    message: String,
}

/// Runs a job to its end on a relay of the environment.
pub(crate) async fn run(
    (relay, slot): (Relay, OwnedSemaphorePermit),
    environment: Arc<Environment>,
    job: &Job,
    io: RunIo,
    launch: &Launch,
) -> Result<Exit, BackendError> {
    let key = RunKey::new(&*job.run_id, random::bytes()?);
    let largest = job.limits.request_bytes.max(job.limits.answer_bytes);
    relay.accept_frames(largest.saturating_add(FRAME_MARGIN));
    let config = start_config(job, &key, launch).to_string();
    let mut small = u32_bytes(config.len())?;
    small.extend_from_slice(config.as_bytes());
    relay.send(ToRelay::Start, &small, Bytes::copy_from_slice(job.code.as_bytes())).await;
    let journal = Journal::new(key, job.limits.outstanding_calls);
    let mut running = Running {
        relay: Some(relay),
        slot: Some(slot),
        environment,
        io,
        journal,
        calls: JoinSet::new(),
        dir: None,
        owed: 0,
        over: false,
    };
    running.drive().await
}

fn start_config(job: &Job, key: &RunKey, launch: &Launch) -> serde_json::Value {
    let cwd = match job.mode {
        Mode::Project => launch.workdir.as_deref(),
        Mode::Strict => None,
    };
    let argv: Vec<&str> = std::iter::once(job.filename.as_str()).chain(job.args.iter().map(String::as_str)).collect();
    let env: serde_json::Map<_, _> = job.env.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
    json!({
        "run_id": &*job.run_id, "argv": argv, "filename": job.filename, "cwd": cwd, "path": launch.path,
        "module": job.module, "tools": job.tools.json, "env": env, "inherit_env": launch.inherit_env,
        "key": key.to_hex(), "timeout": RELAY_TIMEOUT.as_secs(), "max_request": job.limits.request_bytes,
        "outstanding": job.limits.outstanding_calls, "credit": OUTPUT_WINDOW,
        "rlimits": [["RLIMIT_CORE", 0], ["RLIMIT_FSIZE", job.limits.disk]],
        "sha256": seal::hex(&seal::digest(job.code.as_bytes())),
    })
}

fn u32_bytes(number: usize) -> Result<Vec<u8>, BackendError> {
    let number = u32::try_from(number).map_err(|_| BackendError::internal("a job is too large for its relay"))?;
    Ok(number.to_le_bytes().to_vec())
}

/// A run under way. Dropping it stops the script.
struct Running {
    relay: Option<Relay>,
    /// Lets the next run have a relay; given up together with this run's.
    slot: Option<OwnedSemaphorePermit>,
    environment: Arc<Environment>,
    io: RunIo,
    journal: Journal,
    calls: JoinSet<(u32, Bytes)>,
    dir: Option<String>,
    owed: u32,
    over: bool,
}

/// What one event means for the run.
enum Step {
    GoOn,
    Over(Result<Exit, BackendError>),
}

impl Running {
    async fn drive(&mut self) -> Result<Exit, BackendError> {
        loop {
            let Some(relay) = self.relay.as_mut() else {
                return Err(BackendError::internal("a run lost its relay"));
            };
            let step = tokio::select! {
                frame = relay.recv() => match frame {
                    Ok(frame) => self.frame(frame).await?,
                    Err(error) => return self.lost(&error).await,
                },
                Some(done) = self.calls.join_next() => self.answered(done).await,
            };
            if let Step::Over(result) = step {
                return result;
            }
        }
    }

    async fn frame(&mut self, frame: Frame) -> Result<Step, BackendError> {
        let mut payload = frame.payload;
        match frame.kind {
            FromRelay::Output => {
                self.output(payload);
                self.give_credit().await;
            }
            FromRelay::Call => {
                let (Ok(seq), Ok(fault)) = (take_u32(&mut payload), take_u8(&mut payload)) else {
                    return Err(self.garbled("a short call"));
                };
                let verdict = if fault == 0 {
                    self.journal.accept(seq, &payload)
                } else {
                    self.journal.accept_fault(seq, &String::from_utf8_lossy(&payload))
                };
                return Ok(self.judge(verdict).await);
            }
            FromRelay::Unsent => {
                if let (Ok(seq), Ok(errno)) = (take_u32(&mut payload), take_u32(&mut payload))
                    && let Some(answer) = self.journal.unsent(seq, errno)
                {
                    self.send_answer(answer).await;
                }
            }
            FromRelay::Started => {
                let started: Started = self.json(&payload)?;
                tracing::debug!(dir = %started.dir, bell = %started.bell, "a script started");
                self.dir = Some(started.dir);
            }
            FromRelay::Exit => {
                let ended: Ended = self.json(&payload)?;
                return Ok(Step::Over(Ok(self.exit(&ended))));
            }
            FromRelay::Failed => {
                let failed: Failed = self.json(&payload)?;
                self.over = true;
                let label = self.relay.as_ref().map_or("the remote", Relay::label);
                return Ok(Step::Over(Err(BackendError::setup(format!(
                    "The script could not be started on {label}: {}.",
                    failed.message
                )))));
            }
            FromRelay::Hello | FromRelay::Filed | FromRelay::Pong | FromRelay::Swept => {}
        }
        Ok(Step::GoOn)
    }

    fn output(&mut self, mut payload: Bytes) {
        let stream = match take_u8(&mut payload) {
            Ok(1) => Stream::Stdout,
            Ok(_) => Stream::Stderr,
            Err(_) => return,
        };
        self.io.output.write(stream, &payload);
        self.owed = self.owed.saturating_add(u32::try_from(payload.len()).unwrap_or(u32::MAX));
    }

    async fn give_credit(&mut self) {
        if self.owed >= CREDIT_STEP
            && let Some(relay) = &self.relay
        {
            relay.send(ToRelay::Credit, &self.owed.to_le_bytes(), Bytes::new()).await;
            self.owed = 0;
        }
    }

    async fn judge(&mut self, verdict: Verdict) -> Step {
        match verdict {
            Verdict::Queued => self.dispatch(),
            Verdict::Send(answer) => self.send_answer(answer).await,
            Verdict::Nothing => {}
            Verdict::End(why) => {
                tracing::warn!(violations = self.journal.violations(), "ended a run: {why}");
                self.end_now().await;
                return Step::Over(Ok(Exit { cause: ExitCause::Protocol }));
            }
        }
        Step::GoOn
    }

    /// Ends the script and takes what it had printed: that may still be on its way, behind the call that broke the protocol.
    async fn end_now(&mut self) {
        if let Some(relay) = &self.relay {
            relay.send(ToRelay::Kill, &[], Bytes::new()).await;
        }
        let _late = tokio::time::timeout(LAST_WORDS, async {
            while let Some(relay) = self.relay.as_mut() {
                match relay.recv().await {
                    Ok(frame) if frame.kind == FromRelay::Output => {
                        self.output(frame.payload);
                        self.give_credit().await;
                    }
                    Ok(frame) if frame.kind == FromRelay::Exit => {
                        if let Ok(ended) = self.json::<Ended>(&frame.payload) {
                            self.exit(&ended);
                        }
                        return;
                    }
                    Ok(_) => {}
                    Err(_) => return,
                }
            }
        })
        .await;
    }

    fn dispatch(&mut self) {
        while let Some((seq, request)) = self.journal.next() {
            let port = self.io.calls.clone();
            self.calls.spawn(async move { (seq, port.call(request).await) });
        }
    }

    async fn answered(&mut self, done: Result<(u32, Bytes), tokio::task::JoinError>) -> Step {
        match done {
            Ok((seq, body)) => {
                if let Some(answer) = self.journal.answer(seq, &body) {
                    self.send_answer(answer).await;
                }
                self.dispatch();
                Step::GoOn
            }
            // The port never fails; a task that was cancelled or panicked means that this process is winding up.
            Err(error) => Step::Over(Err(BackendError::Internal {
                message: "a tool call was lost".into(),
                source: Some(Box::new(error)),
            })),
        }
    }

    async fn send_answer(&mut self, answer: journal::Outgoing) {
        if let Some(relay) = &self.relay {
            let mut small = [0; 8];
            small[..4].copy_from_slice(&answer.seq.to_le_bytes());
            small[4..].copy_from_slice(&answer.ring.to_le_bytes());
            relay.send(ToRelay::Answer, &small, answer.content).await;
        }
    }

    fn exit(&mut self, ended: &Ended) -> Exit {
        self.over = ended.left.is_empty() && ended.survivors == 0;
        if !self.over {
            tracing::warn!(left = ?ended.left, survivors = ended.survivors, "a run left something behind");
            // Such a relay is not used again; its end takes another try at what is left.
            self.relay = None;
        }
        let failed = ended.code != Some(0);
        let code = ended.code.or(ended.signal.map(|signal| -signal)).unwrap_or(-KILLED);
        let cause = match ended.cause.as_str() {
            "protocol" => {
                tracing::warn!(detail = %ended.detail, "a script broke the protocol");
                ExitCause::Protocol
            }
            _ if failed && ended.oom => ExitCause::Memory(code),
            _ => ExitCause::Code(code),
        };
        Exit { cause }
    }

    async fn lost(&mut self, error: &LinkError) -> Result<Exit, BackendError> {
        let Some(relay) = self.relay.take() else {
            return Err(BackendError::internal("a run lost its relay"));
        };
        let lost = relay.lost(error);
        let leftover = self.dir.take().map(|dir| (dir, relay.hello().pid, relay.hello().started));
        drop(relay);
        match self.environment.autopsy(leftover).await {
            Autopsy::OutOfMemory => Ok(Exit { cause: ExitCause::Memory(-KILLED) }),
            Autopsy::Gone(what) => Err(BackendError::Lost { message: what, source: Some(Box::new(error.clone())) }),
            Autopsy::Unknown => Err(lost),
        }
    }

    fn json<T: serde::de::DeserializeOwned>(&self, payload: &[u8]) -> Result<T, BackendError> {
        serde_json::from_slice(payload).map_err(|error| self.garbled(&error.to_string()))
    }

    fn garbled(&self, what: &str) -> BackendError {
        let label = self.relay.as_ref().map_or("the remote", Relay::label);
        BackendError::Lost {
            message: format!("Lost {label}: it does not speak the relay's protocol: {what}."),
            source: None,
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let Some(mut relay) = self.relay.take() else { return };
        if self.over {
            self.environment.give_back(relay);
            return;
        }
        // What was printed before the stop is in frames that nobody has looked at yet.
        while let Some(Ok(frame)) = relay.try_recv() {
            if frame.kind == FromRelay::Output {
                self.output(frame.payload);
            }
        }
        let environment = Arc::clone(&self.environment);
        // Without a runtime the relay is just dropped: its channel ends, and so does it.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let slot = self.slot.take();
            runtime.spawn(async move {
                wind_up(relay, environment).await;
                drop(slot);
            });
        }
    }
}

/// Ends a run that nobody waits for, and keeps its relay for the next one if all went well.
async fn wind_up(mut relay: Relay, environment: Arc<Environment>) {
    relay.send(ToRelay::Kill, &[], Bytes::new()).await;
    let credit = OUTPUT_WINDOW.to_le_bytes();
    let clean = async {
        loop {
            match relay.recv().await {
                Ok(frame) if frame.kind == FromRelay::Exit => {
                    let ended: Option<Ended> = serde_json::from_slice(&frame.payload).ok();
                    return ended.is_some_and(|ended| ended.left.is_empty() && ended.survivors == 0);
                }
                Ok(frame) if frame.kind == FromRelay::Output => {
                    relay.send(ToRelay::Credit, &credit, Bytes::new()).await;
                }
                Ok(frame) if frame.kind == FromRelay::Failed => return true,
                Ok(_) => {}
                Err(_) => return false,
            }
        }
    };
    if tokio::time::timeout(WIND_UP, clean).await.unwrap_or(false) {
        environment.give_back(relay);
    }
}
