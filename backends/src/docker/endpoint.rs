//! Where the container engine listens, and connecting to it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use bollard::{API_DEFAULT_VERSION, Docker};
use gloveport::backend::BackendError;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tokio::time::timeout;

/// How long the engine may take to answer, pulls aside.
const PATIENCE: u64 = 30;
/// How long it may take to answer the first question.
const HELLO: Duration = Duration::from_secs(10);
/// Where Docker listens unless told otherwise.
const DOCKER_SOCKET: &str = "/var/run/docker.sock";

/// Where the engine is, as the docker command would find out: `DOCKER_HOST`, then `DOCKER_CONTEXT` or the current context, then the
/// usual sockets, Docker's first and Podman's next. `variable` looks an environment variable up.
pub fn endpoint(variable: impl Fn(&str) -> Option<String>) -> String {
    if let Some(host) = variable("DOCKER_HOST").filter(|host| !host.is_empty()) {
        return host;
    }
    let home = variable("HOME").map(PathBuf::from);
    let config = variable("DOCKER_CONFIG").map(PathBuf::from).or_else(|| home.map(|home| home.join(".docker")));
    if let Some(host) = config.and_then(|config| of_context(&config, variable("DOCKER_CONTEXT"))) {
        return host;
    }
    let podman = variable("XDG_RUNTIME_DIR").map(|dir| format!("{dir}/podman/podman.sock"));
    match podman {
        Some(podman) if !Path::new(DOCKER_SOCKET).exists() && Path::new(&podman).exists() => format!("unix://{podman}"),
        _ => format!("unix://{DOCKER_SOCKET}"),
    }
}

fn of_context(config: &Path, named: Option<String>) -> Option<String> {
    let name =
        named.or_else(|| json(&config.join("config.json"))?.get("currentContext")?.as_str().map(str::to_owned))?;
    if name.is_empty() || name == "default" {
        return None;
    }
    let id = crate::seal::hex(&Sha256::digest(name.as_bytes()));
    let meta = json(&config.join("contexts/meta").join(id).join("meta.json"))?;
    meta.pointer("/Endpoints/docker/Host")?.as_str().map(str::to_owned)
}

#[expect(clippy::disallowed_methods, reason = "the docker command's own configuration is read here and nowhere else")]
fn json(path: &Path) -> Option<Value> {
    serde_json::from_slice(&std::fs::read(path).ok()?).ok()
}

/// Connects and agrees on a version of the API.
pub(super) async fn connect(endpoint: &str) -> Result<Docker, BackendError> {
    let opened = match endpoint.split_once("://") {
        Some(("unix", _)) => Docker::connect_with_unix(endpoint, PATIENCE, API_DEFAULT_VERSION),
        // TLS as the docker command takes it, by DOCKER_TLS_VERIFY and DOCKER_CERT_PATH; ssh by the system's client.
        _ => {
            // The client's TLS takes the process's provider and panics without one. A program that has its own keeps it.
            let _has_its_own = rustls_graviola::default_provider().install_default();
            Docker::connect_with_host(endpoint)
        }
    };
    let docker = opened.map_err(|error| unreachable(endpoint, Box::new(error)))?;
    let docker = docker.with_timeout(Duration::from_secs(PATIENCE));
    match timeout(HELLO, docker.negotiate_version()).await {
        Ok(Ok(docker)) => Ok(docker),
        Ok(Err(error)) => Err(unreachable(endpoint, Box::new(error))),
        Err(_elapsed) => Err(BackendError::setup(format!(
            "The container engine at {endpoint} does not answer within {} s.",
            HELLO.as_secs()
        ))),
    }
}

fn unreachable(endpoint: &str, error: Box<bollard::errors::Error>) -> BackendError {
    BackendError::Setup {
        message: format!(
            "No container engine can be reached at {endpoint}: {error}. Start Docker (systemctl start docker) or Podman \
             (systemctl --user start podman.socket), or say where it is with DOCKER_HOST."
        ),
        source: Some(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(pairs: &'static [(&'static str, &'static str)]) -> impl Fn(&str) -> Option<String> {
        move |name| pairs.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned())
    }

    #[test]
    fn the_environment_comes_first() {
        assert_eq!(endpoint(with(&[("DOCKER_HOST", "tcp://h:1"), ("DOCKER_CONTEXT", "x")])), "tcp://h:1");
        assert_eq!(endpoint(with(&[("HOME", "/nowhere")])), "unix:///var/run/docker.sock");
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a test's own directory")]
    fn contexts_are_honored() {
        let home = tempfile::tempdir().unwrap();
        let meta = home.path().join("contexts/meta").join(crate::seal::hex(&Sha256::digest(b"far")));
        std::fs::create_dir_all(&meta).unwrap();
        std::fs::write(meta.join("meta.json"), r#"{"Name": "far", "Endpoints": {"docker": {"Host": "ssh://me@far"}}}"#)
            .unwrap();
        std::fs::write(home.path().join("config.json"), r#"{"currentContext": "far"}"#).unwrap();
        assert_eq!(of_context(home.path(), None).as_deref(), Some("ssh://me@far"));
        assert_eq!(of_context(home.path(), Some("default".into())), None);
        assert_eq!(of_context(home.path(), Some("other".into())), None);
    }
}
