//! Runs a base to the point where the shim has imported the library, and returns a module that starts there.

use std::path::Path;
use std::time::Duration;

use wasmtime::error::Context as _;
use wasmtime::{Caller, Engine, Extern, Instance, Linker, Memory, Module, OptLevel, Result, Store, Val, ensure};
use wasmtime_wasi::p1::{self, WasiP1Ctx, wasi_snapshot_preview1 as preview1};
use wasmtime_wasi::{FsPerms, HostMonotonicClock, HostWallClock, WasiCtx};
use wasmtime_wizer::{InstanceState, SnapshotVal, ValType, Wizer};
use wiggle::GuestMemory;

use crate::engine::{self, Exceptions};

/// The instant, in seconds since 1970, that the guest reads before the snapshot. Fixed, so that the same inputs give the same image.
pub(crate) const SNAPSHOT_TIME: Duration = Duration::from_secs(1_767_225_600);

/// Opcode and refusal of the host call, see ABI.md.
const OP_OUTPUT: u8 = 5;
const ERR_MALFORMED: i32 = -1;

/// How a base is brought to the point of its snapshot.
pub(crate) struct Start<'a> {
    /// The export that starts the interpreter.
    init: &'static str,
    /// Host directories, the names that the guest sees, and what it may do there.
    grants: Vec<(&'a Path, &'a str, FsPerms)>,
    /// Python source that an adapted base runs after its start (see `making/adapter.rs`).
    code: Option<&'a str>,
    exceptions: Exceptions,
}

impl<'a> Start<'a> {
    /// Our own base: its start imports the shim from `boot` by itself.
    #[allow(dead_code, reason = "the build script takes this one, the library the next")]
    pub(crate) fn of_our_base(boot: &'a Path) -> Self {
        Self::of_our_base_with(vec![(boot, "/boot", FsPerms::ReadOnly)])
    }

    /// Our own base with more to see than `/boot`.
    pub(crate) fn of_our_base_with(grants: Vec<(&'a Path, &'a str, FsPerms)>) -> Self {
        Self { init: "wizer-initialize", grants, code: None, exceptions: Exceptions::Off }
    }

    /// An adapted base, that runs `code` before the snapshot.
    pub(crate) fn of_adapted_base(grants: Vec<(&'a Path, &'a str, FsPerms)>, code: &'a str) -> Self {
        Self { init: "wizer.initialize", grants, code: Some(code), exceptions: Exceptions::On }
    }
}

/// Takes the snapshot of `base`.
pub(crate) fn take(base: &[u8], start: &Start<'_>) -> Result<Vec<u8>> {
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    runtime.block_on(run_to_snapshot(base, start))
}

async fn run_to_snapshot(base: &[u8], start: &Start<'_>) -> Result<Vec<u8>> {
    let mut wizer = Wizer::new();
    wizer.init_func(start.init);
    let (context, instrumented) = wizer.instrument(base)?;
    let engine = build_engine(start.exceptions)?;
    let module = Module::new(&engine, instrumented).context("the base does not compile")?;
    let mut store = Store::new(&engine, wasi_context(start)?);
    let instance = linker(&engine)?.instantiate_async(&mut store, &module).await?;
    for export in ["_initialize", start.init] {
        let function = instance.get_typed_func::<(), ()>(&mut store, export)?;
        function
            .call_async(&mut store, ())
            .await
            .with_context(|| format!("the guest failed in {export} and says why above"))?;
    }
    if let Some(code) = start.code {
        run_code(&mut store, &instance, code).await?;
    }
    wizer.snapshot(&context, &mut State { store, instance }).await
}

/// Runs Python source in an adapted base, then makes it forget the descriptors of the build.
async fn run_code(store: &mut Store<WasiP1Ctx>, instance: &Instance, code: &str) -> Result<()> {
    let called = call_with(store, instance, "turn", code.as_bytes()).await;
    let status = called.context("the guest failed before its snapshot")?;
    ensure!(status == 0, "the guest failed before its snapshot (status {status}); it says why above");
    instance.get_typed_func::<(), ()>(&mut *store, "gloveport_seal")?.call_async(store, ()).await
}

/// Gives an export its argument, in memory that the guest allocates for it, and returns what it returns.
pub(crate) async fn call_with(
    store: &mut Store<WasiP1Ctx>,
    instance: &Instance,
    export: &str,
    argument: &[u8],
) -> Result<i32> {
    let memory = instance.get_memory(&mut *store, "memory").context("the guest has no memory")?;
    let len = u32::try_from(argument.len())?;
    let at = instance.get_typed_func::<u32, u32>(&mut *store, "gloveport_alloc")?.call_async(&mut *store, len).await?;
    memory.write(&mut *store, usize::try_from(at)?, argument)?;
    let function = instance.get_typed_func::<(u32, u32), i32>(&mut *store, export)?;
    function.call_async(store, (at, len)).await
}

/// The code of this engine runs once, for about a second, so it is compiled fast.
fn build_engine(exceptions: Exceptions) -> Result<Engine> {
    let mut config = engine::config(exceptions);
    config.cranelift_opt_level(OptLevel::None).epoch_interruption(false);
    Engine::new(&config)
}

/// The guest sees what it is granted, a clock that stands still and a random source that repeats itself, and nothing else.
fn wasi_context(start: &Start<'_>) -> Result<WasiP1Ctx> {
    let mut builder = WasiCtx::builder();
    builder
        .allow_blocking_current_thread(true)
        .stdout(std::io::stderr())
        .stderr(std::io::stderr())
        .wall_clock(StoppedClock)
        .monotonic_clock(StoppedClock)
        .secure_random(wasmtime_wasi::random::Deterministic::new(vec![0x5a; 32]))
        .insecure_random(wasmtime_wasi::random::Deterministic::new(vec![0x5a; 32]))
        .insecure_random_seed(0x5a);
    for (host, guest, perms) in &start.grants {
        builder.preopened_dir(host, guest, *perms)?;
    }
    Ok(builder.build_p1())
}

fn linker(engine: &Engine) -> Result<Linker<WasiP1Ctx>> {
    let mut linker = Linker::new(engine);
    p1::add_to_linker_async(&mut linker, |context| context)?;
    hide_identities(&mut linker)?;
    linker.func_wrap("gloveport", "call", refuse_call)?;
    Ok(linker)
}

/// Numbers and times of this machine's files would stay in the guest's memory, and the same inputs would not give the same snapshot.
fn hide_identities(linker: &mut Linker<WasiP1Ctx>) -> Result<()> {
    linker.allow_shadowing(true);
    linker.func_wrap_async(WASI, "fd_filestat_get", |caller, (fd, out): (i32, i32)| {
        Box::new(async move {
            let mut caller = caller;
            let (mut memory, context) = split(&mut caller)?;
            let errno = preview1::fd_filestat_get(context, &mut memory, fd, out).await?;
            hide_stat(&mut caller, errno, out)
        })
    })?;
    linker.func_wrap_async(WASI, "path_filestat_get", |caller, args: (i32, i32, i32, i32, i32)| {
        Box::new(async move {
            let mut caller = caller;
            let (fd, flags, path, len, out) = args;
            let (mut memory, context) = split(&mut caller)?;
            let errno = preview1::path_filestat_get(context, &mut memory, fd, flags, path, len, out).await?;
            hide_stat(&mut caller, errno, out)
        })
    })?;
    linker.func_wrap_async(WASI, "fd_readdir", |caller, args: (i32, i32, i32, i64, i32)| {
        Box::new(async move {
            let mut caller = caller;
            let (fd, buffer, len, cookie, used) = args;
            let (mut memory, context) = split(&mut caller)?;
            let errno = preview1::fd_readdir(context, &mut memory, fd, buffer, len, cookie, used).await?;
            hide_entries(&mut caller, buffer, used)?;
            Ok(errno)
        })
    })?;
    linker.allow_shadowing(false);
    Ok(())
}

const WASI: &str = "wasi_snapshot_preview1";
/// Places in a `filestat` of preview 1: device and inode, and the three times.
const STAT_IDENTITY: std::ops::Range<usize> = 0..16;
const STAT_TIMES: std::ops::Range<usize> = 40..64;
/// Size of a `dirent`, and the places of its inode and of the length of the name behind it.
const ENTRY_BYTES: usize = 24;
const ENTRY_INODE: std::ops::Range<usize> = 8..16;
const ENTRY_NAME_LENGTH: std::ops::Range<usize> = 16..20;

fn memory_of(caller: &mut Caller<'_, WasiP1Ctx>) -> Result<Memory> {
    caller.get_export("memory").and_then(Extern::into_memory).context("the guest has no memory")
}

fn split<'a>(caller: &'a mut Caller<'_, WasiP1Ctx>) -> Result<(GuestMemory<'a>, &'a mut WasiP1Ctx)> {
    let memory = memory_of(caller)?;
    let (data, context) = memory.data_and_store_mut(caller);
    Ok((GuestMemory::Unshared(data), context))
}

fn hide_stat(caller: &mut Caller<'_, WasiP1Ctx>, errno: i32, out: i32) -> Result<i32> {
    let memory = memory_of(caller)?;
    let at = usize::try_from(out.cast_unsigned())?;
    if errno == 0
        && let Some(stat) = memory.data_mut(caller).get_mut(at..at + STAT_TIMES.end)
    {
        stat[STAT_IDENTITY].fill(0);
        // A real time: archives can't hold one before 1980.
        let nanoseconds = u64::try_from(SNAPSHOT_TIME.as_nanos())?.to_le_bytes();
        for time in stat[STAT_TIMES].chunks_exact_mut(nanoseconds.len()) {
            time.copy_from_slice(&nanoseconds);
        }
    }
    Ok(errno)
}

fn hide_entries(caller: &mut Caller<'_, WasiP1Ctx>, buffer: i32, used: i32) -> Result<()> {
    let memory = memory_of(caller)?;
    let data = memory.data_mut(caller);
    let word = |data: &[u8], at: usize| -> Result<usize> {
        let bytes = data.get(at..at + 4).context("the guest passed a bad pointer")?;
        Ok(usize::try_from(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))?)
    };
    let used = word(data, usize::try_from(used.cast_unsigned())?)?;
    let mut at = usize::try_from(buffer.cast_unsigned())?;
    let end = at + used;
    // What does not fit whole is read again by the guest.
    while at + ENTRY_BYTES <= end {
        data[at + ENTRY_INODE.start..at + ENTRY_INODE.end].fill(0);
        at += ENTRY_BYTES + word(data, at + ENTRY_NAME_LENGTH.start)?;
    }
    Ok(())
}

/// The host call before the snapshot: there are no tools yet, but what the shim prints about its own failure must be seen.
fn refuse_call(
    mut caller: Caller<'_, WasiP1Ctx>,
    request: u32,
    request_len: u32,
    _reply: u32,
    _reply_capacity: u32,
) -> Result<i32> {
    let memory = caller.get_export("memory").and_then(Extern::into_memory).context("the guest has no memory")?;
    let start = usize::try_from(request)?;
    let end = start + usize::try_from(request_len)?;
    let message = memory.data(&caller).get(start..end).context("the guest passed a bad pointer")?;
    match message {
        [OP_OUTPUT, _stream, text @ ..] => {
            std::io::Write::write_all(&mut std::io::stderr(), text)?;
            Ok(0)
        }
        _ => Ok(ERR_MALFORMED),
    }
}

struct StoppedClock;

impl HostWallClock for StoppedClock {
    fn resolution(&self) -> Duration {
        Duration::from_nanos(1)
    }

    fn now(&self) -> Duration {
        SNAPSHOT_TIME
    }
}

impl HostMonotonicClock for StoppedClock {
    fn resolution(&self) -> u64 {
        1
    }

    fn now(&self) -> u64 {
        0
    }
}

/// How wizer reads the state of the instance. Its own version of this needs wasmtime features that nothing else here does,
/// and with them wasmtime would be compiled twice.
struct State {
    store: Store<WasiP1Ctx>,
    instance: Instance,
}

impl InstanceState for State {
    async fn global_get(&mut self, name: &str, _type: ValType) -> SnapshotVal {
        let global = self.instance.get_global(&mut self.store, name).expect("wizer exports the globals that it reads");
        match global.get(&mut self.store) {
            Val::I32(value) => SnapshotVal::I32(value),
            Val::I64(value) => SnapshotVal::I64(value),
            Val::F32(bits) => SnapshotVal::F32(bits),
            Val::F64(bits) => SnapshotVal::F64(bits),
            Val::V128(bits) => SnapshotVal::V128(bits.as_u128()),
            other => unreachable!("wizer refuses mutable globals of type {:?}", other),
        }
    }

    async fn memory_contents(&mut self, name: &str, contents: impl FnOnce(&[u8]) + Send) {
        let memory = self.instance.get_memory(&mut self.store, name).expect("wizer exports the memories that it reads");
        contents(memory.data(&self.store));
    }
}
