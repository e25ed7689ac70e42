//! The one backend behind docker, ssh, local and command: they differ in how a process is started, and in nothing else.

use std::sync::Arc;

use async_trait::async_trait;
use gloveport::backend::{Backend, BackendError, Capabilities, Exit, Isolation, RunIo};
use gloveport::job::Job;
use gloveport::workspace::Workspace;

use crate::environment::EnvironmentPool;
use crate::run::{self, Launch};
use crate::workspace::{PathGuard, RemoteWorkspace};

/// Where scripts of a backend start in project mode.
#[derive(Debug, Clone)]
pub(crate) enum Workdir {
    /// In the directory that the job grants: the remote is this machine.
    OfJob,
    /// In a directory of the remote; `None` = where its processes start.
    OnRemote(Option<String>),
}

/// Runs scripts wherever a relay can be started.
pub struct RemoteBackend {
    name: &'static str,
    capabilities: Capabilities,
    pool: Arc<EnvironmentPool>,
    workdir: Workdir,
    guard: Option<PathGuard>,
}

impl RemoteBackend {
    pub(crate) fn new(
        name: &'static str,
        capabilities: Capabilities,
        pool: Arc<EnvironmentPool>,
        workdir: Workdir,
    ) -> Self {
        Self { name, capabilities, pool, workdir, guard: None }
    }

    /// Sets who judges the paths that the file tools touch on the remote. Without a guard the workspace alone is the bound.
    #[must_use]
    pub fn guarded(mut self, guard: PathGuard) -> Self {
        self.guard = Some(guard);
        self
    }

    /// The environments that its runs share.
    pub fn environments(&self) -> &Arc<EnvironmentPool> {
        &self.pool
    }

    /// Starts an environment and a relay in it, and says what was found: for `gloveport doctor`.
    pub async fn probe(&self, task_id: &str) -> Result<crate::relay::Hello, BackendError> {
        let lease = self.pool.lease(task_id).await?;
        let (relay, _slot) = lease.get().relay().await?;
        let hello = relay.hello().clone();
        lease.get().give_back(relay);
        Ok(hello)
    }

    fn launch(&self, job: &Job, start: Option<&str>) -> Launch {
        match &self.workdir {
            Workdir::OfJob => Launch {
                workdir: job.workspace.as_ref().map(|grant| grant.path.to_string_lossy().into_owned()),
                path: job.site_packages.iter().map(|path| path.to_string_lossy().into_owned()).collect(),
                inherit_env: false,
            },
            Workdir::OnRemote(fixed) => Launch {
                workdir: fixed.clone().or_else(|| start.map(str::to_owned)),
                path: Vec::new(),
                inherit_env: true,
            },
        }
    }
}

#[async_trait]
impl Backend for RemoteBackend {
    fn name(&self) -> &'static str {
        self.name
    }

    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    async fn workspace(&self, task_id: &str) -> Result<Option<Arc<dyn Workspace>>, BackendError> {
        match &self.workdir {
            Workdir::OfJob => Ok(None),
            Workdir::OnRemote(fixed) => {
                let confines = self.capabilities.isolation >= Isolation::Container && self.capabilities.network_denied;
                let pool = Arc::clone(&self.pool);
                let workspace =
                    RemoteWorkspace::open(pool, task_id, fixed.clone(), self.guard.clone(), confines).await?;
                Ok(Some(Arc::new(workspace)))
            }
        }
    }

    async fn run(&self, job: &Job, io: RunIo) -> Result<Exit, BackendError> {
        let mut lease = self.pool.lease(&job.task_id).await?;
        let relay = match lease.get().relay().await {
            Ok(relay) => relay,
            // An environment that was there before may have died since: one new one is worth a try.
            Err(error) if !lease.fresh => {
                tracing::debug!(%error, "replacing an environment");
                self.pool.discard(&job.task_id, lease.get());
                lease = self.pool.lease(&job.task_id).await?;
                lease.get().relay().await?
            }
            Err(error) => {
                self.pool.discard(&job.task_id, lease.get());
                return Err(error);
            }
        };
        let launch = self.launch(job, relay.0.hello().cwd.as_deref());
        run::run(relay, Arc::clone(lease.get()), job, io, &launch).await
    }
}

impl std::fmt::Debug for RemoteBackend {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RemoteBackend")
            .field("name", &self.name)
            .field("workdir", &self.workdir)
            .finish_non_exhaustive()
    }
}
