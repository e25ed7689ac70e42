//! The relay as a child process of this host: for tests, for development, and for people who knowingly want no isolation.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use gloveport::backend::{BackendError, Capabilities, Isolation};
pub use gloveport::config::LocalConfig as LocalOptions;

use crate::backend::{RemoteBackend, Workdir};
use crate::bundle::RelayOptions;
use crate::environment::{EnvironmentPool, PoolLimits, Provider};
use crate::process;
use crate::relay::SILENCE;
use crate::remote::{Link, Remote};

/// What the local backend enforces: nothing but time.
const CAPABILITIES: Capabilities = Capabilities {
    isolation: Isolation::None,
    memory: false,
    disk: false,
    processes: false,
    network_denied: false,
    files_confined: false,
    needs_approval: true,
};

/// Makes the backend. `environment` is what the interpreter itself is started with; scripts get their own.
pub fn backend(options: &LocalOptions, environment: Vec<(String, String)>) -> Result<RemoteBackend, BackendError> {
    if !options.unsafe_no_isolation {
        return Err(BackendError::setup(
            "The local backend isolates nothing: scripts run with your own rights. If you want that, set `unsafe_no_isolation = true` \
             under [local] in gloveport.toml.",
        ));
    }
    let relay =
        RelayOptions { place: options.place.clone(), lease: SILENCE, max_frame: crate::MAX_FRAME, poll: options.poll };
    let limits = PoolLimits { idle: Duration::from_secs(60), ..PoolLimits::default() };
    let provider = Arc::new(Local { environment });
    let pool = EnvironmentPool::new(provider, options.python.clone(), relay, limits);
    Ok(RemoteBackend::new("local", CAPABILITIES, pool, Workdir::OfJob))
}

struct Local {
    environment: Vec<(String, String)>,
}

#[async_trait]
impl Provider for Local {
    async fn create(&self, _task_id: &str) -> Result<Arc<dyn Remote>, BackendError> {
        Ok(Arc::new(Child { environment: self.environment.clone() }))
    }
}

struct Child {
    environment: Vec<(String, String)>,
}

#[async_trait]
impl Remote for Child {
    fn label(&self) -> String {
        "this machine".to_owned()
    }

    async fn open(&self, argv: &[String]) -> Result<Link, BackendError> {
        process::spawn(argv, &self.environment, "this machine")
    }
}
