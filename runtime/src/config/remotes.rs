//! The sections of the backends that run scripts elsewhere. Plain data: what it means is for the crate that has those backends.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::backend::Isolation;

/// `[docker]`: scripts in a container.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct DockerConfig {
    /// Image with Python 3.8 or newer; `name@sha256:…` pins it.
    pub image: String,
    /// Whether an image that is not there is pulled.
    pub pull: bool,
    /// Python interpreter inside.
    pub python: String,
    /// Megabytes of memory; swap is not added to it. `limits.memory` wins where it is set.
    pub memory: u64,
    /// Processors, as a number like 1.5.
    pub cpus: f64,
    /// Processes and threads.
    pub pids: i64,
    /// Megabytes of `/tmp` and of `/workspace`, each. `limits.disk` wins where it is set.
    pub disk: u64,
    /// Files and directories in each of them.
    pub inodes: u64,
    /// User inside, as numbers.
    pub user: String,
    /// The engine's runtime, for example `runsc` (gVisor); absent = its default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runtime: Option<String>,
    /// Network that the container joins; `none` = none.
    pub network: String,
    /// Minutes after which an unused container is removed.
    pub idle_minutes: u64,
    /// Containers at the same time.
    pub containers: usize,
    /// Directories of the host to mount, as `/host/dir:/inside[:ro]`. A script can do to them whatever the user inside may.
    pub unsafe_mounts: Vec<String>,
    /// Runs as this machine's own user instead of `user`, so that mounted files keep their owner. Given as `uid:gid`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unsafe_host_user: Option<String>,
    /// Whether `user` may be root.
    pub unsafe_root: bool,
    /// Whether the network may be the host's own or another container's.
    pub unsafe_shared_network: bool,
}

impl Default for DockerConfig {
    fn default() -> Self {
        Self {
            image: "python:3.13-slim".to_owned(),
            pull: true,
            python: "python3".to_owned(),
            memory: 512,
            cpus: 1.0,
            pids: 128,
            disk: 256,
            inodes: 100_000,
            user: "65532:65532".to_owned(),
            runtime: None,
            network: "none".to_owned(),
            idle_minutes: 5,
            containers: 16,
            unsafe_mounts: Vec::new(),
            unsafe_host_user: None,
            unsafe_root: false,
            unsafe_shared_network: false,
        }
    }
}

/// `[ssh]`: scripts on another host or account.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SshConfig {
    /// `user@host`, `host`, `ssh://user@host:port`, or a name from the user's ssh configuration.
    pub host: String,
    /// Port; absent = what the ssh configuration says, else 22.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// Private key to use, and no other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub identity: Option<PathBuf>,
    /// File of known host keys instead of the user's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub known_hosts: Option<PathBuf>,
    /// Whether the user's ssh configuration is read. Forwarding and local commands stay off whatever it says.
    pub use_config: bool,
    /// Python interpreter there.
    pub python: String,
    /// Working directory of scripts there; absent = the account's home.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workdir: Option<String>,
    /// Where run directories are made there; absent = the first usable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// Connections at the same time, each with eight channels; further runs wait for one.
    pub connections: usize,
    /// Minutes after which an unused connection is closed.
    pub idle_minutes: u64,
}

impl Default for SshConfig {
    fn default() -> Self {
        Self {
            host: String::new(),
            port: None,
            identity: None,
            known_hosts: None,
            use_config: true,
            python: "python3".to_owned(),
            workdir: None,
            place: None,
            connections: 4,
            idle_minutes: 5,
        }
    }
}

/// `[local]`: scripts in a child process. The default refuses to run anything.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LocalConfig {
    /// Must be true: scripts run with your own rights, and nothing isolates them.
    pub unsafe_no_isolation: bool,
    /// Python interpreter.
    pub python: String,
    /// Where run directories are made; absent = the first usable of the runtime directory, shared memory and `/tmp`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// Whether to do without FIFOs.
    pub poll: bool,
}

impl Default for LocalConfig {
    fn default() -> Self {
        Self { unsafe_no_isolation: false, python: "python3".to_owned(), place: None, poll: false }
    }
}

/// `[command]`: scripts wherever a command line leads, for example `kubectl exec -i POD --`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CommandConfig {
    /// The command line's beginning, one word each. `{task}` in a word becomes the task's name.
    pub argv: Vec<String>,
    /// Variables of this process that the command itself gets beside `PATH`, `HOME` and the like, by exact name: `KUBECONFIG`.
    pub env: Vec<String>,
    /// Whether words go through a shell on the other side, as with `ssh host`: then they are quoted and joined.
    pub shell: bool,
    /// Isolation that it reaches, vouched for by whoever configures it: `none`, `account` or `container`.
    #[schemars(with = "String")]
    pub isolation: Isolation,
    /// Python interpreter on the other side.
    pub python: String,
    /// Working directory of scripts there; absent = where its processes start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workdir: Option<String>,
    /// Where run directories are made there; absent = the first usable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
}

impl Default for CommandConfig {
    fn default() -> Self {
        Self {
            argv: Vec::new(),
            env: Vec::new(),
            shell: false,
            isolation: Isolation::None,
            python: "python3".to_owned(),
            workdir: None,
            place: None,
        }
    }
}
