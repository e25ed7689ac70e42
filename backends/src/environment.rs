//! Environments: what runs of one `task_id` share, made on first use and given up when idle.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use gloveport::backend::BackendError;
use serde_json::json;
use tokio::sync::{OnceCell, OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::bundle::RelayOptions;
use crate::files::FileChannel;
use crate::frame::{FromRelay, ToRelay};
use crate::relay::Relay;
use crate::remote::{Autopsy, Remote};

/// Runs at the same time in one environment; further ones wait for a relay.
const MAX_RELAYS: usize = 24;
/// Relays that are started at the same time: a crowd of fresh interpreters would only slow one another down.
const MAX_STARTS: usize = 4;
/// Relays kept once nothing runs any more, and for how long more than that are kept.
const KEPT_RELAYS: usize = 2;
const KEEP_ALL: Duration = Duration::from_secs(20);
/// How long finding out about a broken link may take.
const AUTOPSY: Duration = Duration::from_secs(3);
/// How long a new channel may take to remove what a lost relay left.
const JANITOR: Duration = Duration::from_secs(5);
/// How often idle environments are looked for.
const REAP_EVERY: Duration = Duration::from_secs(5);

/// Makes remotes, one for each `task_id`.
#[async_trait]
pub trait Provider: Send + Sync {
    /// Makes the remote of an environment. Errors are the user's: they say what is missing.
    async fn create(&self, task_id: &str) -> Result<Arc<dyn Remote>, BackendError>;

    /// Removes what earlier processes left behind. Called once, when the first environment is there.
    async fn sweep(&self) {}
}

/// How many environments there may be, and for how long.
#[derive(Debug, Clone, Copy)]
pub struct PoolLimits {
    /// Environments at the same time. When there are as many, the one that is idle for longest makes room.
    pub environments: usize,
    /// How long an environment without a run is kept.
    pub idle: Duration,
}

impl Default for PoolLimits {
    fn default() -> Self {
        Self { environments: 16, idle: Duration::from_secs(300) }
    }
}

/// One environment.
pub(crate) struct Environment {
    remote: Arc<dyn Remote>,
    python: String,
    options: RelayOptions,
    idle: Mutex<Vec<Relay>>,
    slots: Arc<Semaphore>,
    starts: Semaphore,
    files: tokio::sync::Mutex<Option<FileChannel>>,
    users: AtomicUsize,
    last_used: Mutex<Instant>,
}

impl Environment {
    /// A relay for one run: one that waits, or a new one. The permit is to be held until the relay is given back or dropped.
    pub(crate) async fn relay(&self) -> Result<(Relay, OwnedSemaphorePermit), BackendError> {
        self.touch();
        let slot = Arc::clone(&self.slots).acquire_owned().await.map_err(|_| closed())?;
        Ok((self.idle_or_new().await?, slot))
    }

    async fn idle_or_new(&self) -> Result<Relay, BackendError> {
        loop {
            let waiting = lock(&self.idle).pop();
            match waiting {
                Some(mut relay) => {
                    if relay.is_idle() {
                        return Ok(relay);
                    }
                }
                None => return self.start_relay().await,
            }
        }
    }

    async fn start_relay(&self) -> Result<Relay, BackendError> {
        let _turn = self.starts.acquire().await.map_err(|_| closed())?;
        Relay::start(&*self.remote, &self.python, &self.options).await
    }

    /// Ends relays that a crowd needed and nobody needs any more.
    fn trim(&self) {
        if self.idle_for().is_some_and(|idle| idle >= KEEP_ALL) {
            lock(&self.idle).truncate(KEPT_RELAYS);
        }
    }

    /// Takes a relay back whose run ended cleanly.
    pub(crate) fn give_back(&self, relay: Relay) {
        self.touch();
        lock(&self.idle).push(relay);
    }

    /// The channel for the tools, made on first use and again when it broke.
    pub(crate) async fn files(&self) -> Result<FileChannel, BackendError> {
        self.touch();
        let mut slot = self.files.lock().await;
        if let Some(channel) = slot.as_ref().filter(|channel| channel.is_open()) {
            return Ok(channel.clone());
        }
        let relay = self.start_relay().await?;
        Ok(slot.insert(FileChannel::spawn(relay)).clone())
    }

    /// Why a link broke. What its relay may have left is removed meanwhile.
    pub(crate) async fn autopsy(self: &Arc<Self>, leftover: Option<(String, u32, u64)>) -> Autopsy {
        let verdict = timeout(AUTOPSY, self.remote.autopsy()).await.unwrap_or(Autopsy::Unknown);
        if let (Autopsy::Unknown, Some((dir, pid, started))) = (&verdict, leftover) {
            let environment = Arc::clone(self);
            tokio::spawn(async move {
                if !matches!(timeout(JANITOR, environment.sweep(&dir, pid, started)).await, Ok(true)) {
                    tracing::warn!(remote = %environment.remote.label(), %dir, "a lost run may have left its directory; the next start sweeps it");
                }
            });
        }
        verdict
    }

    async fn sweep(&self, dir: &str, pid: u32, started: u64) -> bool {
        let Ok(mut relay) = Relay::start(&*self.remote, &self.python, &self.options).await else {
            return false;
        };
        let wanted = json!({"dir": dir, "pid": pid, "started": started}).to_string();
        relay.send(ToRelay::Sweep, wanted.as_bytes(), Bytes::new()).await;
        while let Ok(frame) = relay.recv().await {
            if frame.kind == FromRelay::Swept {
                return true;
            }
        }
        false
    }

    fn touch(&self) {
        *lock(&self.last_used) = Instant::now();
    }

    fn idle_for(&self) -> Option<Duration> {
        (self.users.load(Ordering::Acquire) == 0).then(|| lock(&self.last_used).elapsed())
    }

    async fn close(&self) {
        lock(&self.idle).clear();
        *self.files.lock().await = None;
        self.remote.close().await;
    }
}

/// An environment in use; it is not given up meanwhile.
pub(crate) struct Lease {
    environment: Arc<Environment>,
    /// Whether this use made it.
    pub(crate) fresh: bool,
}

impl Lease {
    fn new(environment: Arc<Environment>, fresh: bool) -> Self {
        environment.users.fetch_add(1, Ordering::AcqRel);
        environment.touch();
        Self { environment, fresh }
    }

    /// The environment.
    pub(crate) fn get(&self) -> &Arc<Environment> {
        &self.environment
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.environment.touch();
        self.environment.users.fetch_sub(1, Ordering::AcqRel);
    }
}

type Slot = Arc<OnceCell<Arc<Environment>>>;

/// All environments of one backend.
pub struct EnvironmentPool {
    provider: Arc<dyn Provider>,
    python: String,
    options: RelayOptions,
    limits: PoolLimits,
    slots: Mutex<HashMap<String, Slot>>,
    started: OnceCell<()>,
}

impl EnvironmentPool {
    pub(crate) fn new(
        provider: Arc<dyn Provider>,
        python: String,
        options: RelayOptions,
        limits: PoolLimits,
    ) -> Arc<Self> {
        Arc::new(Self {
            provider,
            python,
            options,
            limits,
            slots: Mutex::new(HashMap::new()),
            started: OnceCell::new(),
        })
    }

    /// The environment of a task. Concurrent first users share one creation; one that is found dead is made anew.
    pub(crate) async fn lease(self: &Arc<Self>, task_id: &str) -> Result<Lease, BackendError> {
        let lease = self.enter(task_id).await?;
        self.started.get_or_init(|| self.start()).await;
        if lease.fresh || lease.get().remote.alive().await {
            return Ok(lease);
        }
        self.discard(task_id, lease.get());
        self.enter(task_id).await
    }

    async fn enter(&self, task_id: &str) -> Result<Lease, BackendError> {
        let slot = self.slot(task_id)?;
        let mut fresh = false;
        let environment = slot
            .get_or_try_init(|| async {
                fresh = true;
                let remote = self.provider.create(task_id).await?;
                Ok::<_, BackendError>(Arc::new(Environment {
                    remote,
                    python: self.python.clone(),
                    options: self.options.clone(),
                    idle: Mutex::default(),
                    slots: Arc::new(Semaphore::new(MAX_RELAYS)),
                    starts: Semaphore::new(MAX_STARTS),
                    files: tokio::sync::Mutex::default(),
                    users: AtomicUsize::new(0),
                    last_used: Mutex::new(Instant::now()),
                }))
            })
            .await?;
        Ok(Lease::new(Arc::clone(environment), fresh))
    }

    /// Gives up an environment that does not work any more; the next lease makes a new one.
    pub(crate) fn discard(&self, task_id: &str, broken: &Arc<Environment>) {
        let mut slots = lock(&self.slots);
        if slots.get(task_id).and_then(|slot| slot.get()).is_some_and(|current| Arc::ptr_eq(current, broken)) {
            slots.remove(task_id);
        }
        drop(slots);
        close_later(Arc::clone(broken));
    }

    /// Ends all environments and waits until they are gone.
    pub async fn shutdown(&self) {
        let slots: Vec<Slot> = lock(&self.slots).drain().map(|(_, slot)| slot).collect();
        for environment in slots.iter().filter_map(|slot| slot.get()) {
            environment.close().await;
        }
    }

    /// Ends the environment of one task; whether there was one.
    pub async fn stop(&self, task_id: &str) -> bool {
        let slot = lock(&self.slots).remove(task_id);
        match slot.as_ref().and_then(|slot| slot.get()) {
            Some(environment) => {
                environment.close().await;
                true
            }
            None => false,
        }
    }

    /// The environments of this process: task, remote, seconds without a run (`None` while one is under way).
    pub fn list(&self) -> Vec<(String, String, Option<Duration>)> {
        let slots = lock(&self.slots);
        let mut rows: Vec<_> = slots
            .iter()
            .filter_map(|(task, slot)| slot.get().map(|e| (task.clone(), e.remote.label(), e.idle_for())))
            .collect();
        rows.sort();
        rows
    }

    /// Begins to look after environments, once there is one.
    async fn start(self: &Arc<Self>) {
        let provider = Arc::clone(&self.provider);
        tokio::spawn(async move { provider.sweep().await });
        tokio::spawn(reap(Arc::downgrade(self)));
    }

    fn slot(&self, task_id: &str) -> Result<Slot, BackendError> {
        let mut slots = lock(&self.slots);
        if let Some(slot) = slots.get(task_id) {
            return Ok(Arc::clone(slot));
        }
        if slots.len() >= self.limits.environments {
            let oldest = slots
                .iter()
                .filter_map(|(task, slot)| Some((slot.get()?.idle_for()?, task.clone())))
                .max()
                .ok_or_else(|| {
                    BackendError::setup(format!("All {} environments are in use.", self.limits.environments))
                })?;
            if let Some(environment) = slots.remove(&oldest.1).and_then(|slot| slot.get().cloned()) {
                close_later(environment);
            }
        }
        Ok(Arc::clone(slots.entry(task_id.to_owned()).or_default()))
    }

    fn take_idle(&self) -> Vec<Arc<Environment>> {
        let mut taken = Vec::new();
        lock(&self.slots).retain(|_, slot| {
            if let Some(environment) = slot.get() {
                environment.trim();
            }
            let idle = slot.get().filter(|e| e.idle_for().is_some_and(|idle| idle >= self.limits.idle));
            taken.extend(idle.cloned());
            idle.is_none()
        });
        taken
    }
}

impl std::fmt::Debug for EnvironmentPool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EnvironmentPool").field("limits", &self.limits).finish_non_exhaustive()
    }
}

/// Ends environments that nobody used for a while, as long as the pool is there.
async fn reap(pool: Weak<EnvironmentPool>) {
    loop {
        tokio::time::sleep(REAP_EVERY).await;
        let Some(pool) = pool.upgrade() else { return };
        for environment in pool.take_idle() {
            environment.close().await;
        }
    }
}

fn closed() -> BackendError {
    BackendError::internal("the environment is closed")
}

fn close_later(environment: Arc<Environment>) {
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        runtime.spawn(async move { environment.close().await });
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing that runs under these locks can panic half way.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
