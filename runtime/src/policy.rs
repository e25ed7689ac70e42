//! From data to decision: what a script may do and get, resolved before anything starts.
//!
//! [`Policy::new`] resolves configuration, host environment and backend once; [`Policy::resolve`] judges one request against it. Both are
//! pure: no I/O, no clock, no look at the process's own environment, which comes in as an explicit map ([`Facts::environment`]).
//!
//! What is *not* here: approval (see [`crate::approval`]) and the judgement of single tool calls (see [`crate::dispatch`]).

pub mod env;
mod error;
mod input;
mod timezone;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use secrecy::SecretString;

use crate::backend::Capabilities;
use crate::config::{Config, Limits};
use crate::job::{JobLimits, Mode};
use crate::request::Request;

use env::{Profile, Scrubbed};
pub use error::{PolicyBuildError, PolicyError};
pub use input::{MAX_CODE_BYTES, parse_mode};

/// The environment that runs share when they name none.
pub const DEFAULT_TASK_ID: &str = "default";
/// What tracebacks show when a request names no file.
pub const DEFAULT_FILENAME: &str = "script.py";

/// Which rules for names of variables hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Platform {
    /// Names are exact.
    Unix,
    /// Names are compared without regard to case, and some are needed by the system itself.
    Windows,
}

impl Platform {
    /// The platform that this program was built for.
    pub const CURRENT: Self = if cfg!(windows) { Self::Windows } else { Self::Unix };
}

/// What is known of the host and the backend when a sandbox is built.
pub struct Facts<'a> {
    /// The host's environment variables.
    pub environment: &'a [(OsString, OsString)],
    /// Names of the registered tools, in order.
    pub tools: &'a [String],
    /// Name of the backend.
    pub backend: &'a str,
    /// What it enforces.
    pub capabilities: Capabilities,
    /// Rules for names.
    pub platform: Platform,
    /// Whether a text looks like a secret of a known family; the redactor's judgement.
    pub looks_secret: &'a dyn Fn(&str) -> bool,
}

/// What holds for every run of one sandbox.
#[derive(Debug, Clone)]
pub struct Policy {
    offered: Vec<String>,
    mode: Mode,
    timezone: Option<String>,
    timeout: f64,
    max_timeout: f64,
    max_tool_calls: u64,
    limits: JobLimits,
    environment: Scrubbed,
    secrets: Vec<(String, SecretString)>,
    python_prefix: Option<PathBuf>,
    warnings: Vec<String>,
}

/// One run, judged and accepted.
#[derive(Debug, Clone)]
pub struct Resolved {
    /// The environment that the run belongs to.
    pub task_id: String,
    /// Python source.
    pub code: Arc<str>,
    /// Shown in tracebacks; no control characters.
    pub filename: String,
    /// `sys.argv[1:]`.
    pub args: Vec<String>,
    /// The script's whole environment, `TZ` included.
    pub env: Vec<(String, String)>,
    /// IANA zone name, valid and in its canonical spelling.
    pub timezone: Option<String>,
    /// Where the script starts.
    pub mode: Mode,
    /// What the backend enforces.
    pub limits: JobLimits,
    /// Names of the tools that this run may call, in registered order.
    pub tools: Vec<String>,
    /// Tool calls that may be dispatched.
    pub max_tool_calls: u64,
    /// What was ignored or replaced in this request, one sentence each.
    pub warnings: Vec<String>,
}

impl Policy {
    /// Resolves what does not depend on a request.
    pub fn new(config: &Config, facts: &Facts<'_>) -> Result<Self, PolicyBuildError> {
        config.check()?;
        enforceable(config, facts)?;
        let timezone = timezone::resolve(config.timezone.as_deref())
            .map_err(|problem| crate::config::ConfigError::new("timezone", problem))?;
        let profile = Profile::of_backend(facts.backend);
        let mut environment =
            env::scrub(facts.environment, &config.env.pass, profile, facts.platform, facts.looks_secret);
        env::set_ours(&mut environment, config.env.home.as_deref(), profile);
        let (offered, unknown) = input::enabled_tools(facts.tools, config.tools.as_deref());
        let mut warnings = environment.warnings.clone();
        warnings.extend(unknown);
        Ok(Self {
            offered,
            mode: config.mode,
            timezone,
            timeout: config.limits.timeout,
            max_timeout: config.limits.max_timeout,
            max_tool_calls: config.limits.max_tool_calls,
            limits: job_limits(&config.limits),
            secrets: secrets(config, &environment),
            python_prefix: env::python_prefix(facts.environment),
            environment,
            warnings,
        })
    }

    /// Judges one request. Nothing has started when this fails, and the error's text is what the caller gets.
    pub fn resolve(&self, request: &Request) -> Result<Resolved, PolicyError> {
        input::check_code(&request.code)?;
        let timeout = input::timeout(request.timeout.unwrap_or(self.timeout), self.max_timeout)?;
        let args = input::args(&request.args)?;
        let timezone = match request.timezone.as_deref() {
            Some(name) => {
                timezone::resolve(Some(name)).map_err(PolicyError::Timezone)?.or_else(|| self.timezone.clone())
            }
            None => self.timezone.clone(),
        };
        let (tools, unknown) = input::enabled_tools(&self.offered, request.enabled_tools.as_deref());
        let (mode, odd_mode) = parse_mode(request.mode.as_deref(), self.mode);
        let mut env = self.environment.pairs();
        env.extend(timezone.iter().map(|name| ("TZ".to_owned(), name.clone())));
        Ok(Resolved {
            task_id: input::task_id(request.task_id.as_deref()),
            // Python drops the byte order mark of a file, but refuses it in a string.
            code: Arc::from(request.code.strip_prefix('\u{feff}').unwrap_or(&request.code)),
            filename: input::filename(request.filename.as_deref()),
            args,
            env,
            timezone,
            mode,
            limits: JobLimits { timeout, ..self.limits },
            tools,
            max_tool_calls: request.max_tool_calls.unwrap_or(self.max_tool_calls),
            warnings: unknown.into_iter().chain(odd_mode).collect(),
        })
    }

    /// Values that must never show in anything that leaves a run, each with the name of where it came from.
    pub fn secrets(&self) -> &[(String, SecretString)] {
        &self.secrets
    }

    /// What the scrub passed, dropped and found.
    pub fn environment(&self) -> &Scrubbed {
        &self.environment
    }

    /// Names of the tools that runs may enable, in registered order.
    pub fn offered(&self) -> &[String] {
        &self.offered
    }

    /// Root of the active Python environment of the host (`VIRTUAL_ENV`, else `CONDA_PREFIX`), whose site-packages scripts in `project` mode import from.
    pub fn python_prefix(&self) -> Option<&Path> {
        self.python_prefix.as_deref()
    }

    /// What was ignored or refused in the configuration, one sentence each. They name variables, never values.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }
}

/// A limit that the backend can't enforce is an error before the run, and so is a backend below the floor.
fn enforceable(config: &Config, facts: &Facts<'_>) -> Result<(), PolicyBuildError> {
    let backend = facts.backend.to_owned();
    if let Some(floor) = config.isolation_floor
        && facts.capabilities.isolation < floor
    {
        return Err(PolicyBuildError::Isolation { backend, reached: facts.capabilities.isolation, floor });
    }
    if config.limits.memory.is_some() && !facts.capabilities.memory {
        return Err(PolicyBuildError::Unenforceable { backend, key: "limits.memory" });
    }
    if config.limits.disk.is_some() && !facts.capabilities.disk {
        return Err(PolicyBuildError::Unenforceable { backend, key: "limits.disk" });
    }
    Ok(())
}

fn job_limits(limits: &Limits) -> JobLimits {
    let size = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
    JobLimits {
        timeout: Duration::ZERO,
        memory: limits.memory.unwrap_or(Limits::DEFAULT_MEMORY) << 20,
        disk: limits.disk.unwrap_or(Limits::DEFAULT_DISK) << 20,
        inodes: limits.inodes,
        descriptors: limits.descriptors,
        request_bytes: size(limits.request_bytes),
        answer_bytes: size(limits.answer_bytes),
        outstanding_calls: size(limits.outstanding_calls.into()),
    }
}

fn secrets(config: &Config, environment: &Scrubbed) -> Vec<(String, SecretString)> {
    let configured = config.redaction.values.iter().map(|value| ("redaction.values", value));
    let keys = config.web.providers.iter().filter_map(|(name, provider)| Some((name, provider.api_key.as_ref()?)));
    let mut secrets = environment.secrets.clone();
    secrets.extend(configured.chain(keys).map(|(name, value)| (name.to_owned(), value.to_secret_string())));
    secrets
}

#[cfg(test)]
mod tests;
