//! One connection: an `ssh` of the system in master mode, with every option that matters set by us.

use std::fmt::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use gloveport::backend::BackendError;
use openssh::Session;
use tempfile::TempDir;
use tokio::process::Command;
use tokio::sync::{OnceCell, OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::{SshOptions, Target};
use crate::remote::printable;

/// Channels of one connection; servers accept ten by default.
pub(super) const CHANNELS: usize = 8;
/// How long connecting may take in all, jump hosts included.
const CONNECT: Duration = Duration::from_secs(20);
/// How long a look at a host's key may take.
const KEYSCAN: Duration = Duration::from_secs(5);
/// A socket's path must fit in 104 bytes, and ssh adds 17 while it makes it.
const LONGEST_CONTROL_PATH: usize = 85;

/// How the names of control directories begin.
const PREFIX: &str = "gp-ssh-";
/// Entries of a directory that are looked at.
const MOST_SWEPT: usize = 10_000;
/// A control directory younger than this may still wait for its connection.
const SETTLED: Duration = Duration::from_secs(60);

/// What no configuration of the user may change, before whatever that says: ssh takes the first value it finds.
const FIXED: &str = "\
Host *
  BatchMode yes
  ClearAllForwardings yes
  ForwardAgent no
  ForwardX11 no
  PermitLocalCommand no
  RemoteCommand none
  RequestTTY no
  UpdateHostKeys no
  VerifyHostKeyDNS no
  StrictHostKeyChecking yes
  EscapeChar none
  Compression no
  ConnectTimeout 10
  ServerAliveInterval 5
  ServerAliveCountMax 3
  ControlPersist 10
  Tunnel no
";

/// A connection and its free channels.
pub(super) struct Master {
    session: Arc<Session>,
    free: Arc<Semaphore>,
    broken: AtomicBool,
}

impl Master {
    /// Connects. Errors say what to do about them.
    pub(super) async fn connect(target: &Target, options: &SshOptions) -> Result<Self, BackendError> {
        sweep().await;
        let dir = control_directory()?;
        let config = dir.path().join("config");
        write(&config, config_text(target, options).as_bytes())?;
        let log = dir.path().join("log");
        let socket = dir.path().join("master");
        let mut command = ssh("ssh");
        command.arg("-F").arg(&config).arg("-E").arg(&log).arg("-S").arg(&socket).args([
            "-M",
            "-f",
            "-N",
            "--",
            target.host(),
        ]);
        let status = match timeout(CONNECT, command.status()).await {
            Ok(Ok(status)) => status,
            Ok(Err(error)) => return Err(no_client(error)),
            Err(_elapsed) => return Err(failed(target, &format!("no connection within {} s", CONNECT.as_secs()))),
        };
        if !status.success() {
            let said = read(&log);
            return Err(explain(target, options, &said).await);
        }
        Ok(Self {
            session: Arc::new(Session::new_native_mux(dir)),
            free: Arc::new(Semaphore::new(CHANNELS)),
            broken: AtomicBool::new(false),
        })
    }

    pub(super) fn session(&self) -> Arc<Session> {
        Arc::clone(&self.session)
    }

    pub(super) fn try_channel(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.free).try_acquire_owned().ok()
    }

    pub(super) fn mark_broken(&self) {
        self.broken.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Relaxed)
    }
}

fn ssh(program: &str) -> Command {
    let mut command = Command::new(program);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    command
}

fn config_text(target: &Target, options: &SshOptions) -> String {
    let mut text = String::from(FIXED);
    let mut line = |name: &str, value: &str| {
        // Values are quoted; a quote in one would end it early, and a path with a quote is refused by ssh anyway.
        let _infallible = writeln!(text, "  {name} \"{}\"", value.replace('"', ""));
    };
    if let Some(user) = target.user() {
        line("User", user);
    }
    if let Some(port) = target.port() {
        line("Port", &port.to_string());
    }
    if let Some(identity) = &options.identity {
        line("IdentityFile", &identity.to_string_lossy());
        line("IdentitiesOnly", "yes");
    }
    if let Some(known_hosts) = &options.known_hosts {
        line("UserKnownHostsFile", &known_hosts.to_string_lossy());
        line("GlobalKnownHostsFile", "/dev/null");
    }
    if options.use_config {
        // Files that are missing are skipped.
        text.push_str("  Include ~/.ssh/config\n  Include /etc/ssh/ssh_config\n");
    }
    text
}

fn bases() -> [PathBuf; 3] {
    [std::env::temp_dir(), PathBuf::from("/tmp"), PathBuf::from("/var/tmp")]
}

/// Removes control directories that killed processes left, once in the life of this one.
async fn sweep() {
    static ONCE: OnceCell<()> = OnceCell::const_new();
    let swept = ONCE.get_or_init(|| async {
        let _best_effort = tokio::task::spawn_blocking(|| bases().iter().for_each(|base| sweep_in(base))).await;
    });
    swept.await;
}

/// A directory of ours whose connection is gone and that is not just being made.
#[expect(clippy::disallowed_methods, reason = "directories of this account in the one place where it makes them")]
fn sweep_in(base: &Path) {
    let me = rustix::process::geteuid().as_raw();
    for entry in std::fs::read_dir(base).into_iter().flatten().flatten().take(MOST_SWEPT) {
        // Of the entry itself: a link is nobody's directory.
        let Ok(metadata) = entry.metadata() else { continue };
        let ours = entry.file_name().to_string_lossy().starts_with(PREFIX) && metadata.uid() == me && metadata.is_dir();
        let old = metadata.modified().ok().and_then(|then| then.elapsed().ok()).is_some_and(|age| age > SETTLED);
        if ours && old && std::os::unix::net::UnixStream::connect(entry.path().join("master")).is_err() {
            let _another_swept_it = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// A directory of our own (0700) for socket, log and configuration, with a path short enough for a socket.
fn control_directory() -> Result<TempDir, BackendError> {
    let mut tried = Vec::new();
    for base in bases() {
        match tempfile::Builder::new().prefix(PREFIX).tempdir_in(&base) {
            Ok(dir) if dir.path().as_os_str().len() <= LONGEST_CONTROL_PATH => return Ok(dir),
            Ok(_) => tried.push(format!("{} (path too long)", base.display())),
            Err(error) => tried.push(format!("{} ({error})", base.display())),
        }
    }
    Err(BackendError::setup(format!("No directory for the ssh control socket; tried {}.", tried.join(", "))))
}

#[expect(clippy::disallowed_methods, reason = "files of a directory that was just made for them")]
fn write(path: &Path, content: &[u8]) -> Result<(), BackendError> {
    std::fs::write(path, content).map_err(|error| BackendError::Setup {
        message: "The ssh configuration could not be written.".into(),
        source: Some(Box::new(error)),
    })
}

#[expect(clippy::disallowed_methods, reason = "files of a directory that was just made for them")]
fn read(path: &Path) -> String {
    std::fs::read(path).map(|bytes| printable(&bytes)).unwrap_or_default()
}

fn no_client(error: std::io::Error) -> BackendError {
    BackendError::Setup {
        message: format!(
            "The OpenSSH client 'ssh' could not be started: {error}. Install it (Debian: openssh-client)."
        ),
        source: Some(Box::new(error)),
    }
}

fn failed(target: &Target, what: &str) -> BackendError {
    BackendError::setup(format!("Could not connect to {target}: {what}."))
}

/// What the client said, as a sentence that says what to do.
async fn explain(target: &Target, options: &SshOptions, said: &str) -> BackendError {
    if said.contains("IDENTIFICATION HAS CHANGED") {
        let keys = fingerprints(target).await;
        return failed(
            target,
            &format!(
                "its host key is not the one that is known. Either the host was set up anew, or somebody is in between. It now offers {keys}. \
                 If that is right, forget the old one: ssh-keygen -R '{}'",
                known_name(target)
            ),
        );
    }
    if said.contains("host key is known") || said.contains("Host key verification failed") {
        let keys = fingerprints(target).await;
        let port = target.port().map_or(String::new(), |port| format!("-p {port} "));
        let file = options.known_hosts.as_ref().map_or("~/.ssh/known_hosts".into(), |path| path.display().to_string());
        return failed(
            target,
            &format!(
                "its host key is not known. It offers {keys}. If that is right, accept it: ssh-keyscan {port}{} >> {file}",
                target.host()
            ),
        );
    }
    if said.contains("Permission denied") {
        return failed(
            target,
            "no key was accepted. Keys are used without asking for anything: a key with a passphrase has to be in the agent \
             (ssh-add), and passwords are not used",
        );
    }
    failed(target, if said.is_empty() { "ssh ended without a word" } else { said.trim_end_matches('.') })
}

fn known_name(target: &Target) -> String {
    match target.port() {
        Some(port) if port != 22 => format!("[{}]:{port}", target.host()),
        _ => target.host().to_owned(),
    }
}

/// The fingerprints of a host's keys, as far as it can be asked directly.
async fn fingerprints(target: &Target) -> String {
    let unknown = || String::from("not found out");
    let mut scan = ssh("ssh-keyscan");
    scan.args(["-T", "4", "-p", &target.port().unwrap_or(22).to_string(), "--", target.host()]).stdout(Stdio::piped());
    let Ok(Ok(keys)) = timeout(KEYSCAN, scan.output()).await else { return unknown() };
    let Ok(mut file) = tempfile::NamedTempFile::new() else { return unknown() };
    if std::io::Write::write_all(&mut file, &keys.stdout).is_err() {
        return unknown();
    }
    let mut show = ssh("ssh-keygen");
    show.arg("-l").arg("-f").arg(file.path()).stdout(Stdio::piped());
    match timeout(KEYSCAN, show.output()).await {
        Ok(Ok(shown)) if !shown.stdout.is_empty() => {
            // `256 SHA256:… host (ED25519)`: the middle and the end.
            let lines = String::from_utf8_lossy(&shown.stdout).into_owned();
            let keys: Vec<String> = lines
                .lines()
                .filter_map(|line| {
                    let words: Vec<&str> = line.split_whitespace().collect();
                    Some(format!("{} {}", words.get(1)?, words.last()?))
                })
                .collect();
            keys.join(", ")
        }
        _ => unknown(),
    }
}
