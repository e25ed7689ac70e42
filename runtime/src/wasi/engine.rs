//! What all runs of one backend share: the engine, the mapped image, the linked imports, the ticker.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use gloveport_guest::engine::Exceptions;
use tokio::sync::{Semaphore, SemaphorePermit};
use wasmtime::{Engine, InstanceAllocationStrategy, InstancePre, Linker, Module, PoolingAllocationConfig};

use super::guest::Guest;
use super::images::{Images, SLIM};
use super::private_dir::ScratchSpace;
use super::stacks::Stacks;
use super::{Allocation, WasiOptions, host_call, syscalls};
use crate::backend::{BackendError, ImageUsed};

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
    pub(super) images: Images,
    pub(super) scratch: ScratchSpace,
    pub(super) cache_dir: PathBuf,
    slots: Semaphore,
}

impl Shared {
    pub(super) fn new(options: &WasiOptions) -> Result<Self, BackendError> {
        let scratch = ScratchSpace::new(&options.scratch_dir).map_err(|error| BackendError::Setup {
            message: format!("private storage can't be made in {}: {error}", options.scratch_dir.display()),
            source: Some(error.into()),
        })?;
        let slots = match options.allocation {
            Allocation::OnDemand => options.max_concurrent,
            Allocation::Pooled(slots) => options.max_concurrent.min(slots as usize),
        };
        Ok(Self {
            images: Images::new(options)?,
            scratch,
            cache_dir: options.cache_dir.clone(),
            slots: Semaphore::new(slots.max(1)),
        })
    }

    /// Waits for a free slot.
    pub(super) async fn slot(&self) -> Result<SemaphorePermit<'_>, BackendError> {
        self.slots.acquire().await.map_err(|_| BackendError::internal("the backend is shut down"))
    }
}

/// What is known about an image beside its machine code.
pub(super) struct About {
    pub(super) exceptions: Exceptions,
    /// The directory that its guests see as their library.
    pub(super) library: Option<PathBuf>,
    /// Pages of the memory that every run writes to: first page and number of pages.
    pub(super) written: Vec<(u32, u32)>,
    pub(super) used: ImageUsed,
}

/// An image that is mapped and linked.
pub(super) struct Loaded {
    pub(super) engine: Engine,
    pub(super) guest: InstancePre<Guest>,
    pub(super) about: About,
    ticker: Ticker,
}

impl Loaded {
    /// Maps checked machine code.
    pub(super) fn new(code: &Path, about: About, allocation: Allocation) -> Result<Self, BackendError> {
        let used = &about.used;
        let setup =
            |message: String| move |error: wasmtime::Error| BackendError::Setup { message, source: Some(error.into()) };
        let engine = Engine::new(&config(allocation, about.exceptions))
            .map_err(setup("the WebAssembly engine can't start".to_owned()))?;
        let again = match used.name.as_str() {
            SLIM => "build Gloveport on this machine".to_owned(),
            name => format!("make it again with `gloveport image build {name}`"),
        };
        let module = map(&engine, code).map_err(setup(format!(
            "the image {} was made by another version of Gloveport or for another processor; {again}",
            used.name
        )))?;
        let guest = link(&engine, &module)
            .map_err(setup(format!("the image {} imports what the host does not offer", used.name)))?;
        Ok(Self { ticker: Ticker::new(engine.clone())?, engine, guest, about })
    }

    /// Keeps the epochs going while a run of the image holds this.
    pub(super) fn ticking(&self) -> Ticking<'_> {
        self.ticker.ticking()
    }
}

fn config(allocation: Allocation, exceptions: Exceptions) -> wasmtime::Config {
    let mut config = gloveport_guest::engine::config(exceptions);
    // The pool has stacks of its own.
    config.with_host_stack(Arc::new(Stacks::default()));
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
        if exceptions == Exceptions::On {
            // The heap of exceptions lies in a memory of its own.
            pool.total_gc_heaps(slots).total_memories(slots.saturating_mul(2));
        }
        if cfg!(target_os = "linux") {
            pool.pagemap_scan(wasmtime::Enabled::Auto);
        }
        config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool));
    }
    config
}

fn map(engine: &Engine, path: &Path) -> wasmtime::Result<Module> {
    #[expect(unsafe_code, reason = "wasmtime can't know where machine code comes from")]
    // SAFETY: the file lies in a directory that only this user can write, and its bytes were checked: against the hash of the machine
    // code that the build script made (`image::lay`), or that this user's own build of an image wrote down (`images::open`).
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
pub(super) struct Ticking<'a> {
    state: &'a TickerState,
}

impl Drop for Ticking<'_> {
    fn drop(&mut self) {
        let mut running = self.state.lock();
        running.count = running.count.saturating_sub(1);
    }
}
