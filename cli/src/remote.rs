//! The backends that run scripts elsewhere: made from their sections of the configuration.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use gloveport::Config;
use gloveport::backend::{Backend as _, BackendError};
use gloveport::config::{BackendKind, Terminal};
use gloveport_backends::docker::{self, Progress};
use gloveport_backends::{PathGuard, RemoteBackend, Use, command, local, ssh};
use gloveport_tools::Guard;

use crate::Host;
use crate::complaint::Complaint;
use crate::terminal;

/// How often a pull that goes on is mentioned.
const MENTION: Duration = Duration::from_secs(10);
/// How long environments may take to end when the command does. What is not gone by then ends by itself, because its host is gone.
pub(crate) const FAREWELL: Duration = Duration::from_secs(10);

/// The configured backend, unless it is the one that is part of the runtime. `environment` is what programs of this machine get.
pub(crate) fn backend(
    config: &Config,
    guard: &Guard,
    host: &Host,
    environment: Vec<(String, String)>,
) -> Result<Option<Arc<RemoteBackend>>, Complaint> {
    let made = match config.backend {
        BackendKind::Wasi => return Ok(None),
        BackendKind::Docker => docker::backend(&config.docker, &endpoint(host), Some(progress(&config.docker.image))),
        BackendKind::Ssh => ssh_backend(config),
        BackendKind::Local => local::backend(&config.local, environment),
        BackendKind::Command => command::backend(&config.command, with_own(environment, &config.command.env, host)),
    };
    let backend = made.map_err(|error| complaint(&error))?.guarded(judge(guard.clone()));
    confines(config, &backend)?;
    Ok(Some(Arc::new(backend)))
}

/// One thread is enough to talk to a remote.
pub(crate) fn runtime() -> Result<tokio::runtime::Runtime, Complaint> {
    let made = tokio::runtime::Builder::new_current_thread().enable_all().build();
    made.map_err(|error| Complaint::setup(format!("can't start a runtime: {error}")))
}

/// Where the container engine listens.
pub(crate) fn endpoint(host: &Host) -> String {
    docker::endpoint(|name| host.variable(name).map(str::to_owned))
}

/// Whether scripts and tools of a backend work on this machine, in the directory that is granted here.
pub(crate) fn is_here(kind: BackendKind) -> bool {
    matches!(kind, BackendKind::Wasi | BackendKind::Local)
}

/// A backend's error about how it is set up.
pub(crate) fn complaint(error: &BackendError) -> Complaint {
    Complaint::setup(error.to_string())
}

fn ssh_backend(config: &Config) -> Result<RemoteBackend, BackendError> {
    if config.ssh.host.is_empty() {
        return Err(BackendError::setup(
            "The ssh backend needs a host: --host user@host, or `host` under [ssh] in gloveport.toml.",
        ));
    }
    ssh::backend(&config.ssh)
}

/// Adds the variables that the command needs for itself.
fn with_own(mut environment: Vec<(String, String)>, names: &[String], host: &Host) -> Vec<(String, String)> {
    for name in names {
        if let Some(value) = host.variable(name) {
            environment.retain(|(known, _)| known != name);
            environment.push((name.clone(), value.to_owned()));
        }
    }
    environment
}

/// Commands that have to be confined are refused before the run where nothing can confine them.
fn confines(config: &Config, backend: &RemoteBackend) -> Result<(), Complaint> {
    let asked = config.terminal == Terminal::Confined && !is_here(config.backend);
    let capabilities = backend.capabilities();
    if asked && !(capabilities.files_confined && capabilities.network_denied) {
        return Err(Complaint::usage(format!(
            "`terminal = \"confined\"` can't be enforced by backend {}: commands would run there with all rights of the account. \
             If you want that, set terminal = \"host\"",
            backend.name()
        )));
    }
    Ok(())
}

/// The guard of the tools, for the paths that a remote resolved.
fn judge(guard: Guard) -> PathGuard {
    Arc::new(move |root, path, purpose| {
        let refusal = match purpose {
            Use::Read => guard.read(path),
            Use::Write => guard.write(root, path),
        };
        refusal.map(|refusal| refusal.0)
    })
}

/// Mentions a pull when it begins and now and then while it lasts.
fn progress(image: &str) -> Progress {
    let image = image.to_owned();
    let last: Mutex<Option<Instant>> = Mutex::default();
    Arc::new(move |step, done, total| {
        let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
        let text = match *last {
            None => format!("getting the image {image}; this happens once and may take minutes"),
            Some(then) if then.elapsed() < MENTION => return,
            Some(_) if total > 0 => format!("{image}: {} {} of {} MB", step.to_lowercase(), done >> 20, total >> 20),
            Some(_) => format!("{image}: {}", step.to_lowercase()),
        };
        *last = Some(Instant::now());
        terminal::note("docker", &terminal::clean(&text));
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(change: impl FnOnce(&mut Config)) -> Result<Option<Arc<RemoteBackend>>, String> {
        let host = Host { environment: vec![("KUBECONFIG".into(), "/k".into())], cwd: "/".into() };
        let mut config = Config::default();
        change(&mut config);
        backend(&config, &Guard::default(), &host, vec![("PATH".into(), "/bin".into())])
            .map_err(|complaint| complaint.text().to_string())
    }

    #[test]
    fn what_is_missing_is_said_before_anything_is_tried() {
        assert!(made(|_| ()).unwrap().is_none());
        let ssh = made(|config| config.backend = BackendKind::Ssh).unwrap_err();
        assert_eq!(ssh, "The ssh backend needs a host: --host user@host, or `host` under [ssh] in gloveport.toml.");
        let local = made(|config| config.backend = BackendKind::Local).unwrap_err();
        assert_eq!(
            local,
            "The local backend isolates nothing: scripts run with your own rights. If you want that, set `unsafe_no_isolation = true` \
             under [local] in gloveport.toml."
        );
        let command = made(|config| config.backend = BackendKind::Command).unwrap_err();
        assert!(command.starts_with("The command backend needs `argv`"), "{command}");
    }

    #[test]
    fn confinement_that_nobody_enforces_is_refused() {
        let confined = |kind, network: &str| {
            made(|config| {
                config.backend = kind;
                config.ssh.host = "me@host".into();
                config.docker.network = network.into();
                config.terminal = Terminal::Confined;
            })
            .is_ok()
        };
        assert!(confined(BackendKind::Docker, "none"));
        assert!(!confined(BackendKind::Docker, "bridge"));
        assert!(!confined(BackendKind::Ssh, "none"));
    }

    #[test]
    fn a_command_gets_the_variables_it_needs() {
        let host = Host {
            environment: vec![("KUBECONFIG".into(), "/k".into()), ("OTHER".into(), "x".into())],
            cwd: "/".into(),
        };
        let got = with_own(vec![("PATH".into(), "/bin".into())], &["KUBECONFIG".into(), "GONE".into()], &host);
        assert_eq!(got, [("PATH".into(), "/bin".into()), ("KUBECONFIG".into(), "/k".into())]);
    }
}
