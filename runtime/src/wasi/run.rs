//! One run: a store, an instance, the script, and how it ended.

use bytes::{BufMut as _, Bytes, BytesMut};
use serde::Serialize;
use wasmtime::{Error, Instance, Store, Trap, UpdateDeadline, Val};
use wasmtime_wasi::{I32Exit, WasiCtxBuilder};

use std::path::{Path, PathBuf};

use super::choice;
use super::engine::{Loaded, Shared};
use super::files::{FileBudget, Layout};
use super::grants;
use super::guest::{Guest, ProcessExit, ProtocolViolation};
use super::host_call::{CallBounds, HostCalls};
use super::limiter::MemoryLimiter;
use super::private_dir::{PrivateDirs, ScratchSpace};
use super::streams::{GuestStreams, SinkStream};
use super::syscalls::HOSTCALL_BYTES;
use super::written;
use crate::backend::{BackendError, Exit, ExitCause, RunIo, Show, Stream};
use crate::job::{Job, Mode};

/// Exit code of a process that died of `abort()`.
const ABORTED: i32 = 128 + 6;

/// Runs one job. Dropping the future drops the instance; what it had printed reaches the sink first.
pub(super) async fn run(shared: &Shared, job: &Job, io: RunIo) -> Result<Exit, BackendError> {
    let _slot = shared.slot().await?;
    let image = choice::choose(shared, job, &io.calls).await?;
    let _ = io.image.set(image.about.used.clone());
    run_in(shared, &image, job, io).await
}

/// Runs one job in an image.
pub(super) async fn run_in(shared: &Shared, image: &Loaded, job: &Job, io: RunIo) -> Result<Exit, BackendError> {
    let _ticking = image.ticking();
    let grants = job.workspace.iter().filter(|_| job.mode == Mode::Project);
    let granted: Vec<PathBuf> =
        grants.map(|grant| grants::check(grant, &shared.cache_dir)).collect::<Result<_, _>>()?;
    // Declared before what is inside it, so that it goes last.
    let elsewhere = scratch_outside(shared, &granted)?;
    let private = elsewhere.as_ref().unwrap_or(&shared.scratch).for_run().map_err(scratch_error)?;
    let layout = Layout::new(job, &private, image.about.library.as_deref());
    let store = new_store(image, job, &io, &layout)?;
    let mut running = Running { store, private };
    let cause = running.execute(image, job, &layout, &io.show).await?;
    running.private.ended_by_itself(running.store.data().used_files);
    Ok(Exit { cause })
}

/// Private storage of its own for a run whose grant holds the usual place: no run may see another's.
fn scratch_outside(shared: &Shared, granted: &[PathBuf]) -> Result<Option<ScratchSpace>, BackendError> {
    let is_granted = |dir: &Path| granted.iter().any(|grant| grants::overlaps(grant, &grants::real(dir)));
    if !is_granted(shared.scratch.root()) {
        return Ok(None);
    }
    let user = rustix::process::geteuid().as_raw();
    let places = ["/var/tmp", "/dev/shm"].map(|place| Path::new(place).join(format!("gloveport-{user}")));
    match places.iter().find(|place| !is_granted(place)) {
        Some(place) => ScratchSpace::new(place).map(Some).map_err(scratch_error),
        None => {
            Err(BackendError::setup("the granted directory holds the private storage of runs; grant a smaller one"))
        }
    }
}

fn scratch_error(error: std::io::Error) -> BackendError {
    let message = format!("private storage for the run can't be made: {error}");
    BackendError::Setup { message, source: Some(error.into()) }
}

/// A store whose remaining output is taken when it goes away, for whatever reason.
struct Running {
    store: Store<Guest>,
    private: PrivateDirs,
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(memory) = self.store.data().memory {
            let (data, guest) = memory.data_and_store_mut(&mut self.store);
            guest.streams.drain(data);
        }
    }
}

impl Running {
    async fn execute(
        &mut self,
        image: &Loaded,
        job: &Job,
        layout: &Layout,
        show: &Show,
    ) -> Result<ExitCause, BackendError> {
        let instance = match image.guest.instantiate_async(&mut self.store).await {
            Ok(instance) => instance,
            Err(error) => return Err(instantiation_error(error, job)),
        };
        let outcome = self.call(image, &instance, &argument(job, layout, show)?).await;
        Ok(self.judge(outcome))
    }

    async fn call(&mut self, image: &Loaded, instance: &Instance, argument: &[u8]) -> wasmtime::Result<i32> {
        let store = &mut self.store;
        let memory = instance.get_memory(&mut *store, "memory").ok_or_else(|| Error::msg("the image has no memory"))?;
        written::copy(&memory, store, &image.about.written);
        let table = match instance.get_global(&mut *store, "gloveport_streams").map(|global| global.get(&mut *store)) {
            Some(Val::I32(address)) => Some(address.cast_unsigned() as usize),
            _ => None,
        };
        store.data_mut().memory = Some(memory);
        store.data_mut().streams.set_table(table);
        let len = u32::try_from(argument.len())?;
        let alloc = instance.get_typed_func::<u32, u32>(&mut *store, "gloveport_alloc")?;
        let at = alloc.call_async(&mut *store, len).await?;
        memory.write(&mut *store, at as usize, argument)?;
        let run = instance.get_typed_func::<(u32, u32), i32>(&mut *store, "gloveport_run")?;
        run.call_async(&mut *store, (at, len)).await
    }

    /// Tells what ended the script. Nothing here is text that a script could forge.
    fn judge(&self, outcome: wasmtime::Result<i32>) -> ExitCause {
        let guest = self.store.data();
        let starved = guest.limiter.refusals() > 0;
        let code = match outcome {
            Ok(code) => code,
            Err(error) => match end_of(&error) {
                End::Code(code) => code,
                End::Stack => return ExitCause::Stack,
                End::Protocol => return ExitCause::Protocol,
                // Without memory the interpreter aborts in places where it can't raise.
                End::Abort if starved => return ExitCause::Memory(ABORTED),
                End::Abort => ABORTED,
            },
        };
        if code != 0 && starved && guest.calls.reported_exception() == Some("MemoryError") {
            return ExitCause::Memory(code);
        }
        ExitCause::Code(code)
    }
}

/// How a trap or an error of a host function reads.
enum End {
    Code(i32),
    Stack,
    Protocol,
    Abort,
}

fn end_of(error: &Error) -> End {
    if let Some(ProcessExit(code)) = error.downcast_ref() {
        return End::Code(*code);
    }
    if let Some(I32Exit(code)) = error.downcast_ref() {
        return End::Code(*code);
    }
    if let Some(ProtocolViolation(text)) = error.downcast_ref() {
        tracing::warn!(problem = text, "the script broke the protocol of the host call");
        return End::Protocol;
    }
    match error.downcast_ref::<Trap>() {
        Some(Trap::StackOverflow) => End::Stack,
        Some(_) => End::Abort,
        None => {
            // An error of a host function that is none of ours: pointers outside the memory, tables that are full.
            tracing::debug!(%error, "the guest's system call ended the run");
            End::Abort
        }
    }
}

fn new_store(image: &Loaded, job: &Job, io: &RunIo, layout: &Layout) -> Result<Store<Guest>, BackendError> {
    let mut builder = WasiCtxBuilder::new();
    for (name, value) in &job.env {
        builder.env(name, value);
    }
    builder.env("TMPDIR", layout.tmp).env("PWD", &layout.cwd);
    for stream in [Stream::Stdout, Stream::Stderr] {
        let sink = SinkStream { sink: io.output.clone(), stream };
        match stream {
            Stream::Stdout => builder.stdout(sink),
            Stream::Stderr => builder.stderr(sink),
        };
    }
    layout.preopen(&mut builder)?;
    let guest = Guest {
        wasi: builder.build_p1(),
        limiter: MemoryLimiter::new(job.limits.memory),
        calls: HostCalls::new(
            io.calls.clone(),
            CallBounds {
                request_bytes: job.limits.request_bytes,
                answer_bytes: job.limits.answer_bytes,
                outstanding: job.limits.outstanding_calls,
            },
            io.show.clone(),
        ),
        streams: GuestStreams::new(io.output.clone()),
        files: FileBudget::new(&job.limits),
        used_files: false,
        memory: None,
    };
    let mut store = Store::new(&image.engine, guest);
    store.limiter(|guest| &mut guest.limiter);
    store.set_hostcall_fuel(HOSTCALL_BYTES);
    store.set_epoch_deadline(1);
    store.epoch_deadline_callback(|mut context| {
        if let Some(memory) = context.data().memory {
            let (data, guest) = memory.data_and_store_mut(&mut context);
            guest.streams.drain(data);
        }
        // Yielding lets the run's time limit and its cancellation act.
        Ok(UpdateDeadline::Yield(1))
    });
    Ok(store)
}

/// The argument of `gloveport_run`.
fn argument(job: &Job, layout: &Layout, show: &Show) -> Result<Bytes, BackendError> {
    #[derive(Serialize)]
    struct Header<'a> {
        argv: Vec<&'a str>,
        filename: &'a str,
        cwd: &'a str,
        path: &'a [String],
        module: &'a str,
        tools: &'a str,
        tz: Option<&'a str>,
        project: bool,
        #[serde(skip_serializing_if = "is_zero")]
        figures: usize,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        tables: bool,
    }
    let header = Header {
        argv: std::iter::once(job.filename.as_str()).chain(job.args.iter().map(String::as_str)).collect(),
        filename: &job.filename,
        cwd: &layout.cwd,
        path: &layout.import_path,
        module: &job.module,
        tools: &job.tools.json,
        tz: job.timezone.as_deref(),
        project: job.mode == Mode::Project,
        figures: show.figures,
        tables: show.tables,
    };
    let too_long = |_| BackendError::internal("the run's header does not fit");
    let header = serde_json::to_vec(&header)
        .map_err(|error| BackendError::Internal { message: "the run's header".into(), source: Some(error.into()) })?;
    let mut argument = BytesMut::with_capacity(4 + header.len() + job.code.len());
    argument.put_u32_le(u32::try_from(header.len()).map_err(too_long)?);
    argument.extend_from_slice(&header);
    argument.extend_from_slice(job.code.as_bytes());
    Ok(argument.freeze())
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

fn instantiation_error(error: Error, job: &Job) -> BackendError {
    let mib = job.limits.memory >> 20;
    BackendError::Setup {
        message: format!("the guest can't be instantiated; is the memory limit of {mib} MiB too small for it?"),
        source: Some(error.into()),
    }
}
