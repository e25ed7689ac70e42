//! One container: made hardened, checked, kept alive by signs of life, ended with its host.
//!
//! Its main process is a keeper that ends when nothing was heard for a while or its input ends; the engine then removes the container. So a
//! host that is killed leaves no container behind, whatever becomes of the engine's own connections.

use std::collections::HashMap;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bollard::Docker;
use bollard::container::{AttachContainerResults, LogOutput};
use bollard::errors::Error;
use bollard::exec::{StartExecOptions, StartExecResults};
use bollard::models::{
    ContainerCreateBody, ExecConfig, HostConfig, HostConfigCgroupnsModeEnum, HostConfigLogConfig, ResourcesUlimits,
};
use bollard::query_parameters::{AttachContainerOptionsBuilder, CreateContainerOptionsBuilder};
use futures_util::{Stream, StreamExt as _};
use gloveport::backend::BackendError;
use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tokio_util::io::StreamReader;

use super::{DockerOptions, KEEPER_USER, LABEL, OWNER_LABEL, TASK_LABEL, WORKDIR, engine_error, owner, remove, run_as};
use crate::relay::HEARTBEAT;
use crate::remote::{Autopsy, Link, Remote, StderrTail, printable};

/// Says that it is there, and ends 12 s after the last byte or at the end of input.
const KEEPER: &str =
    "import os, select\nos.write(1, b'ready')\nwhile select.select([0], [], [], 12)[0] and os.read(0, 64): pass\n";
/// How long the engine may take over one request while a run waits.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long it may take when nothing depends on the answer any more.
const FAREWELL: Duration = Duration::from_secs(5);

/// Tries to remove a container whose making was broken off, and the time between them.
const UNDO_TRIES: u32 = 10;
const UNDO_PAUSE: Duration = Duration::from_millis(500);

/// A running container.
pub(super) struct Container {
    docker: Docker,
    endpoint: String,
    name: String,
    user: String,
    ended: Arc<AtomicBool>,
    keeper: AbortHandle,
}

impl Container {
    /// Makes and starts a container. What was made is removed again if anything goes wrong, cancellation included.
    pub(super) async fn start(
        docker: Docker,
        endpoint: &str,
        options: &DockerOptions,
        task_id: &str,
    ) -> Result<Self, BackendError> {
        let name = format!("gloveport-{}", crate::seal::hex(&crate::random::bytes::<8>()?));
        let fail = |error| engine_error(endpoint, error);
        let mut guard = RemoveOnDrop { docker: docker.clone(), name: Some(name.clone()) };
        let made = CreateContainerOptionsBuilder::default().name(&name).build();
        docker.create_container(Some(made), body(options, task_id)).await.map_err(fail)?;
        let attach =
            AttachContainerOptionsBuilder::default().stdin(true).stdout(true).stderr(true).stream(true).build();
        let mut attached = docker.attach_container(&name, Some(attach)).await.map_err(fail)?;
        docker.start_container(&name, None).await.map_err(|error| not_started(endpoint, options, error))?;
        ready(&mut attached, options).await?;
        verify(&docker, &name, options).await?;
        guard.name = None;
        let ended = Arc::new(AtomicBool::new(false));
        let keeper = tokio::spawn(keep(attached, Arc::clone(&ended))).abort_handle();
        Ok(Self { docker, endpoint: endpoint.to_owned(), name, user: run_as(options).to_owned(), ended, keeper })
    }
}

/// What the container is made of.
fn body(options: &DockerOptions, task_id: &str) -> ContainerCreateBody {
    let strings = |words: &[&str]| Some(words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
    let owner = owner::mine().unwrap_or_default();
    let labels = [(LABEL, "1"), (TASK_LABEL, task_id), (OWNER_LABEL, &owner)];
    let labels = labels.map(|(name, value)| (name.to_owned(), value.to_owned()));
    ContainerCreateBody {
        image: Some(options.image.clone()),
        // The image's own entry point is not run.
        entrypoint: strings(&[&options.python, "-I", "-S", "-c", KEEPER]),
        cmd: Some(Vec::new()),
        // Not the scripts' user, so that none of them can end or trace the keeper.
        user: Some(KEEPER_USER.to_owned()),
        // No working directory here: the engine would make it in the image, and the runtime would give the mount its mode.
        env: strings(&["HOME=/workspace", "LANG=C.UTF-8"]),
        open_stdin: Some(true),
        stdin_once: Some(true),
        attach_stdin: Some(true),
        attach_stdout: Some(true),
        attach_stderr: Some(true),
        tty: Some(false),
        labels: Some(HashMap::from(labels)),
        host_config: Some(host_config(options)),
        ..ContainerCreateBody::default()
    }
}

fn host_config(options: &DockerOptions) -> HostConfig {
    let bytes = i64::try_from(options.memory.saturating_mul(1 << 20)).unwrap_or(i64::MAX);
    let tmpfs = format!("rw,nosuid,nodev,noexec,size={}m,nr_inodes={},mode=1777", options.disk, options.inodes);
    let ulimit =
        |name: &str, value: i64| ResourcesUlimits { name: Some(name.into()), soft: Some(value), hard: Some(value) };
    // Nano-processors; a sane number of processors is far below where the conversion would lose anything.
    #[expect(clippy::cast_possible_truncation, reason = "a float to integer cast saturates")]
    let nano_cpus = (options.cpus * 1e9) as i64;
    HostConfig {
        memory: Some(bytes),
        memory_swap: Some(bytes),
        nano_cpus: Some(nano_cpus),
        pids_limit: Some(options.pids),
        cap_drop: Some(vec!["ALL".into()]),
        security_opt: Some(vec!["no-new-privileges".into()]),
        privileged: Some(false),
        readonly_rootfs: Some(true),
        tmpfs: Some(HashMap::from([("/tmp".into(), tmpfs.clone()), (WORKDIR.into(), tmpfs)])),
        network_mode: Some(options.network.clone()),
        ipc_mode: Some("private".into()),
        cgroupns_mode: Some(HostConfigCgroupnsModeEnum::PRIVATE),
        init: Some(true),
        auto_remove: Some(true),
        log_config: Some(HostConfigLogConfig { typ: Some("none".into()), config: None }),
        ulimits: Some(vec![ulimit("core", 0), ulimit("nofile", 4096)]),
        runtime: options.runtime.clone(),
        binds: (!options.unsafe_mounts.is_empty()).then(|| options.unsafe_mounts.clone()),
        ..HostConfig::default()
    }
}

fn not_started(endpoint: &str, options: &DockerOptions, error: Error) -> BackendError {
    let text = error.to_string();
    if text.contains("executable file not found") || text.contains("no such file") {
        return BackendError::setup(format!(
            "Python 3.8 or newer is needed in the image {}, but it has no '{}'. Choose another with `image`.",
            options.image, options.python
        ));
    }
    engine_error(endpoint, error)
}

/// Waits for the keeper's first word. What comes instead says what is wrong with the image.
async fn ready(attached: &mut AttachContainerResults, options: &DockerOptions) -> Result<(), BackendError> {
    let mut said = Vec::new();
    let listen = async {
        while let Some(Ok(output)) = attached.output.next().await {
            match output {
                LogOutput::StdOut { message } if message.starts_with(b"ready") => return true,
                other => said.extend_from_slice(&other.into_bytes()),
            }
        }
        false
    };
    if timeout(PATIENCE, listen).await.unwrap_or(false) {
        return Ok(());
    }
    let (image, python) = (&options.image, &options.python);
    let said = printable(&said);
    let found = if said.contains("No such file") || said.contains("not found") {
        format!("it has no '{python}'")
    } else if said.is_empty() {
        format!("'{python}' there is not a working Python")
    } else {
        format!("'{python}' there is not a working Python: {said}")
    };
    Err(BackendError::setup(format!(
        "Python 3.8 or newer is needed in the image {image}, but {found}. Choose another with `image`."
    )))
}

/// Compares what the engine made with what was asked for: its defaults may differ.
async fn verify(docker: &Docker, name: &str, options: &DockerOptions) -> Result<(), BackendError> {
    let made = docker.inspect_container(name, None).await.map_err(|error| engine_error(name, error))?;
    let config = made.host_config.unwrap_or_default();
    let dropped = config
        .cap_drop
        .unwrap_or_default()
        .iter()
        .any(|cap| cap.eq_ignore_ascii_case("all") || cap.starts_with("CAP_"));
    let sound = [
        ("privileges", config.privileged != Some(true)),
        ("capabilities", dropped && config.cap_add.unwrap_or_default().is_empty()),
        ("read-only root", config.readonly_rootfs == Some(true)),
        ("network", config.network_mode.as_deref() == Some(options.network.as_str())),
        ("mounts", config.binds.unwrap_or_default().len() == options.unsafe_mounts.len()),
        ("pids limit", config.pids_limit == Some(options.pids)),
        ("memory limit", config.memory.is_some_and(|memory| memory > 0)),
        ("devices", config.devices.unwrap_or_default().is_empty()),
        ("namespaces", ![config.pid_mode, config.uts_mode, config.userns_mode].contains(&Some("host".into()))),
    ];
    let wrong: Vec<&str> = sound.iter().filter(|(_, fine)| !fine).map(|(what, _)| *what).collect();
    if wrong.is_empty() {
        return Ok(());
    }
    Err(BackendError::setup(format!("The engine did not apply what was asked for: {}.", wrong.join(", "))))
}

/// Gives signs of life to the keeper until it is gone.
async fn keep(attached: AttachContainerResults, ended: Arc<AtomicBool>) {
    let AttachContainerResults { mut output, mut input } = attached;
    let mut beat = tokio::time::interval(HEARTBEAT);
    loop {
        tokio::select! {
            _ = beat.tick() => if input.write_all(b".").await.is_err() || input.flush().await.is_err() { break },
            said = output.next() => if !matches!(said, Some(Ok(_))) { break },
        }
    }
    ended.store(true, Ordering::Release);
}

#[async_trait]
impl Remote for Container {
    fn label(&self) -> String {
        format!("container {}", self.name)
    }

    async fn open(&self, argv: &[String]) -> Result<Link, BackendError> {
        let fail = |error| engine_error(&self.endpoint, error);
        let config = ExecConfig {
            attach_stdin: Some(true),
            attach_stdout: Some(true),
            attach_stderr: Some(true),
            tty: Some(false),
            cmd: Some(argv.to_vec()),
            user: Some(self.user.clone()),
            working_dir: Some(WORKDIR.to_owned()),
            ..ExecConfig::default()
        };
        let exec = self.docker.create_exec(&self.name, config).await.map_err(fail)?;
        let options = StartExecOptions { detach: false, tty: false, output_capacity: Some(256 << 10) };
        match self.docker.start_exec(&exec.id, Some(options)).await.map_err(fail)? {
            StartExecResults::Attached { output, input } => Ok(link(output, input)),
            StartExecResults::Detached => {
                Err(BackendError::internal("the engine detached a process that was to be attached"))
            }
        }
    }

    async fn autopsy(&self) -> Autopsy {
        match self.docker.inspect_container(&self.name, None).await {
            Ok(found) => {
                let state = found.state.unwrap_or_default();
                if state.oom_killed == Some(true) {
                    Autopsy::OutOfMemory
                } else if state.running == Some(true) {
                    Autopsy::Unknown
                } else {
                    Autopsy::Gone(format!("The container {} ended during the run.", self.name))
                }
            }
            Err(Error::DockerResponseServerError { status_code: 404, .. }) => {
                Autopsy::Gone(format!("The container {} was removed during the run.", self.name))
            }
            Err(_) => Autopsy::Unknown,
        }
    }

    async fn alive(&self) -> bool {
        !self.ended.load(Ordering::Acquire)
    }

    async fn close(&self) {
        self.keeper.abort();
        let _gone_already = timeout(FAREWELL, remove(&self.docker, &self.name)).await;
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        // The end of the attached stream ends the keeper, and with it the container.
        self.keeper.abort();
    }
}

fn link(
    output: Pin<Box<dyn Stream<Item = Result<LogOutput, Error>> + Send>>,
    input: Pin<Box<dyn AsyncWrite + Send>>,
) -> Link {
    let stderr = StderrTail::default();
    let kept = stderr.clone();
    let stdout = output.filter_map(move |item| {
        let item = match item {
            Ok(LogOutput::StdErr { message }) => {
                kept.push(&message);
                None
            }
            Ok(LogOutput::StdOut { message } | LogOutput::Console { message }) => Some(Ok(message)),
            Ok(LogOutput::StdIn { .. }) => None,
            Err(error) => Some(Err(io::Error::other(error))),
        };
        std::future::ready(item)
    });
    Link { reader: Box::new(StreamReader::new(Box::pin(stdout))), writer: Box::new(input), stderr, guard: Box::new(()) }
}

/// Removes a container whose making was broken off.
struct RemoveOnDrop {
    docker: Docker,
    name: Option<String>,
}

impl Drop for RemoveOnDrop {
    fn drop(&mut self) {
        let Some(name) = self.name.take() else { return };
        let docker = self.docker.clone();
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                // A making that was broken off may still come to its end in the engine, a moment after it was first looked for.
                for _ in 0..UNDO_TRIES {
                    if matches!(timeout(PATIENCE, remove(&docker, &name)).await, Ok(true)) {
                        return;
                    }
                    tokio::time::sleep(UNDO_PAUSE).await;
                }
            });
        }
    }
}
