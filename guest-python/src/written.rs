//! Which pages of an image every run writes to.
//!
//! The runtime has these copied in one go when it makes an instance. Copied one by one, as the guest comes to them, each costs a page fault.

use wasmtime::{Engine, Linker, Module, Result, Store, ensure};
use wasmtime_wasi::WasiCtx;
use wasmtime_wasi::p1::{self, WasiP1Ctx};

use crate::engine::PAGE;
use crate::snapshot::call_with;

/// A script that does what all scripts do, and the header of its run (see ABI.md).
const SCRIPT: &str = "print('written')\n";
const HEADER: &str = r#"{"argv":["script.py"],"filename":"script.py","cwd":null,"path":[],"module":"hermes_tools","tools":"[]","tz":null,"project":false}"#;

/// Clean pages between written ones that are taken along: a call of the kernel costs more than copying them.
const GAP: usize = 1;

/// The pages that a small script writes to, as pairs of the first one and their number, in ascending order.
pub(crate) fn pages(engine: &Engine, code: &[u8]) -> Result<Vec<(u32, u32)>> {
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    runtime.block_on(run_and_compare(engine, code))
}

async fn run_and_compare(engine: &Engine, code: &[u8]) -> Result<Vec<(u32, u32)>> {
    #[expect(unsafe_code, reason = "wasmtime can't know where machine code comes from")]
    // SAFETY: the caller has just compiled it with this engine.
    let module = unsafe { Module::deserialize(engine, code) }?;
    let mut linker = Linker::new(engine);
    p1::add_to_linker_async(&mut linker, |context: &mut WasiP1Ctx| context)?;
    linker.func_wrap("gloveport", "call", |_: u32, _: u32, _: u32, _: u32| 0_i32)?;
    let mut store = Store::new(engine, WasiCtx::builder().allow_blocking_current_thread(true).build_p1());
    store.set_epoch_deadline(1);
    let instance = linker.instantiate_async(&mut store, &module).await?;
    let memory = instance.get_memory(&mut store, "memory").ok_or_else(|| wasmtime::Error::msg("no memory"))?;
    let before = memory.data(&store).to_vec();

    let mut argument = u32::try_from(HEADER.len())?.to_le_bytes().to_vec();
    argument.extend_from_slice(HEADER.as_bytes());
    argument.extend_from_slice(SCRIPT.as_bytes());
    let status = call_with(&mut store, &instance, "gloveport_run", &argument).await?;
    ensure!(status == 0, "the first run of the image ended with {status}");
    differing(&before, memory.data(&store))
}

fn differing(before: &[u8], after: &[u8]) -> Result<Vec<(u32, u32)>> {
    let mut found: Vec<(usize, usize)> = Vec::new();
    for (page, (old, new)) in before.chunks(PAGE).zip(after.chunks(PAGE)).enumerate() {
        if old == new {
            continue;
        }
        match found.last_mut() {
            Some((first, count)) if page <= *first + *count + GAP => *count = page + 1 - *first,
            _ => found.push((page, 1)),
        }
    }
    found.into_iter().map(|(first, count)| Ok((u32::try_from(first)?, u32::try_from(count)?))).collect()
}
