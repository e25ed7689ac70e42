//! What the host keeps for one instance.

use wasmtime::Memory;
use wasmtime_wasi::p1::WasiP1Ctx;

use super::files::FileBudget;
use super::host_call::HostCalls;
use super::limiter::MemoryLimiter;
use super::streams::GuestStreams;

/// The data of a store.
pub(super) struct Guest {
    pub(super) wasi: WasiP1Ctx,
    pub(super) limiter: MemoryLimiter,
    pub(super) calls: HostCalls,
    pub(super) streams: GuestStreams,
    pub(super) files: FileBudget,
    /// Whether the run made a system call that could have left a trace in its directories.
    pub(super) used_files: bool,
    /// The instance's memory, known once it is instantiated.
    pub(super) memory: Option<Memory>,
}

/// The script ended its process: `os._exit`, or the interpreter itself. Any code, also those that WASI has no place for.
#[derive(Debug, thiserror::Error)]
#[error("the script ended with code {0}")]
pub(super) struct ProcessExit(pub(super) i32);

/// The script broke the protocol of the host call in a way that only hostile code can.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct ProtocolViolation(pub(super) &'static str);
