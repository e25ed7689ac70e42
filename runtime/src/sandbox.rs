//! The whole data flow, written once: [`Sandbox::execute`].

mod build;
mod capture;
mod control;
mod spill;

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::task::JoinHandle;

use crate::approval::{Approval, Subject};
use crate::backend::{Backend, BackendError, Capabilities, Exit, ImageUsed, RunIo, Show};
use crate::config::Config;
use crate::dispatch::{DispatchConfig, DispatchLimits, Dispatcher, EnabledTools, RunClock, ToolSet};
use crate::job::{Grant, Job};
use crate::output::{Clean, Redactor};
use crate::policy::{Policy, PolicyError, Resolved};
use crate::request::Request;
use crate::result::{Ending, Kind, Remains, RunResult};
use crate::workspace::Workspace;

pub use build::{BuildError, SandboxBuilder};
use capture::Capture;
pub use control::{Cancel, Controls, LiveOutput};

/// How long a stopped script may take to wind up before its run is left behind. A guest yields every few milliseconds; only
/// a handler that blocks its thread takes longer.
const GRACE: Duration = Duration::from_secs(1);
/// How often live output is shown that has no line end yet.
const LIVE_TICK: Duration = Duration::from_millis(50);

/// Runs scripts. Cheap to clone, and runs any number of them at the same time.
///
/// ```no_run
/// # async fn example() -> Result<(), gloveport::BuildError> {
/// use gloveport::{Request, Sandbox};
/// let sandbox = Sandbox::builder().build()?;
/// let result = sandbox.execute(Request::new("print('hi')")).await;
/// println!("{}", result.to_json());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Sandbox {
    inner: Arc<Inner>,
}

struct Inner {
    config: Config,
    policy: Policy,
    tools: ToolSet,
    /// The tools of a run that asks for no others.
    offered: EnabledTools,
    backend: Arc<dyn Backend>,
    redactor: Redactor,
    approval: Approval,
    workspace: Option<Arc<dyn Workspace>>,
    grant: Option<Grant>,
    site_packages: Vec<PathBuf>,
}

impl Sandbox {
    /// Starts building a sandbox that grants nothing. See [`SandboxBuilder`] for the defaults.
    pub fn builder() -> SandboxBuilder {
        SandboxBuilder::default()
    }

    /// Runs one script to its end. Whatever happens is in the result; see [`RunResult`].
    ///
    /// Must be called inside a tokio runtime, of any kind. Dropping the future stops the script.
    pub async fn execute(&self, request: Request) -> RunResult {
        self.execute_with(request, Controls::default()).await
    }

    /// The same, with a way to stop the script and to see its output while it runs.
    pub async fn execute_with(&self, request: Request, controls: Controls) -> RunResult {
        match self.prepare(&request, &controls).await {
            Ok(run) => run.finish(&request, controls).await,
            Err(refused) => *refused,
        }
    }

    /// The configuration it was built with.
    pub fn config(&self) -> &Config {
        &self.inner.config
    }

    /// Specs of the tools that runs may enable, in order.
    pub fn tools(&self) -> Vec<&crate::tool::ToolSpec> {
        let offered = self.inner.policy.offered();
        self.inner.tools.specs().filter(|spec| offered.contains(&spec.name)).collect()
    }

    /// What was ignored or refused in the configuration, one sentence each.
    pub fn warnings(&self) -> Vec<Clean> {
        self.inner.policy.warnings().iter().map(|text| self.inner.redactor.clean(text)).collect()
    }

    /// What the scrub of the environment passed and dropped.
    pub fn environment(&self) -> &crate::policy::env::Scrubbed {
        self.inner.policy.environment()
    }

    /// Everything up to the start of the script. `Err` is the result of a run that never starts.
    async fn prepare(&self, request: &Request, controls: &Controls) -> Result<Run, Box<RunResult>> {
        let inner = &self.inner;
        if tokio::runtime::Handle::try_current().is_err() {
            return Err(self.refused(Kind::Internal, Clean::from_static("Gloveport must run inside a tokio runtime.")));
        }
        let resolved = inner.policy.resolve(request).map_err(|error| self.refused_request(&error))?;
        self.approve(&resolved, controls).await?;
        let workspace = self.workspace(&resolved.task_id, controls).await?;
        let tools = self.enabled(&resolved.tools);
        let job = self.job(&resolved, &tools);
        tracing::debug!(
            backend = inner.backend.name(),
            variables = job.env.len(),
            seconds = resolved.limits.timeout.as_secs_f64(),
            "a run starts"
        );
        let clock = Arc::new(RunClock::start(resolved.limits.timeout));
        let dispatcher = Dispatcher::new(DispatchConfig {
            tools,
            limits: DispatchLimits {
                max_tool_calls: resolved.max_tool_calls,
                request_bytes: resolved.limits.request_bytes,
                answer_bytes: resolved.limits.answer_bytes,
            },
            redactor: inner.redactor.clone(),
            approval: inner.approval.clone(),
            clock: Arc::clone(&clock),
            run_id: Arc::clone(&job.run_id),
            task_id: Arc::clone(&job.task_id),
            workspace,
            log_calls: request.list_tool_calls,
        });
        let capture = Capture::new(&inner.config.output, &inner.redactor, controls.live.clone());
        let warnings = resolved.warnings.iter().map(|text| inner.redactor.clean(text)).collect();
        let show = Arc::new(Show::new(request.figures.min(Request::MAX_FIGURES), request.tables));
        Ok(Run { inner: Arc::clone(inner), job, clock, dispatcher, capture, warnings, image: Arc::default(), show })
    }

    /// A backend that does not seal a script off runs none that nobody approved.
    async fn approve(&self, resolved: &Resolved, controls: &Controls) -> Result<(), Box<RunResult>> {
        if !self.inner.backend.capabilities().needs_approval {
            return Ok(());
        }
        let subject = Subject::script(&resolved.code);
        let verdict = tokio::select! {
            verdict = self.inner.approval.check(&subject, &self.inner.redactor) => verdict,
            reason = controls.cancelled() => Err(format!("execution interrupted — {reason}")),
        };
        verdict.map_err(|text| self.refused(Kind::Denied, self.inner.redactor.clean(&text)))
    }

    /// Where the tools act. A backend may make a container for that, or connect somewhere, and nobody has to wait for it.
    async fn workspace(
        &self,
        task_id: &str,
        controls: &Controls,
    ) -> Result<Option<Arc<dyn Workspace>>, Box<RunResult>> {
        let of_backend = tokio::select! {
            of_backend = self.inner.backend.workspace(task_id) => of_backend,
            reason = controls.cancelled() => {
                let backend = &self.inner.backend;
                let reason = self.inner.redactor.clean(&reason);
                let isolation = backend.capabilities().isolation;
                return Err(Box::new(RunResult::interrupted_early(backend.name(), isolation, &reason)));
            }
        };
        let of_backend = of_backend.map_err(|error| {
            let (kind, text) = describe(&error, &self.inner.redactor);
            self.refused(kind, text)
        })?;
        Ok(of_backend.or_else(|| self.inner.workspace.clone()))
    }

    /// The tools of a run; those that a run gets by default are prepared once.
    fn enabled(&self, names: &[String]) -> EnabledTools {
        if names == self.inner.policy.offered() { self.inner.offered.clone() } else { self.inner.tools.enable(names) }
    }

    fn job(&self, resolved: &Resolved, tools: &EnabledTools) -> Job {
        Job {
            run_id: run_id(),
            task_id: Arc::from(resolved.task_id.as_str()),
            code: Arc::clone(&resolved.code),
            filename: resolved.filename.clone(),
            args: resolved.args.clone(),
            env: resolved.env.clone(),
            timezone: resolved.timezone.clone(),
            mode: resolved.mode,
            workspace: self.inner.grant.clone(),
            site_packages: self.inner.site_packages.clone(),
            module: self.inner.config.module.clone(),
            tools: Arc::clone(tools.stubs()),
            limits: resolved.limits,
        }
    }

    fn refused_request(&self, error: &PolicyError) -> Box<RunResult> {
        let Capabilities { isolation, .. } = self.inner.backend.capabilities();
        match error {
            PolicyError::NoCode => Box::new(RunResult::no_code(self.inner.backend.name(), isolation)),
            PolicyError::NulInCode { .. } | PolicyError::CodeTooLarge { .. } => {
                self.refused(Kind::Script, self.inner.redactor.clean(&error.to_string()))
            }
            _ => self.refused(Kind::Protocol, self.inner.redactor.clean(&error.to_string())),
        }
    }

    fn refused(&self, kind: Kind, error: Clean) -> Box<RunResult> {
        let backend = &self.inner.backend;
        Box::new(RunResult::not_started(backend.name(), backend.capabilities().isolation, kind, error))
    }
}

/// One run that is ready to start.
struct Run {
    inner: Arc<Inner>,
    job: Job,
    clock: Arc<RunClock>,
    dispatcher: Arc<Dispatcher>,
    capture: Arc<Capture>,
    warnings: Vec<Clean>,
    image: Arc<OnceLock<ImageUsed>>,
    show: Arc<Show>,
}

impl Run {
    async fn finish(self, request: &Request, controls: Controls) -> RunResult {
        let ending = self.watch(&controls).await;
        let tally = self.dispatcher.finish();
        tracing::debug!(seconds = self.clock.elapsed().as_secs_f64(), calls = tally.made, "a run ended");
        let (stdout, stderr) = self.capture.close(&self.inner.redactor);
        let backend = &self.inner.backend;
        let isolation = backend.capabilities().isolation;
        let ending = match ending {
            Ended::Started(ending) => ending,
            Ended::NotStarted(kind, error) => return RunResult::not_started(backend.name(), isolation, kind, error),
        };
        let spill_path = self.spill(stdout.truncated).await;
        let hint = request.hints.then(|| crate::hint::of(&ending, &stderr.text, &self.inner.config.module)).flatten();
        RunResult::assemble(
            backend.name(),
            isolation,
            Remains {
                ending,
                stdout,
                stderr,
                tally,
                list_calls: request.list_tool_calls,
                duration: self.clock.elapsed(),
                approval_wait: self.clock.paused(),
                hint,
                spill_path,
                warnings: self.warnings,
                image: self.image.get().cloned(),
                figures: self.show.take(),
            },
        )
    }

    /// Writes the whole output to a file where that is configured and the result does not show it all.
    async fn spill(&self, is_cut: bool) -> Option<Clean> {
        let redactor = self.inner.redactor.clone();
        let text = self.capture.spilled(&redactor).filter(|_| is_cut)?;
        let dir = self.inner.config.output.spill.clone()?;
        let run_id = Arc::clone(&self.job.run_id);
        match tokio::task::spawn_blocking(move || spill::write(&dir, &run_id, &text)).await {
            Ok(Ok(path)) => Some(redactor.clean(&path.to_string_lossy())),
            Ok(Err(error)) => {
                tracing::warn!(%error, "the whole output could not be written to a file");
                None
            }
            Err(_) => None,
        }
    }

    /// Runs the job in a task of its own, so that a tool handler that blocks its thread can't hold up the result.
    async fn watch(&self, controls: &Controls) -> Ended {
        let backend = Arc::clone(&self.inner.backend);
        let job = self.job.clone();
        let io = RunIo {
            output: self.capture.clone(),
            calls: self.dispatcher.port(),
            image: Arc::clone(&self.image),
            show: Arc::clone(&self.show),
        };
        let mut task = AbortOnDrop(tokio::spawn(async move { backend.run(&job, io).await }));
        let mut live = tokio::time::interval(LIVE_TICK);
        live.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let stopped = loop {
            tokio::select! {
                biased;
                done = &mut task.0 => return self.ended(done),
                reason = controls.cancelled() => break Ending::Interrupted(self.inner.redactor.clean(&reason)),
                () = self.clock.expired() => break Ending::TimedOut(self.clock.limit()),
                () = self.dispatcher.overrun() => break Ending::Exit(crate::backend::ExitCause::ToolLimit),
                _ = live.tick(), if controls.live.is_some() => self.capture.tick(),
            }
        };
        task.0.abort();
        // The script's last words are taken while its task winds up.
        if tokio::time::timeout(GRACE, &mut task.0).await.is_err() {
            tracing::warn!("a stopped run did not wind up in time: a tool handler blocks its thread");
        }
        Ended::Started(stopped)
    }

    fn ended(&self, done: Result<Result<Exit, BackendError>, tokio::task::JoinError>) -> Ended {
        match done {
            Ok(Ok(exit)) => Ended::Started(Ending::Exit(exit.cause)),
            Ok(Err(error @ BackendError::Setup { .. })) => {
                let (kind, text) = describe(&error, &self.inner.redactor);
                Ended::NotStarted(kind, text)
            }
            Ok(Err(error)) => {
                let (kind, text) = describe(&error, &self.inner.redactor);
                Ended::Started(Ending::Failed(kind, text))
            }
            Err(_panicked) => {
                let text = Clean::from_static("The backend failed unexpectedly.");
                Ended::Started(Ending::Failed(Kind::Internal, text))
            }
        }
    }
}

enum Ended {
    Started(Ending),
    NotStarted(Kind, Clean),
}

/// A task that ends when nobody waits for it any more.
struct AbortOnDrop(JoinHandle<Result<Exit, BackendError>>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Kind and text of a backend's error. Deeper causes go to the log: they may hold paths of the host.
fn describe(error: &BackendError, redactor: &Redactor) -> (Kind, Clean) {
    let kind = match error {
        BackendError::Setup { .. } => Kind::BackendSetup,
        BackendError::Lost { .. } => Kind::BackendLost,
        BackendError::Internal { .. } => Kind::Internal,
    };
    let text = redactor.clean(&error.to_string());
    let mut cause = std::error::Error::source(error);
    while let Some(deeper) = cause {
        tracing::debug!(cause = %redactor.clean(&deeper.to_string()), "{text}");
        cause = deeper.source();
    }
    (kind, text)
}

/// 128 random bits in hexadecimal.
fn run_id() -> Arc<str> {
    Arc::from(uuid::Uuid::new_v4().simple().to_string())
}
