//! Turns settings and options into what a sandbox is made of: configuration, workspace, tools.

use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use gloveport::config::{BackendKind, Terminal, WorkspaceConfig};
use gloveport::job::{Access, Grant};
use gloveport::policy::Platform;
use gloveport::policy::env::{Profile, python_prefix, scrub};
use gloveport::tool::{Tool, ToolSpec};
use gloveport::workspace::Workspace;
use gloveport::{BuildError, Config, SandboxBuilder};
use gloveport_backends::RemoteBackend;
use gloveport_tools::{Guard, HostWorkspace};

use crate::Host;
use crate::args::{Global, ScopeArgs};
use crate::complaint::Complaint;
use crate::decisions::DecisionFile;
use crate::remote;
use crate::settings::{self, Settings};
use crate::source::described;

/// What scripts may do here, before any of it is started.
pub(crate) struct Assembly {
    pub(crate) settings: Settings,
    pub(crate) tools: Vec<Arc<dyn Tool>>,
    workspace: Option<Arc<dyn Workspace>>,
    grant: Option<Grant>,
    remote: Option<Arc<RemoteBackend>>,
}

impl Assembly {
    /// Reads the settings, puts the options on top, opens the workspace and collects the tools.
    pub(crate) fn new(scope: &ScopeArgs, global: &Global, host: &Host) -> Result<Self, Complaint> {
        Self::adjusted(scope, global, host, |_| ())
    }

    /// The same with options of one command only.
    pub(crate) fn adjusted(
        scope: &ScopeArgs,
        global: &Global,
        host: &Host,
        adjust: impl FnOnce(&mut Config),
    ) -> Result<Self, Complaint> {
        let mut settings = settings::load(global.config.as_deref(), host)?;
        apply(scope, &mut settings.config)?;
        adjust(&mut settings.config);
        settings.config.check()?;
        limits_of_containers(&mut settings.config);
        let here = remote::is_here(settings.config.backend);
        if !here && scope.workspace.as_deref().is_some_and(|text| text != "none") {
            return Err(no_workspace(&settings.config));
        }
        let offers_files = here || settings.config.workspace != Some(WorkspaceConfig::None);
        let grant = if here { grant(&mut settings.config, host)? } else { None };
        let protected: Vec<PathBuf> = settings.files.iter().cloned().chain(settings::config_directory(host)).collect();
        let workspace = match &grant {
            Some(grant) => Some(open(grant, &protected, host)?),
            None => None,
        };
        let guard = Guard::new(protected);
        let environment =
            if starts_programs(&settings.config) { command_environment(&settings.config, host)? } else { Vec::new() };
        let remote = remote::backend(&settings.config, &guard, host, environment.clone())?;
        let access = match &grant {
            Some(grant) => Some(grant.access),
            // Elsewhere the tools act where the script does, and it may change what it likes there.
            None => (!here && offers_files).then_some(Access::ReadWrite),
        };
        let mut tools = workspace_tools(access, &guard);
        let directory = grant.as_ref().map_or(&host.cwd, |grant| &grant.path);
        tools.extend(command_tools(&settings.config, access.is_some(), environment, directory)?);
        tools.extend(web_tools(&settings.config, host)?);
        Ok(Self { settings, tools, workspace, grant, remote })
    }

    pub(crate) fn config(&self) -> &Config {
        &self.settings.config
    }

    pub(crate) fn grant(&self) -> Option<&Grant> {
        self.grant.as_ref()
    }

    /// The backend, if it runs scripts elsewhere.
    pub(crate) fn remote(&self) -> Option<&Arc<RemoteBackend>> {
        self.remote.as_ref()
    }

    /// Specs of the tools that scripts get.
    pub(crate) fn specs(&self) -> Vec<ToolSpec> {
        let offered = self.config().tools.as_deref();
        let specs = self.tools.iter().map(|tool| tool.spec());
        specs.filter(|spec| offered.is_none_or(|names| names.contains(&spec.name))).collect()
    }

    /// Names in the configured list that are no tool here, with the reason where there is one to tell.
    pub(crate) fn unknown_tools(&self) -> Vec<String> {
        let there: Vec<String> = self.tools.iter().map(|tool| tool.spec().name).collect();
        let named = self.config().tools.iter().flatten();
        named.filter(|name| !there.contains(name)).cloned().collect()
    }

    /// A builder that has everything but somebody to ask.
    pub(crate) fn into_builder(self, host: &Host) -> SandboxBuilder {
        let mut builder = gloveport::Sandbox::builder()
            .config(self.settings.config)
            .tools(self.tools)
            .environment(host.environment.iter().cloned())
            .site_packages(site_packages(host));
        if let Some(directory) = settings::config_directory(host) {
            builder = builder.decision_store(Arc::new(DecisionFile::open(directory)));
        }
        if let Some(remote) = self.remote {
            builder = builder.backend(remote);
        }
        if let Some(workspace) = self.workspace {
            builder = builder.workspace(workspace);
        }
        if let Some(grant) = self.grant {
            builder = builder.grant(grant);
        }
        builder
    }
}

/// Options win over every layer of settings. Those that belong to one run (time, calls, mode) stay with the request.
fn apply(scope: &ScopeArgs, config: &mut Config) -> Result<(), Complaint> {
    if let Some(text) = &scope.workspace {
        config.workspace = Some(workspace_option(text)?);
    }
    if let Some(list) = &scope.tools {
        config.tools = Some(tool_list(list));
    }
    if let Some(backend) = scope.backend {
        config.backend = backend.into();
    }
    if let Some(name) = &scope.host {
        only_with(config, BackendKind::Ssh, "--host")?;
        config.ssh.host.clone_from(name);
    }
    if let Some(image) = &scope.image {
        match config.backend {
            BackendKind::Wasi => {
                config.image = image.parse().map_err(|problem| Complaint::usage(format!("--image: {problem}")))?;
            }
            BackendKind::Docker => config.docker.image.clone_from(image),
            BackendKind::Ssh | BackendKind::Local | BackendKind::Command => {
                return Err(Complaint::usage("--image goes with --backend wasi or docker"));
            }
        }
    }
    Ok(())
}

/// An option that would do nothing is a mistake.
fn only_with(config: &Config, backend: BackendKind, option: &str) -> Result<(), Complaint> {
    if config.backend == backend {
        return Ok(());
    }
    Err(Complaint::usage(format!(
        "{option} is for backend {backend}, and this is {}; add --backend {backend}",
        config.backend
    )))
}

/// Memory and disk of a container are its own settings, unless the limits of all backends name them.
fn limits_of_containers(config: &mut Config) {
    if config.backend == BackendKind::Docker {
        config.docker.memory = *config.limits.memory.get_or_insert(config.docker.memory);
        config.docker.disk = *config.limits.disk.get_or_insert(config.docker.disk);
    }
}

fn no_workspace(config: &Config) -> Complaint {
    let instead = match config.backend {
        BackendKind::Docker => {
            "scripts work in /workspace of the container; `unsafe_mounts` under [docker] mounts a directory there"
        }
        BackendKind::Ssh => "scripts work in the account's home there, or in `workdir` under [ssh]",
        _ => "scripts work in `workdir` under [command]",
    };
    Complaint::usage(format!(
        "--workspace names a directory of this machine, which backend {} does not have: {instead}",
        config.backend
    ))
}

fn workspace_option(text: &OsStr) -> Result<WorkspaceConfig, Complaint> {
    let text = text.to_str().ok_or_else(|| Complaint::usage("--workspace: the directory's name is not UTF-8 text"))?;
    WorkspaceConfig::parse(text).map_err(|problem| Complaint::usage(format!("--workspace: {problem}")))
}

/// `a,b`; `none` and an empty text are the empty list.
pub(crate) fn tool_list(text: &str) -> Vec<String> {
    let names = text.split(',').map(str::trim).filter(|name| !name.is_empty() && *name != "none");
    names.map(str::to_owned).collect()
}

/// The granted directory as an absolute path: the configured one, else the current directory, read-only.
fn grant(config: &mut Config, host: &Host) -> Result<Option<Grant>, Complaint> {
    let here = WorkspaceConfig::Directory { path: ".".into(), access: Access::ReadOnly };
    match config.workspace.get_or_insert(here) {
        WorkspaceConfig::None => Ok(None),
        WorkspaceConfig::Directory { path, access } => {
            let absolute = absolute(&host.cwd.join(&*path), path)?;
            path.clone_from(&absolute);
            Ok(Some(Grant { path: absolute, access: *access }))
        }
    }
}

/// The path that scripts see too: as it was typed where that is possible, with its links resolved where it has a `..`.
#[expect(clippy::disallowed_methods, reason = "only names the directory, which is then used through a handle")]
fn absolute(path: &Path, typed: &Path) -> Result<PathBuf, Complaint> {
    let wrong = |problem: &str| Complaint::usage(format!("workspace {}: {problem}", typed.display()));
    let failed = |error: std::io::Error| {
        let about_access = match typed.to_string_lossy().rsplit_once(':') {
            Some((_, access)) if !access.contains('/') => " (the access after a colon is `ro` or `rw`)",
            _ => "",
        };
        wrong(&format!("{}{about_access}", described(&error)))
    };
    if !path.metadata().map_err(failed)?.is_dir() {
        return Err(wrong("it is not a directory"));
    }
    if path.components().any(|part| part == Component::ParentDir) {
        return path.canonicalize().map_err(failed);
    }
    Ok(path.components().collect())
}

fn open(grant: &Grant, protected: &[PathBuf], host: &Host) -> Result<Arc<dyn Workspace>, Complaint> {
    let mut builder = HostWorkspace::builder(&grant.path).access(grant.access).protect(protected.iter().cloned());
    if let Some(home) = host.variable("HOME") {
        builder = builder.home(home);
    }
    let failed = |error| Complaint::setup(format!("workspace {}: {}", grant.path.display(), described(&error)));
    Ok(Arc::new(builder.open().map_err(failed)?))
}

fn workspace_tools(access: Option<Access>, guard: &Guard) -> Vec<Arc<dyn Tool>> {
    let mut tools = Vec::new();
    if let Some(access) = access {
        tools.extend(gloveport_tools::reading_tools(guard));
        if access == Access::ReadWrite {
            tools.extend(gloveport_tools::writing_tools(guard));
        }
    }
    tools
}

/// Tools that start programs: `terminal`, if it is switched on, and those of `[[tool]]`, which run on this machine.
fn command_tools(
    config: &Config,
    has_workspace: bool,
    env: Vec<(String, String)>,
    directory: &Path,
) -> Result<Vec<Arc<dyn Tool>>, Complaint> {
    let mut tools = gloveport_tools::custom_tools(&config.custom_tools, env.clone(), directory)
        .map_err(|error| Complaint::usage(error.to_string()))?;
    if config.terminal != Terminal::Off && has_workspace {
        tools.insert(0, gloveport_tools::terminal_tool(config.terminal, env));
    }
    Ok(tools)
}

/// `web_search` and `web_extract`, as far as `[web]` names providers. Keys come from the configuration or the environment.
fn web_tools(config: &Config, host: &Host) -> Result<Vec<Arc<dyn Tool>>, Complaint> {
    let variable = |name: &str| host.variable(name).map(str::to_owned);
    gloveport_tools::WebTools::new(&config.web, variable).build().map_err(|error| Complaint::setup(error.to_string()))
}

/// Whether scripts or tools run as programs of this machine.
fn starts_programs(config: &Config) -> bool {
    let is_backend = matches!(config.backend, BackendKind::Local | BackendKind::Command);
    is_backend || config.terminal != Terminal::Off || !config.custom_tools.is_empty()
}

/// Programs of this machine get what a script on it would get: never the whole environment.
fn command_environment(config: &Config, host: &Host) -> Result<Vec<(String, String)>, Complaint> {
    let redactor = config.redaction.builder().build().map_err(BuildError::from)?;
    let looks_secret = |value: &str| redactor.looks_secret(value);
    let found = scrub(&host.environment, &config.env.pass, Profile::Local, Platform::CURRENT, &looks_secret);
    Ok(found.pairs())
}

/// `lib/python3.*/site-packages` of the active environment, so that its pure-Python packages import.
#[expect(clippy::disallowed_methods, reason = "looks for directories of an environment that the user has activated")]
fn site_packages(host: &Host) -> Vec<PathBuf> {
    let Some(prefix) = python_prefix(&host.environment) else { return Vec::new() };
    let versions = std::fs::read_dir(prefix.join("lib")).into_iter().flatten().flatten();
    let named_python =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("python3"));
    let mut found: Vec<PathBuf> = versions
        .map(|entry| entry.path())
        .filter(named_python)
        .map(|path| path.join("site-packages"))
        .filter(|path| path.is_dir())
        .collect();
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_tools() {
        assert_eq!(tool_list("read_file, search_files,"), ["read_file", "search_files"]);
        assert_eq!(tool_list("none"), [""; 0]);
        assert_eq!(tool_list(""), [""; 0]);
    }

    #[test]
    fn options_win_over_settings() {
        let mut config = Config { tools: Some(vec!["a".into()]), ..Config::default() };
        let scope = ScopeArgs { tools: Some("none".into()), workspace: Some("x:rw".into()), ..ScopeArgs::default() };
        apply(&scope, &mut config).map_err(|complaint| complaint.text()).unwrap();
        assert_eq!(config.tools, Some(vec![]));
        assert_eq!(config.workspace, Some(WorkspaceConfig::Directory { path: "x".into(), access: Access::ReadWrite }));
    }
}
