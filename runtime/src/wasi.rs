//! The local backend: CPython on WASI inside wasmtime, in this process.
//!
//! Each run gets a fresh `Store` and a fresh instance of an image whose interpreter is already started; the image is mapped copy-on-write. What
//! it can reach is what this module links: WASI preview 1 with private storage and the granted directory, and one host call for tools.
//!
//! Not here: sockets, processes, the host's environment, and compiling WebAssembly that a script supplies.

mod choice;
mod engine;
mod files;
mod grants;
mod guest;
mod host_call;
mod image;
pub mod images;
mod limiter;
mod private_dir;
mod run;
mod stacks;
mod streams;
mod syscalls;
mod written;

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;

use crate::backend::{Backend, BackendError, Capabilities, Exit, ImageUsed, Isolation, RunIo};
use crate::config::ImageChoice;
use crate::job::Job;
use engine::Shared;

/// Runs at the same time unless set otherwise: each may take its whole memory limit.
const DEFAULT_CONCURRENT: usize = 100;

/// How instances get their memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Allocation {
    /// Mapped when a run starts. No cost before the first run: right for one run a process.
    OnDemand,
    /// From a pool of this many slots made in advance: the fastest start, for servers and batches. Runs beyond the pool wait for a slot.
    Pooled(u32),
}

/// Where the backend keeps things, and how it allocates.
#[derive(Debug, Clone)]
pub struct WasiOptions {
    /// Directory for the unpacked guest image, made with mode 0700. Anyone who could write there could run code in this process.
    pub cache_dir: PathBuf,
    /// Directory under which each run's private storage is made.
    pub scratch_dir: PathBuf,
    /// How instances get their memory.
    pub allocation: Allocation,
    /// Runs at the same time; further ones wait.
    pub max_concurrent: usize,
    /// Which image runs scripts.
    pub image: ImageChoice,
}

impl WasiOptions {
    /// The options of a program that runs one script at a time, with the usual directories: the cache in `$XDG_CACHE_HOME/gloveport` or
    /// `$HOME/.cache/gloveport`, private storage in the directory for temporary files.
    pub fn from_environment(environment: &[(OsString, OsString)]) -> Self {
        let directory = |name: &str| {
            let value = environment.iter().find(|(known, _)| known == name).map(|(_, value)| PathBuf::from(value));
            // A relative path would name another place in each working directory.
            value.filter(|path| path.is_absolute())
        };
        let user = rustix::process::geteuid().as_raw();
        let temporary = directory("TMPDIR").unwrap_or_else(|| "/tmp".into());
        let cache_dir = directory("XDG_CACHE_HOME")
            .or_else(|| directory("HOME").map(|home| home.join(".cache")))
            .map_or_else(|| temporary.join(format!("gloveport-cache-{user}")), |cache| cache.join("gloveport"));
        let scratch_dir = temporary.join(format!("gloveport-{user}"));
        Self {
            cache_dir,
            scratch_dir,
            allocation: Allocation::OnDemand,
            max_concurrent: DEFAULT_CONCURRENT,
            image: ImageChoice::Slim,
        }
    }
}

/// Runs scripts in this process, sealed by WebAssembly. Cheap to clone.
#[derive(Clone)]
pub struct WasiBackend {
    shared: Arc<Shared>,
}

impl WasiBackend {
    /// Maps the guest image, unpacking it first if this machine has not seen it yet.
    ///
    /// # Errors
    /// When the image can't be unpacked or does not fit this build or processor.
    pub fn new(options: &WasiOptions) -> Result<Self, BackendError> {
        Ok(Self { shared: Arc::new(Shared::new(options)?) })
    }

    /// The image that runs scripts; with [`ImageChoice::Auto`] the one for those that import nothing special.
    pub fn image(&self) -> &ImageUsed {
        &self.shared.images.first().about.used
    }
}

#[async_trait]
impl Backend for WasiBackend {
    fn name(&self) -> &'static str {
        "wasi"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            isolation: Isolation::Wasm,
            memory: true,
            disk: true,
            processes: true,
            network_denied: true,
            files_confined: true,
            needs_approval: false,
        }
    }

    async fn run(&self, job: &Job, io: RunIo) -> Result<Exit, BackendError> {
        run::run(&self.shared, job, io).await
    }
}
