//! An sshd and a dockerd for the tests: own keys, ports and folders; started once, on first use, and stopped by process id.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use gloveport_backends::RemoteBackend;
use gloveport_backends::docker::{self, DockerOptions};
use gloveport_backends::ssh::{self, SshOptions};

static STARTED: Mutex<Vec<Child>> = Mutex::new(Vec::new());

/// Where keys, logs and data are. Children of this process use the same.
pub fn home() -> PathBuf {
    let dir = std::env::var_os("GP_TEST_HOME")
        .map_or_else(|| std::env::temp_dir().join(format!("gp-it-{}", std::process::id())), PathBuf::from);
    std::fs::create_dir_all(&dir).unwrap();
    dir
}

/// Ends what was started here.
pub fn stop() {
    for mut child in STARTED.lock().unwrap().drain(..) {
        let _ = Command::new("kill").arg(child.id().to_string()).status();
        let _ = child.wait();
    }
    if std::env::var_os("GP_TEST_HOME").is_none() {
        let _ = std::fs::remove_dir_all(home());
    }
}

pub fn has(program: &str) -> bool {
    Command::new("sh")
        .args(["-c", &format!("command -v {program}")])
        .stdout(Stdio::null())
        .status()
        .is_ok_and(|s| s.success())
}

pub fn is_root() -> bool {
    Command::new("id").arg("-u").output().is_ok_and(|o| o.stdout == b"0\n")
}

pub fn sh(line: &str) -> String {
    let done = Command::new("sh").args(["-c", line]).output().unwrap();
    assert!(done.status.success(), "{line}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8_lossy(&done.stdout).into_owned()
}

// --- sshd ------------------------------------------------------------------------------------------------------------

/// The engines take minutes; `cargo xtask test` asks for them.
fn not_asked_for() -> Option<String> {
    std::env::var_os("GLOVEPORT_ENGINES").is_none().then(|| "run-with-xtask-test".into())
}

pub fn ssh_missing() -> Option<String> {
    if let Some(reason) = not_asked_for() {
        return Some(reason);
    }
    if !Path::new("/usr/sbin/sshd").exists() {
        return Some("no-sshd".into());
    }
    (!is_root()).then(|| "sshd-needs-root".into())
}

#[derive(Debug, Clone)]
pub struct Sshd {
    pub port: u16,
    /// A second port, for tests that cut the way to it.
    pub cut_port: u16,
    pub key: PathBuf,
    pub known_hosts: PathBuf,
}

/// The server of this process.
pub fn sshd() -> &'static Sshd {
    static SSHD: OnceLock<Sshd> = OnceLock::new();
    SSHD.get_or_init(|| match std::env::var("GP_TEST_SSH_PORT") {
        Ok(port) => Sshd {
            port: port.parse().unwrap(),
            cut_port: 0,
            key: home().join("key"),
            known_hosts: home().join("known_hosts"),
        },
        Err(_) => start_sshd(),
    })
}

fn start_sshd() -> Sshd {
    let home = home();
    let path = |name: &str| home.join(name);
    let show = |name: &str| path(name).display().to_string();
    sh(&format!("mkdir -p /run/sshd; rm -f {0}/key* {0}/hostkey*; chmod 755 {0}", home.display()));
    for name in ["key", "hostkey"] {
        sh(&format!("ssh-keygen -q -t ed25519 -N '' -f {}", show(name)));
    }
    let listeners = [(); 2].map(|()| std::net::TcpListener::bind("127.0.0.1:0").unwrap());
    let [port, cut_port] = listeners.map(|listener| listener.local_addr().unwrap().port());
    std::fs::copy(path("key.pub"), path("authorized")).unwrap();
    sh(&format!("chmod 644 {}", show("authorized")));
    let config = format!(
        "Port {port}\nPort {cut_port}\nListenAddress 127.0.0.1\nHostKey {}\nAuthorizedKeysFile {}\nStrictModes no\nUsePAM no\nPidFile none\n\
         PermitRootLogin yes\nPasswordAuthentication no\nKbdInteractiveAuthentication no\nAcceptEnv LANG LC_*\n",
        show("hostkey"),
        show("authorized")
    );
    std::fs::write(path("sshd_config"), config).unwrap();
    let log = std::fs::File::create(path("sshd.log")).unwrap();
    let child = Command::new("/usr/sbin/sshd")
        .args(["-D", "-e", "-f", &show("sshd_config")])
        .stderr(log)
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    STARTED.lock().unwrap().push(child);
    let known = std::fs::read_to_string(path("hostkey.pub")).unwrap();
    std::fs::write(path("known_hosts"), format!("[127.0.0.1]:{port} {known}[127.0.0.1]:{cut_port} {known}")).unwrap();
    for _ in 0..100 {
        if std::net::TcpStream::connect(("127.0.0.1", port)).is_ok() {
            return Sshd { port, cut_port, key: path("key"), known_hosts: path("known_hosts") };
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("sshd did not start: {}", std::fs::read_to_string(path("sshd.log")).unwrap());
}

pub fn ssh_options() -> SshOptions {
    let sshd = sshd();
    SshOptions {
        host: "root@127.0.0.1".into(),
        port: Some(sshd.port),
        identity: Some(sshd.key.clone()),
        known_hosts: Some(sshd.known_hosts.clone()),
        use_config: false,
        python: python(),
        ..SshOptions::default()
    }
}

/// The interpreter of this machine, as an ssh login has it: the system's, whatever the PATH of whoever runs the tests says.
pub fn python() -> String {
    let system = "/usr/bin/python3";
    let new_enough = "import sys; sys.exit(sys.version_info < (3, 8))";
    if Command::new(system).args(["-c", new_enough]).status().is_ok_and(|status| status.success()) {
        return system.into();
    }
    sh("python3 -c 'import sys; print(sys.executable)'").trim().to_owned()
}

pub fn ssh_backend() -> RemoteBackend {
    ssh::backend(&ssh_options()).unwrap()
}

// --- dockerd ---------------------------------------------------------------------------------------------------------

/// The image of the tests, made by `mmdebstrap --variant=essential --include=python3,tzdata` and kept between runs.
const IMAGE: &str = "gloveport-test:2";
const IMAGE_FILE: &str = "gloveport-test-image-2.tar";

pub fn docker_missing() -> Option<String> {
    if let Some(reason) = not_asked_for() {
        return Some(reason);
    }
    for program in ["dockerd", "docker", "docker-init"] {
        if !has(program) {
            return Some(format!("no-{program}"));
        }
    }
    if !image_file().exists() && !has("mmdebstrap") {
        return Some("no-mmdebstrap".into());
    }
    (!is_root()).then(|| "dockerd-needs-root".into())
}

fn image_file() -> PathBuf {
    std::env::var_os("GP_TEST_IMAGE").map_or_else(|| std::env::temp_dir().join(IMAGE_FILE), PathBuf::from)
}

/// Where the engine of this process listens.
pub fn docker_endpoint() -> &'static str {
    static ENDPOINT: OnceLock<String> = OnceLock::new();
    ENDPOINT.get_or_init(|| std::env::var("GP_TEST_DOCKER").unwrap_or_else(|_| start_docker()))
}

fn start_docker() -> String {
    let home = home().join("docker");
    std::fs::create_dir_all(&home).unwrap();
    let show = |name: &str| home.join(name).display().to_string();
    let endpoint = format!("unix://{}", show("sock"));
    let log = std::fs::File::create(home.join("log")).unwrap();
    // The engine's own files are not for overlayfs when the tests' folder is one already.
    let child = Command::new("dockerd")
        .args(["--data-root", &show("data"), "--exec-root", &show("exec"), "-H", &endpoint, "--pidfile", &show("pid")])
        .args(["--iptables=false", "--ip6tables=false", "--bridge=none", "--log-level", "error"])
        .stdout(Stdio::null())
        .stderr(log)
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    STARTED.lock().unwrap().push(child);
    let docker = format!("docker -H {endpoint}");
    for _ in 0..200 {
        if Command::new("sh").args(["-c", &format!("{docker} version >/dev/null 2>&1")]).status().unwrap().success() {
            let file = image_file();
            if !file.exists() {
                sh(&format!(
                    "mmdebstrap --format=tar --variant=essential --include=python3,tzdata bookworm {}.new && mv {0}.new {0}",
                    file.display()
                ));
            }
            sh(&format!("{docker} import {} {IMAGE}", file.display()));
            return endpoint;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("dockerd did not start: {}", std::fs::read_to_string(home.join("log")).unwrap());
}

pub fn docker_options() -> DockerOptions {
    DockerOptions { image: IMAGE.into(), pull: false, ..DockerOptions::default() }
}

pub fn docker_backend() -> RemoteBackend {
    docker::backend(&docker_options(), docker_endpoint(), None).unwrap()
}
