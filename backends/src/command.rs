//! Any remote that a command can reach: a configured command line with the relay's behind it.
//!
//! `kubectl exec -i POD --`, `podman exec -i NAME`, `apptainer exec IMAGE`, `bwrap … --`, `nsenter …`: whatever starts the rest of its
//! arguments as a process and connects stdin and stdout. What it isolates is for whoever configures it to say.

use std::sync::Arc;

use async_trait::async_trait;
use gloveport::backend::{BackendError, Capabilities, Isolation};
pub use gloveport::config::CommandConfig as CommandOptions;

use crate::backend::{RemoteBackend, Workdir};
use crate::bundle::RelayOptions;
use crate::environment::{EnvironmentPool, PoolLimits, Provider};
use crate::process;
use crate::relay::SILENCE;
use crate::remote::{Link, Remote};

/// Makes the backend. `environment` is what the command itself is started with.
pub fn backend(options: &CommandOptions, environment: Vec<(String, String)>) -> Result<RemoteBackend, BackendError> {
    if options.argv.first().is_none_or(String::is_empty) {
        return Err(BackendError::setup(
            "The command backend needs `argv`, for example [\"podman\", \"exec\", \"-i\", \"NAME\"].",
        ));
    }
    if options.isolation > Isolation::Container {
        return Err(BackendError::setup("A command reaches isolation `none`, `account` or `container` at most."));
    }
    let relay = RelayOptions { place: options.place.clone(), lease: SILENCE, max_frame: crate::MAX_FRAME, poll: false };
    let provider = Arc::new(Prefix { argv: options.argv.clone(), shell: options.shell, environment });
    let pool = EnvironmentPool::new(provider, options.python.clone(), relay, PoolLimits::default());
    let capabilities = Capabilities {
        isolation: options.isolation,
        memory: false,
        disk: false,
        processes: false,
        network_denied: false,
        files_confined: options.isolation == Isolation::Container,
        needs_approval: options.isolation < Isolation::Container,
    };
    Ok(RemoteBackend::new("command", capabilities, pool, Workdir::OnRemote(options.workdir.clone())))
}

struct Prefix {
    argv: Vec<String>,
    shell: bool,
    environment: Vec<(String, String)>,
}

#[async_trait]
impl Provider for Prefix {
    async fn create(&self, task_id: &str) -> Result<Arc<dyn Remote>, BackendError> {
        Ok(Arc::new(Prefixed {
            argv: self.argv.iter().map(|word| word.replace("{task}", task_id)).collect(),
            shell: self.shell,
            environment: self.environment.clone(),
        }))
    }
}

struct Prefixed {
    argv: Vec<String>,
    shell: bool,
    environment: Vec<(String, String)>,
}

#[async_trait]
impl Remote for Prefixed {
    fn label(&self) -> String {
        format!("'{}'", self.argv.join(" "))
    }

    async fn open(&self, argv: &[String]) -> Result<Link, BackendError> {
        let mut whole = self.argv.clone();
        if self.shell {
            whole.push(shell_words(argv));
        } else {
            whole.extend_from_slice(argv);
        }
        process::spawn(&whole, &self.environment, &self.label())
    }
}

/// Words as one line for a shell on the other side. The relay's own words hold nothing that any shell expands in single quotes.
pub(crate) fn shell_words(argv: &[String]) -> String {
    let quoted: Vec<String> = argv.iter().map(|word| format!("'{}'", word.replace('\'', "'\\''"))).collect();
    quoted.join(" ")
}
