//! Places, sandboxes with test tools, and small checks.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use gloveport::approval::ApprovalMode;
use gloveport::tool::{Effect, Tool, ToolSpec, tool_fn};
use gloveport::{Config, Request, RunResult, Sandbox};
use gloveport_backends::{RemoteBackend, local};
use libtest_mimic::{Failed, Trial};
use serde_json::Value;

use crate::engines;

/// Where a case runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    Local,
    Command,
    Ssh,
    Docker,
}

pub const EVERYWHERE: [Place; 4] = [Place::Local, Place::Command, Place::Ssh, Place::Docker];

impl Place {
    pub fn name(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Command => "command",
            Self::Ssh => "ssh",
            Self::Docker => "docker",
        }
    }

    /// Why its cases can't run here, if so.
    pub fn missing(self) -> Option<String> {
        match self {
            Self::Local | Self::Command => None,
            Self::Ssh => engines::ssh_missing(),
            Self::Docker => engines::docker_missing(),
        }
    }
}

pub type Outcome = anyhow::Result<()>;
pub type Case = fn(Place) -> Outcome;

/// One trial for each place; ignored where the place is missing.
pub fn everywhere(name: &str, case: fn(Place) -> Outcome) -> Vec<Trial> {
    on(&EVERYWHERE, name, case)
}

pub fn on(places: &[Place], name: &str, case: fn(Place) -> Outcome) -> Vec<Trial> {
    places.iter().map(|place| trial(*place, name, case)).collect()
}

pub fn trial(place: Place, name: &str, case: fn(Place) -> Outcome) -> Trial {
    let missing = place.missing();
    let trial = Trial::test(format!("{name}::{}", place.name()), move || {
        case(place).map_err(|error| Failed::from(format!("{error:#}")))
    });
    match missing {
        Some(reason) => trial.with_kind(reason).with_ignored_flag(true),
        None => trial,
    }
}

/// A tokio runtime for one case.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let value = runtime.block_on(future);
    runtime.shutdown_timeout(Duration::from_secs(5));
    value
}

pub fn host_env() -> Vec<(String, String)> {
    std::env::vars()
        .filter(|(name, _)| ["PATH", "HOME", "USER", "LANG", "PYENV_VERSION"].contains(&name.as_str()))
        .collect()
}

/// The backend of a place, as a newcomer would configure it.
pub fn backend(place: Place) -> RemoteBackend {
    match place {
        Place::Local => {
            let options = local::LocalOptions { unsafe_no_isolation: true, ..Default::default() };
            local::backend(&options, host_env()).unwrap()
        }
        Place::Command => {
            let options = gloveport_backends::command::CommandOptions {
                argv: vec!["/usr/bin/env".into(), "GP_TASK={task}".into()],
                ..Default::default()
            };
            gloveport_backends::command::backend(&options, host_env()).unwrap()
        }
        Place::Ssh => engines::ssh_backend(),
        Place::Docker => engines::docker_backend(),
    }
}

/// What the test tools did.
#[derive(Default)]
pub struct Seen {
    pub calls: AtomicU64,
    pub under_way: AtomicU64,
    pub most_under_way: AtomicU64,
    pub values: Mutex<Vec<Value>>,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
struct Echo {
    value: Value,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
struct Slow {
    seconds: f64,
}

pub fn tools(seen: &Arc<Seen>) -> Vec<Arc<dyn Tool>> {
    let counted = Arc::clone(seen);
    let echo = tool_fn(
        ToolSpec::new::<Echo>("echo", "Gives its argument back.").effect(Effect::Read),
        move |args: Echo, _| {
            let seen = Arc::clone(&counted);
            async move {
                seen.calls.fetch_add(1, Ordering::SeqCst);
                if seen.values.lock().unwrap().len() < 1000 {
                    seen.values.lock().unwrap().push(args.value.clone());
                }
                Ok(args.value)
            }
        },
    );
    let counted = Arc::clone(seen);
    let slow = tool_fn(ToolSpec::new::<Slow>("slow", "Waits.").effect(Effect::Read), move |args: Slow, _| {
        let seen = Arc::clone(&counted);
        async move {
            seen.calls.fetch_add(1, Ordering::SeqCst);
            let now = seen.under_way.fetch_add(1, Ordering::SeqCst) + 1;
            seen.most_under_way.fetch_max(now, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_secs_f64(args.seconds)).await;
            seen.under_way.fetch_sub(1, Ordering::SeqCst);
            Ok(serde_json::json!({"slept": args.seconds}))
        }
    });
    vec![echo, slow]
}

/// A sandbox on one place, and what its tools saw.
pub struct Bench {
    pub sandbox: Sandbox,
    pub seen: Arc<Seen>,
    pub backend: Arc<RemoteBackend>,
}

pub fn config() -> Config {
    let mut config = Config::default();
    config.approval.mode = ApprovalMode::Off;
    config.limits.request_bytes = 32 << 20;
    config.limits.answer_bytes = 32 << 20;
    config
}

impl Bench {
    pub fn new(place: Place) -> Self {
        Self::with(backend(place), config())
    }

    pub fn with(backend: RemoteBackend, config: Config) -> Self {
        let seen = Arc::new(Seen::default());
        let backend = Arc::new(backend);
        let environment: Vec<_> = std::env::vars_os().collect();
        let sandbox = Sandbox::builder()
            .config(config)
            .tools(tools(&seen))
            .backend(Arc::clone(&backend) as Arc<_>)
            .environment(environment)
            .build()
            .unwrap();
        Self { sandbox, seen, backend }
    }

    pub async fn run(&self, code: &str) -> RunResult {
        self.sandbox.execute(request(code)).await
    }

    pub fn calls(&self) -> u64 {
        self.seen.calls.load(Ordering::SeqCst)
    }

    pub async fn close(&self) {
        self.backend.environments().shutdown().await;
    }
}

pub fn request(code: &str) -> Request {
    let mut request = Request::new(code).timeout_secs(60.0).max_tool_calls(100_000).mode("strict");
    request.list_tool_calls = true;
    request
}

/// The result as JSON without what differs between runs.
pub fn json(result: &RunResult) -> Value {
    serde_json::from_str(&result.to_json()).unwrap()
}

pub fn output(result: &RunResult) -> String {
    json(result)["output"].as_str().unwrap_or_default().to_owned()
}

/// Checks that a script succeeded with exactly this output.
pub fn expect_output(result: &RunResult, expected: &str) -> Outcome {
    let json = json(result);
    anyhow::ensure!(json["status"] == "success" && json["output"] == expected, "expected {expected:?}, got {json:#}");
    Ok(())
}

/// Waits for a condition.
pub fn wait_for(seconds: f64, what: &str, condition: impl Fn() -> bool) -> anyhow::Result<Duration> {
    let started = Instant::now();
    while started.elapsed().as_secs_f64() < seconds {
        if condition() {
            return Ok(started.elapsed());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    anyhow::bail!("after {seconds} s: {what}")
}

/// Processes of this machine whose command line or environment holds a text.
pub fn processes_with(text: &str) -> Vec<u32> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Ok(pid) = entry.file_name().to_string_lossy().parse::<u32>() else { continue };
        if pid == std::process::id() {
            continue;
        }
        let holds = |name: &str| {
            let bytes = std::fs::read(entry.path().join(name)).unwrap_or_default();
            String::from_utf8_lossy(&bytes).contains(text)
        };
        let zombie = std::fs::read_to_string(entry.path().join("stat")).is_ok_and(|stat| stat.contains(") Z"));
        if !zombie && (holds("cmdline") || holds("environ")) {
            found.push(pid);
        }
    }
    found
}

/// Run directories in a place of this machine.
pub fn run_dirs(place: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(place).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.path())
        .filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("gloveport-"))
        .collect()
}

/// In a child process of a test: runs one script on a place until it is killed. Gives the exit code for `main`.
pub fn child() -> Option<i32> {
    let place = match std::env::var("GP_TEST_CHILD").ok()?.as_str() {
        "local" => Place::Local,
        "ssh" => Place::Ssh,
        "docker" => Place::Docker,
        _ => return Some(2),
    };
    let code = std::env::var("GP_TEST_CODE").unwrap();
    let result = block_on(async { Bench::new(place).run(&code).await });
    eprintln!("{}", result.to_json());
    Some(0)
}

/// What a child process needs to use the engines of this one.
pub fn handed_on(place: Place) -> Vec<(String, String)> {
    match place {
        Place::Ssh => vec![("GP_TEST_SSH_PORT".into(), engines::sshd().port.to_string())],
        Place::Docker => vec![("GP_TEST_DOCKER".into(), engines::docker_endpoint().to_owned())],
        _ => Vec::new(),
    }
}

/// Whether somebody holds the lock of a run directory.
pub fn locked(lock: &Path) -> bool {
    !std::process::Command::new("flock")
        .args(["-n", &lock.display().to_string(), "true"])
        .status()
        .is_ok_and(|s| s.success())
}

/// Owners of the containers of ours.
pub fn containers(place: Place) -> Vec<String> {
    if place != Place::Docker {
        return Vec::new();
    }
    engines::sh(&format!(
        "docker -H {} ps -a --filter label=org.gloveport --format '{{{{.Label \"org.gloveport.owner\"}}}}'",
        engines::docker_endpoint()
    ))
    .lines()
    .map(str::to_owned)
    .collect()
}
