//! What all runs of one backend share: the engine, the mapped image, the linked imports, the ticker.

use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};
use wasmtime::{Engine, InstanceAllocationStrategy, InstancePre, Linker, Module, PoolingAllocationConfig};

use super::guest::Guest;
use super::private_dir::ScratchSpace;
use super::{Allocation, WasiOptions, host_call, image, syscalls};
use crate::backend::BackendError;

/// How often running guests are interrupted to see whether they have to stop, and to show what they printed.
const TICK: Duration = Duration::from_millis(5);
/// Largest memory of a pooled instance; the run's own limit is the limiter's business.
const POOL_MAX_MEMORY: usize = 4 << 30;
/// Table elements and instance bytes of a pooled slot: several times what the image has.
const POOL_TABLE_ELEMENTS: usize = 64 << 10;
const POOL_INSTANCE_BYTES: usize = 4 << 20;
/// Bytes of an instance that stay resident in a free slot: small, because what stays must be zeroed by hand.
const POOL_KEEP_RESIDENT: usize = 1 << 20;

/// What all runs share.
pub(super) struct Shared {
    pub(super) engine: Engine,
    pub(super) guest: InstancePre<Guest>,
    pub(super) scratch: ScratchSpace,
    pub(super) cache_dir: PathBuf,
    ticker: Ticker,
    slots: Semaphore,
    image_sha256: &'static str,
}

impl Shared {
    pub(super) fn new(options: &WasiOptions) -> Result<Self, BackendError> {
        let setup = |message: &'static str| {
            move |error: wasmtime::Error| BackendError::Setup { message: message.into(), source: Some(error.into()) }
        };
        let image = gloveport_guest::image();
        let engine = Engine::new(&config(options.allocation)).map_err(setup("the WebAssembly engine can't start"))?;
        let path = image::lay(&image, &options.cache_dir)?;
        let module = map(&engine, &path)
            .map_err(setup("the guest image does not fit this processor or build; build Gloveport on this machine"))?;
        let guest = link(&engine, &module).map_err(setup("the guest image imports what the host does not offer"))?;
        let scratch = ScratchSpace::new(&options.scratch_dir).map_err(|error| BackendError::Setup {
            message: format!("private storage can't be made in {}: {error}", options.scratch_dir.display()),
            source: Some(error.into()),
        })?;
        let slots = match options.allocation {
            Allocation::OnDemand => options.max_concurrent,
            Allocation::Pooled(slots) => options.max_concurrent.min(slots as usize),
        };
        Ok(Self {
            ticker: Ticker::new(engine.clone())?,
            engine,
            guest,
            scratch,
            cache_dir: options.cache_dir.clone(),
            slots: Semaphore::new(slots.max(1)),
            image_sha256: image.sha256,
        })
    }

    pub(super) fn image_sha256(&self) -> &'static str {
        self.image_sha256
    }

    /// Waits for a free slot, and keeps the ticker going while the run holds it.
    pub(super) async fn slot(&self) -> Result<Slot<'_>, BackendError> {
        let permit = self.slots.acquire().await.map_err(|_| BackendError::internal("the backend is shut down"))?;
        Ok(Slot { _permit: permit, _ticking: self.ticker.ticking() })
    }
}

/// The right to run one instance.
pub(super) struct Slot<'a> {
    _permit: SemaphorePermit<'a>,
    _ticking: Ticking<'a>,
}

fn config(allocation: Allocation) -> wasmtime::Config {
    let mut config = gloveport_guest::engine::config();
    if let Allocation::Pooled(slots) = allocation {
        let mut pool = PoolingAllocationConfig::default();
        pool.total_core_instances(slots)
            .total_memories(slots)
            .total_tables(slots)
            .total_stacks(slots)
            .max_memory_size(POOL_MAX_MEMORY)
            .table_elements(POOL_TABLE_ELEMENTS)
            .max_core_instance_size(POOL_INSTANCE_BYTES)
            .linear_memory_keep_resident(POOL_KEEP_RESIDENT)
            .table_keep_resident(POOL_KEEP_RESIDENT)
            .max_unused_warm_slots(slots);
        if cfg!(target_os = "linux") {
            pool.pagemap_scan(wasmtime::Enabled::Auto);
        }
        config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool));
    }
    config
}

fn map(engine: &Engine, path: &std::path::Path) -> wasmtime::Result<Module> {
    #[expect(unsafe_code, reason = "wasmtime can't know where machine code comes from")]
    // SAFETY: `image::lay` returns a file in a directory that only this user can write, whose bytes were checked against the hash of
    // the machine code that the build script made with this same engine configuration.
    unsafe {
        Module::deserialize_file(engine, path)
    }
}

fn link(engine: &Engine, module: &Module) -> wasmtime::Result<InstancePre<Guest>> {
    let mut linker = Linker::new(engine);
    wasmtime_wasi::p1::add_to_linker_async(&mut linker, |guest: &mut Guest| &mut guest.wasi)?;
    linker.allow_shadowing(true);
    syscalls::add_to_linker(&mut linker)?;
    linker.allow_shadowing(false);
    host_call::add_to_linker(&mut linker)?;
    linker.instantiate_pre(module)
}

/// Advances the engine's epoch while anything runs, from a thread of its own: it must work when every thread of the async runtime is busy.
struct Ticker {
    state: Arc<TickerState>,
}

#[derive(Default)]
struct TickerState {
    running: Mutex<Running>,
    wake: Condvar,
}

#[derive(Default)]
struct Running {
    count: usize,
    stopped: bool,
}

impl Ticker {
    fn new(engine: Engine) -> Result<Self, BackendError> {
        let state = Arc::new(TickerState::default());
        let of_thread = Arc::clone(&state);
        std::thread::Builder::new().name("gloveport-ticker".into()).spawn(move || of_thread.tick(&engine)).map_err(
            |error| BackendError::Setup { message: "the ticker thread can't start".into(), source: Some(error.into()) },
        )?;
        Ok(Self { state })
    }

    fn ticking(&self) -> Ticking<'_> {
        self.state.lock().count += 1;
        self.state.wake.notify_one();
        Ticking { state: &self.state }
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.state.lock().stopped = true;
        self.state.wake.notify_one();
    }
}

impl TickerState {
    fn lock(&self) -> std::sync::MutexGuard<'_, Running> {
        // Only counters: a panic elsewhere leaves them whole.
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tick(&self, engine: &Engine) {
        let mut running = self.lock();
        while !running.stopped {
            if running.count == 0 {
                running = self.wake.wait(running).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            drop(running);
            std::thread::sleep(TICK);
            engine.increment_epoch();
            running = self.lock();
        }
    }
}

/// Keeps the ticker going until dropped.
struct Ticking<'a> {
    state: &'a TickerState,
}

impl Drop for Ticking<'_> {
    fn drop(&mut self) {
        let mut running = self.state.lock();
        running.count = running.count.saturating_sub(1);
    }
}
