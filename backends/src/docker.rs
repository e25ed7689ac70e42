//! Scripts in a container: one for each `task_id`, hardened, without network, gone when its host is.
//!
//! Defaults: all capabilities dropped, no new privileges, the engine's seccomp profile, a read-only root with sized memory-backed `/tmp` and
//! `/workspace`, no network, limits on memory, processors and processes, a fixed user that is not root, an init, no mounts of the host.
//! What weakens that is called `unsafe_…`. A container is no stronger than its kernel and runtime; `runtime = "runsc"` (gVisor) is.

mod container;
mod endpoint;
mod engine;
mod image;
mod owner;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bollard::Docker;
use bollard::query_parameters::{ListContainersOptionsBuilder, RemoveContainerOptionsBuilder};
use gloveport::backend::{BackendError, Capabilities, Isolation};
pub use gloveport::config::DockerConfig as DockerOptions;
use tokio::sync::OnceCell;

use crate::backend::{RemoteBackend, Workdir};
use crate::bundle::RelayOptions;
use crate::environment::{EnvironmentPool, PoolLimits, Provider};
use crate::relay::SILENCE;
use crate::remote::Remote;
use container::Container;
pub use endpoint::endpoint;
pub use engine::{EngineFacts, examine};
pub use image::Progress;

/// Marks every container of ours.
const LABEL: &str = "org.gloveport";
/// The task that a container belongs to.
const TASK_LABEL: &str = "org.gloveport.task";
/// The process that made a container.
const OWNER_LABEL: &str = "org.gloveport.owner";
/// Who the keeper runs as: nobody that a script could be.
const KEEPER_USER: &str = "65533:65533";
/// Directory of scripts and tools inside.
const WORKDIR: &str = "/workspace";

/// Refuses what would open the container without saying so.
fn check(options: &DockerOptions) -> Result<(), String> {
    let numeric = |text: &str| text.split(':').all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()));
    let user = run_as(options);
    if user.split(':').next() == KEEPER_USER.split(':').next() {
        return Err(format!("`user` can't be {user}: the container's own keeper is"));
    }
    if !numeric(user) {
        return Err(format!("`user` has to be numbers, as in 65532:65532, not {user:?}"));
    }
    if user.split(':').any(|part| part.bytes().all(|b| b == b'0')) && !options.unsafe_root {
        return Err("`user` is root; set `unsafe_root = true` if you want that".to_owned());
    }
    let shared = options.network == "host" || options.network.starts_with("container:");
    if shared && !options.unsafe_shared_network {
        return Err(format!(
            "`network = {:?}` shares a network; set `unsafe_shared_network = true` if you want that",
            options.network
        ));
    }
    for mount in &options.unsafe_mounts {
        let source = mount.split(':').next().unwrap_or_default();
        if !source.starts_with('/') || !mount[source.len()..].starts_with(":/") {
            return Err(format!(
                "`unsafe_mounts` has {mount:?}; it has to be /host/dir:/inside or /host/dir:/inside:ro"
            ));
        }
        let whole_machine = ["", "/proc", "/sys", "/dev", "/run", "/var/run"].contains(&source.trim_end_matches('/'));
        if whole_machine || source.ends_with("docker.sock") || source.ends_with("podman.sock") {
            return Err(format!("{source:?} can't be mounted: it would hand over this machine"));
        }
    }
    let processors = options.cpus > 0.0 && options.cpus.is_finite();
    if options.memory < 32 || options.pids < 4 || options.disk < 1 || options.inodes < 100 || !processors {
        return Err("`memory` has to be 32 or more, `pids` 4, `disk` 1, `inodes` 100, and `cpus` above 0".to_owned());
    }
    Ok(())
}

/// The user inside.
fn run_as(options: &DockerOptions) -> &str {
    options.unsafe_host_user.as_deref().unwrap_or(&options.user)
}

/// Makes the backend. `endpoint` is where the engine listens (see [`endpoint()`]); nothing is connected before the first run.
pub fn backend(
    options: &DockerOptions,
    endpoint: &str,
    progress: Option<Progress>,
) -> Result<RemoteBackend, BackendError> {
    check(options).map_err(|problem| BackendError::setup(format!("docker: {problem}.")))?;
    let capabilities = Capabilities {
        isolation: Isolation::Container,
        memory: true,
        disk: true,
        processes: true,
        network_denied: options.network == "none",
        files_confined: options.unsafe_mounts.is_empty(),
        needs_approval: !options.unsafe_mounts.is_empty(),
    };
    let relay =
        RelayOptions { place: Some("/tmp".to_owned()), lease: SILENCE, max_frame: crate::MAX_FRAME, poll: false };
    let limits = PoolLimits {
        environments: options.containers.max(1),
        idle: Duration::from_secs(options.idle_minutes.max(1) * 60),
    };
    let provider =
        Arc::new(Engine { endpoint: endpoint.to_owned(), options: options.clone(), progress, docker: OnceCell::new() });
    let pool = EnvironmentPool::new(provider, options.python.clone(), relay, limits);
    Ok(RemoteBackend::new("docker", capabilities, pool, Workdir::OnRemote(Some(WORKDIR.to_owned()))))
}

/// A container of ours as `gloveport env list` shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Its name.
    pub name: String,
    /// The task it belongs to.
    pub task: String,
    /// The process that made it, as the engine's labels say.
    pub owner: String,
    /// `running`, `exited`…
    pub state: String,
    /// In words: `Up 3 minutes`.
    pub status: String,
}

impl Listed {
    /// Process id of whoever made it, if it is known.
    pub fn process(&self) -> Option<u32> {
        self.owner.split(':').nth(1)?.parse().ok()
    }

    /// Whether nobody will use it again.
    pub fn is_abandoned(&self) -> bool {
        ["exited", "dead"].contains(&self.state.as_str()) || owner::is_dead(&self.owner)
    }
}

/// All containers of ours on an engine, whichever process made them.
pub async fn list(endpoint: &str) -> Result<Vec<Listed>, BackendError> {
    let docker = endpoint::connect(endpoint).await?;
    let found = ours(&docker).await.map_err(|error| engine_error(endpoint, error))?;
    Ok(found)
}

/// Removes containers of ours: those of one task, or all whose process is gone. Returns how many.
pub async fn prune(endpoint: &str, task: Option<&str>) -> Result<usize, BackendError> {
    let docker = endpoint::connect(endpoint).await?;
    let mut removed = 0;
    for listed in ours(&docker).await.map_err(|error| engine_error(endpoint, error))? {
        let wanted = task.map_or_else(|| listed.is_abandoned(), |task| listed.task == task);
        if wanted && remove(&docker, &listed.name).await {
            removed += 1;
        }
    }
    Ok(removed)
}

async fn ours(docker: &Docker) -> Result<Vec<Listed>, bollard::errors::Error> {
    let filters = HashMap::from([("label".to_owned(), vec![LABEL.to_owned()])]);
    let options = ListContainersOptionsBuilder::default().all(true).filters(&filters).build();
    let found = docker.list_containers(Some(options)).await?;
    Ok(found
        .into_iter()
        .map(|summary| Listed {
            name: summary
                .names
                .and_then(|names| names.first().map(|name| name.trim_start_matches('/').to_owned()))
                .or(summary.id)
                .unwrap_or_default(),
            task: label(&summary.labels, TASK_LABEL),
            owner: label(&summary.labels, OWNER_LABEL),
            state: summary.state.map(|state| state.to_string()).unwrap_or_default(),
            status: summary.status.unwrap_or_default(),
        })
        .collect())
}

fn label(labels: &Option<HashMap<String, String>>, name: &str) -> String {
    labels.as_ref().and_then(|labels| labels.get(name).cloned()).unwrap_or_default()
}

async fn remove(docker: &Docker, name: &str) -> bool {
    let options = RemoveContainerOptionsBuilder::default().force(true).v(true).build();
    docker.remove_container(name, Some(options)).await.is_ok()
}

/// An engine's error as the user's: what was found and what to do.
fn engine_error(endpoint: &str, error: bollard::errors::Error) -> BackendError {
    BackendError::Setup {
        message: format!("The container engine at {endpoint} refused: {error}."),
        source: Some(Box::new(error)),
    }
}

struct Engine {
    endpoint: String,
    options: DockerOptions,
    progress: Option<Progress>,
    docker: OnceCell<Docker>,
}

impl Engine {
    async fn docker(&self) -> Result<&Docker, BackendError> {
        let connected = async {
            let docker = endpoint::connect(&self.endpoint).await?;
            if let Some(weakness) = engine::weakness(&docker).await {
                tracing::warn!(endpoint = %self.endpoint, "{weakness}");
            }
            Ok(docker)
        };
        self.docker.get_or_try_init(|| connected).await
    }
}

#[async_trait]
impl Provider for Engine {
    async fn create(&self, task_id: &str) -> Result<Arc<dyn Remote>, BackendError> {
        let docker = self.docker().await?.clone();
        image::ensure(&docker, &self.endpoint, &self.options, self.progress.as_ref()).await?;
        Ok(Arc::new(Container::start(docker, &self.endpoint, &self.options, task_id).await?))
    }

    async fn sweep(&self) {
        // Containers end by themselves when their host does; here go those whose engine could not remove them.
        let Ok(docker) = self.docker().await else { return };
        for listed in ours(docker).await.unwrap_or_default() {
            if listed.is_abandoned() {
                remove(docker, &listed.name).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn e22_what_opens_a_container_has_to_be_said() {
        let refused = |change: fn(&mut DockerOptions)| {
            let mut options = DockerOptions::default();
            change(&mut options);
            check(&options).is_err()
        };
        assert_eq!(check(&DockerOptions::default()), Ok(()));
        assert!(refused(|o| o.user = "root".into()));
        assert!(refused(|o| o.user = "0:0".into()));
        assert!(refused(|o| o.user = "1000:0".into()));
        assert!(refused(|o| o.network = "host".into()));
        assert!(refused(|o| o.network = "container:x".into()));
        assert!(refused(|o| o.unsafe_mounts = vec!["/var/run/docker.sock:/s".into()]));
        assert!(refused(|o| o.unsafe_mounts = vec!["/:/host".into()]));
        assert!(refused(|o| o.unsafe_mounts = vec!["data:/data".into()]));
        assert!(refused(|o| o.memory = 1));
        assert!(refused(|o| o.cpus = f64::NAN));
        assert!(!refused(|o| o.unsafe_mounts = vec!["/srv/data:/data:ro".into()]));
    }

    #[test]
    fn unknown_settings_are_refused() {
        for text in [r#"{"privileged": true}"#, r#"{"cap_add": ["ALL"]}"#, r#"{"devices": []}"#, r#"{"mounts": []}"#] {
            assert!(serde_json::from_str::<DockerOptions>(text).is_err(), "{text}");
        }
    }
}
