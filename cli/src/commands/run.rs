//! `gloveport run`.

mod figures;
mod live;
mod signals;

use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use gloveport::config::{BackendKind, SLIM};
use gloveport::output::Clean;
use gloveport::result::{Kind, RunResult, Status};
use gloveport::{Cancel, Controls, Request, Sandbox};
use gloveport_backends::RemoteBackend;

use crate::Host;
use crate::args::{Global, RunArgs};
use crate::assembly::Assembly;
use crate::complaint::Complaint;
use crate::exit::Exit;
use crate::prompt::TerminalApprover;
use crate::remote;
use crate::source::{self, Source, SourceError};
use crate::terminal;

use live::Live;

/// How long a prompt that is still open may take to give the terminal back.
const WIND_UP: Duration = Duration::from_millis(300);
/// How long a stopped run waits for a reader of its output that takes nothing.
const PATIENCE: Duration = Duration::from_secs(1);

/// Runs one script and shows what comes of it: to a person as it is printed, to a program as one JSON object.
pub(crate) fn run(args: &RunArgs, global: &Global, host: &Host) -> Result<Exit, Complaint> {
    let cancel = Cancel::new();
    match prepare(args, global, host, &cancel) {
        Ok(ready) => execute(args, host, ready, cancel),
        Err(complaint) if args.json => {
            // The backend is named as it was typed, else as it stands in the defaults: nothing ran on any.
            let backend = args.scope.backend.map_or_else(BackendKind::default, BackendKind::from);
            match terminal::print(&format!("{}\n", complaint.to_json(backend))) {
                Exit::Success => Ok(complaint.exit),
                broken => Ok(broken),
            }
        }
        Err(complaint) => Err(complaint),
    }
}

/// All that a run needs.
struct Ready {
    sandbox: Sandbox,
    request: Request,
    /// Its environments end with the command.
    remote: Option<Arc<RemoteBackend>>,
}

fn prepare(args: &RunArgs, global: &Global, host: &Host, cancel: &Cancel) -> Result<Ready, Complaint> {
    let source = read_source(args)?;
    let assembly = Assembly::adjusted(&args.scope, global, host, |config| {
        config.limits.memory = args.memory.or(config.limits.memory);
        config.env.pass.extend(args.env.iter().cloned());
    })?;
    let remote = assembly.remote().cloned();
    let interrupt = cancel.clone();
    let approver = TerminalApprover::new(move || interrupt.cancel_with(signals::CTRL_C));
    let mut builder = assembly.into_builder(host);
    if let Some(approver) = approver {
        builder = builder.approver(approver);
    }
    let sandbox = builder.build()?;
    for warning in sandbox.warnings() {
        terminal::note("warning", &warning);
    }
    for name in args.env.iter().filter(|name| sandbox.environment().missing.contains(name)) {
        terminal::note("warning", &terminal::clean(&format!("variable {name} is not set here")));
    }
    Ok(Ready { sandbox, request: request(args, source), remote })
}

fn read_source(args: &RunArgs) -> Result<Source, SourceError> {
    match (&args.code, &args.file) {
        (Some(code), _) => source::from_argument(code),
        (None, Some(file)) if file != OsStr::new("-") => source::from_file(Path::new(file)),
        // clap has seen to it that one of the two is there.
        (None, _) => source::from_stdin(),
    }
}

fn request(args: &RunArgs, source: Source) -> Request {
    let mut request = Request::new(source.code)
        .filename(source.filename)
        .args(args.args.iter().cloned())
        .list_tool_calls(args.calls)
        // A person always gets the hint; a program's object only grows by what it asked for.
        .hints(args.hints || !args.json)
        .figures(if args.out.is_some() { Request::MAX_FIGURES } else { 0 })
        .tables(args.tables);
    request.timeout = args.scope.timeout;
    request.max_tool_calls = args.scope.max_tool_calls;
    request.mode.clone_from(&args.scope.mode);
    request.timezone.clone_from(&args.timezone);
    request
}

fn execute(args: &RunArgs, host: &Host, ready: Ready, cancel: Cancel) -> Result<Exit, Complaint> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|error| Complaint::setup(format!("can't start threads: {error}")))?;
    let live = (!args.json).then(|| Live::start(cancel.clone()));
    let signal = signals::watch(&runtime, &cancel);
    let controls = Controls { cancel: Some(cancel), live: live.as_ref().map(Live::callback) };
    let result = runtime.block_on(ready.sandbox.execute_with(ready.request, controls));
    let exit = match &live {
        None => show_json(&result),
        Some(live) => show(&result, live, args, host),
    };
    // After the result is shown: that a picture can't be written must not cost it.
    let written = args.out.as_ref().map(|directory| figures::write(&result.figures, &host.cwd.join(directory)));
    if let Some(remote) = ready.remote {
        // What is not gone in time ends by itself once this process is gone.
        let gone = remote.environments().shutdown();
        let _late = runtime.block_on(async { tokio::time::timeout(remote::FAREWELL, gone).await });
    }
    runtime.shutdown_timeout(WIND_UP);
    written.transpose()?;
    Ok(match (exit, signal.seen()) {
        (Exit::Interrupted, Some(number)) => Exit::Signal(number),
        (exit, _) => exit,
    })
}

fn show_json(result: &RunResult) -> Exit {
    match terminal::print(&format!("{}\n", result.to_json())) {
        Exit::Success => Exit::of(result),
        broken => broken,
    }
}

/// What was printed is on the screen already; here comes what a person can't know from it.
fn show(result: &RunResult, live: &Live, args: &RunArgs, host: &Host) -> Exit {
    // After a time limit or Ctrl-C nobody wants to wait for a reader that is stuck.
    let stopped = matches!(result.status, Status::Timeout | Status::Interrupted);
    let shown = live.finish(stopped.then_some(PATIENCE));
    match shown.broken {
        Some(error) if error.kind() == std::io::ErrorKind::BrokenPipe => return Exit::BrokenPipe,
        Some(error) => return terminal::unwritable(&error),
        None => {}
    }
    terminal::end_line(shown.mid_line);
    if shown.missed > 0 {
        let missed = Clean::number(shown.missed as u64);
        terminal::note(
            "warning",
            &Clean::format("{} bytes of output were not shown: their reader did not take them", &[&missed]),
        );
    }
    for warning in &result.warnings {
        terminal::note("warning", warning);
    }
    // A script that failed by itself has said why on stderr, if it wanted to.
    let by_itself = result.exit_code.is_some();
    if let Some(error) = result.error.as_ref().filter(|_| !by_itself) {
        terminal::note("error", error);
    }
    if let Some(hint) = &result.hint {
        terminal::note("hint", hint);
    }
    if let Some(path) = &result.spill_path {
        terminal::note("output", path);
    }
    if !args.quiet && result.output.is_some() {
        terminal::summary(&summary(result), host);
    }
    Exit::of(result)
}

/// `gloveport: exit 3, 2 tool calls, 0.12 s`.
fn summary(result: &RunResult) -> String {
    let ending = match (result.status, result.kind, result.exit_code) {
        (Status::Success, ..) => "success".to_owned(),
        (Status::Timeout, ..) => "timeout".to_owned(),
        (Status::Interrupted, ..) => "interrupted".to_owned(),
        (Status::Error, Some(Kind::Memory), _) => "out of memory".to_owned(),
        (Status::Error, _, Some(code)) => format!("exit code {code}"),
        (Status::Error, ..) => "error".to_owned(),
    };
    let calls = match result.tool_calls_made {
        1 => "1 tool call".to_owned(),
        calls => format!("{calls} tool calls"),
    };
    let refused = match result.refused_calls {
        0 => String::new(),
        refused => format!(" and {refused} refused"),
    };
    let waited = match result.approval_wait.as_secs_f64() {
        0.0 => String::new(),
        seconds => format!(" ({seconds:.1} s of it waiting for approval)"),
    };
    let image = match &result.image {
        Some(image) if image.name != SLIM => format!(", image {}", image.name),
        _ => String::new(),
    };
    format!("gloveport: {ending}, {calls}{refused}, {:.2} s{waited}{image}", result.duration.as_secs_f64())
}
