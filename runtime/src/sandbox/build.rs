//! Builds a [`Sandbox`]: data from a [`Config`], objects that data can't hold from the builder.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use super::{Inner, Sandbox};
use crate::approval::{Approval, Approver, DecisionStore};
use crate::backend::{Backend, BackendError};
use crate::config::Config;
use crate::dispatch::{ToolSet, ToolSetError};
use crate::job::Grant;
use crate::output::RedactError;
use crate::policy::{Facts, Platform, Policy, PolicyBuildError};
use crate::tool::Tool;
use crate::workspace::Workspace;

/// Why a sandbox could not be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The configuration, or a policy that the backend can't enforce.
    #[error(transparent)]
    Policy(#[from] PolicyBuildError),
    /// The tools.
    #[error(transparent)]
    Tools(#[from] ToolSetError),
    /// The redaction settings.
    #[error(transparent)]
    Redaction(#[from] RedactError),
    /// The backend can't start.
    #[error(transparent)]
    Backend(#[from] BackendError),
    /// This build has no backend of its own and none was given.
    #[error("no backend: this build is without feature `wasi`, so one must be given to the builder")]
    NoBackend,
}

/// Collects what a sandbox is made of. The defaults grant nothing:
///
/// - no tools, no workspace, no variable of the host's environment, no network;
/// - backend: the local one (`wasi`), image cache in the user's cache directory;
/// - 300 s, 50 tool calls, 512 MiB of memory, 256 MiB of storage for each run;
/// - redaction on; approval asks, and with nobody to ask that means no.
#[derive(Default)]
pub struct SandboxBuilder {
    config: Config,
    tools: Vec<Arc<dyn Tool>>,
    backend: Option<Arc<dyn Backend>>,
    workspace: Option<Arc<dyn Workspace>>,
    grant: Option<Grant>,
    approver: Option<Arc<dyn Approver>>,
    store: Option<Arc<dyn DecisionStore>>,
    environment: Vec<(OsString, OsString)>,
    site_packages: Vec<PathBuf>,
}

impl SandboxBuilder {
    /// Sets the configuration.
    #[must_use]
    pub fn config(mut self, config: Config) -> Self {
        self.config = config;
        self
    }

    /// Adds one tool.
    #[must_use]
    pub fn tool(mut self, tool: Arc<dyn Tool>) -> Self {
        self.tools.push(tool);
        self
    }

    /// Adds tools.
    #[must_use]
    pub fn tools(mut self, tools: impl IntoIterator<Item = Arc<dyn Tool>>) -> Self {
        self.tools.extend(tools);
        self
    }

    /// Sets what runs scripts; the local backend when absent.
    #[must_use]
    pub fn backend(mut self, backend: Arc<dyn Backend>) -> Self {
        self.backend = Some(backend);
        self
    }

    /// Sets where file tools act.
    #[must_use]
    pub fn workspace(mut self, workspace: Arc<dyn Workspace>) -> Self {
        self.workspace = Some(workspace);
        self
    }

    /// Grants a directory of this machine to scripts themselves (`open`, `import`), in `project` mode.
    #[must_use]
    pub fn grant(mut self, grant: Grant) -> Self {
        self.grant = Some(grant);
        self
    }

    /// Sets who is asked.
    #[must_use]
    pub fn approver(mut self, approver: Arc<dyn Approver>) -> Self {
        self.approver = Some(approver);
        self
    }

    /// Sets where lasting decisions are kept.
    #[must_use]
    pub fn decision_store(mut self, store: Arc<dyn DecisionStore>) -> Self {
        self.store = Some(store);
        self
    }

    /// Hands over the host's environment variables, from which the scrub takes what a script may see and redaction what nobody may. Without this call a script sees none.
    #[must_use]
    pub fn environment(mut self, variables: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        self.environment = variables.into_iter().collect();
        self
    }

    /// Adds directories for `sys.path`, granted read-only in `project` mode: site-packages with pure-Python dependencies.
    #[must_use]
    pub fn site_packages(mut self, directories: impl IntoIterator<Item = PathBuf>) -> Self {
        self.site_packages.extend(directories);
        self
    }

    /// Builds the sandbox: checks the configuration, compiles schemas and patterns, starts the backend.
    ///
    /// # Errors
    /// See [`BuildError`]. Nothing of a sandbox that could not be built is left behind.
    pub fn build(self) -> Result<Sandbox, BuildError> {
        let tools = ToolSet::new(self.tools)?;
        let names: Vec<String> = tools.specs().map(|spec| spec.name.clone()).collect();
        let patterns = self.config.redaction.builder().build()?;
        let backend = match self.backend {
            Some(backend) => backend,
            None => default_backend(&self.config, &self.environment)?,
        };
        let policy = Policy::new(
            &self.config,
            &Facts {
                environment: &self.environment,
                tools: &names,
                backend: backend.name(),
                capabilities: backend.capabilities(),
                platform: Platform::CURRENT,
                looks_secret: &|text| patterns.looks_secret(text),
            },
        )?;
        let redactor = patterns.with_known(policy.secrets().iter().cloned())?;
        if let Some(note) = policy.environment().hermes_note() {
            tracing::debug!("{note}");
        }
        let mut approval = Approval::new(self.config.approval.mode, self.config.approval.tools.clone());
        if let Some(approver) = self.approver {
            approval = approval.approver(approver);
        }
        if let Some(store) = self.store {
            approval = approval.store(store);
        }
        Ok(Sandbox {
            inner: Arc::new(Inner {
                config: self.config,
                offered: tools.enable(policy.offered()),
                policy,
                tools,
                backend,
                redactor,
                approval,
                workspace: self.workspace,
                grant: self.grant,
                site_packages: self.site_packages,
            }),
        })
    }
}

#[cfg(feature = "wasi")]
fn default_backend(config: &Config, environment: &[(OsString, OsString)]) -> Result<Arc<dyn Backend>, BuildError> {
    let options = crate::wasi::WasiOptions {
        image: config.image.clone(),
        ..crate::wasi::WasiOptions::from_environment(environment)
    };
    Ok(Arc::new(crate::wasi::WasiBackend::new(&options)?))
}

#[cfg(not(feature = "wasi"))]
fn default_backend(_: &Config, _: &[(OsString, OsString)]) -> Result<Arc<dyn Backend>, BuildError> {
    Err(BuildError::NoBackend)
}
