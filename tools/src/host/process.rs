//! Runs a command in the workspace: own process group, its own environment, bounded output, and nothing left of it afterwards.

mod ring;

use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use gloveport::workspace::{Command, CommandOutput, WorkspaceError};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};

use super::Inner;
use super::open::{handle_path, refusal};
use ring::Ring;

/// How often the end of the command is looked for while something that it started holds its output open.
const TICK: Duration = Duration::from_millis(20);
/// How long output is read after everything was killed.
const DRAIN: Duration = Duration::from_millis(500);
/// Bytes of one read.
const PIECE: usize = 64 << 10;
/// The variable by which processes of a command are known that left its process group.
const MARK: &str = "GLOVEPORT_COMMAND";
/// Rounds of looking for such processes: each may have started others meanwhile.
const ROUNDS: usize = 5;

/// Runs the command on a thread of its own. Dropping the future kills the command.
pub(crate) async fn run(host: &Arc<Inner>, command: Command) -> Result<CommandOutput, WorkspaceError> {
    let host = Arc::clone(host);
    let (send, result) = tokio::sync::oneshot::channel();
    // The other end of this pipe closes when the future is dropped, which wakes the thread.
    let (dropped, _alive) = std::io::pipe().map_err(|e| refusal(&e))?;
    let dropped = OwnedFd::from(dropped);
    let supervise = move || _ = send.send(supervise(&host, &command, &dropped));
    let thread = std::thread::Builder::new().name("gloveport-command".into()).spawn(supervise);
    thread.map_err(|e| refusal(&e))?;
    result.await.unwrap_or_else(|_| Err(broken("the command's thread broke off")))
}

fn broken(message: &str) -> WorkspaceError {
    WorkspaceError::Io { message: message.to_owned(), source: None }
}

/// A command under way. Dropping it kills what is left.
struct Running {
    child: Child,
    mark: String,
    output: File,
    ring: Ring,
    /// Removed with its content at the end.
    _scratch: Option<tempfile::TempDir>,
}

fn supervise(host: &Inner, command: &Command, dropped: &OwnedFd) -> Result<CommandOutput, WorkspaceError> {
    let mut running = start(host, command)?;
    let until = Instant::now() + command.timeout;
    let mut ended = false;
    let mut open = true;
    while !ended && Instant::now() < until {
        match running.wait_for_output(dropped, until.saturating_duration_since(Instant::now()).min(TICK), open) {
            Woken::Output => open = running.read_some(),
            Woken::Dropped => {
                running.kill();
                return Err(broken("nobody waits for the command"));
            }
            Woken::Time => {}
        }
        ended = running.has_ended();
    }
    running.kill();
    let drained = Instant::now() + DRAIN;
    while open && Instant::now() < drained {
        match running.wait_for_output(dropped, TICK, true) {
            Woken::Output => open = running.read_some(),
            Woken::Dropped => break,
            Woken::Time => {}
        }
    }
    let status = running.child.wait().map_err(|e| refusal(&e))?;
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    let ring = std::mem::take(&mut running.ring);
    Ok(ring.into_output(if ended { code } else { None }))
}

enum Woken {
    Output,
    Dropped,
    Time,
}

impl Running {
    /// Waits until there is output, the caller is gone, or some time has passed.
    fn wait_for_output(&self, dropped: &OwnedFd, at_most: Duration, open: bool) -> Woken {
        let timeout = Timespec::try_from(at_most).ok();
        let mut fds = vec![PollFd::new(dropped, PollFlags::IN)];
        if open {
            fds.push(PollFd::new(&self.output, PollFlags::IN));
        }
        if poll(&mut fds, timeout.as_ref()).is_err() {
            return Woken::Time;
        }
        match (fds[0].revents().is_empty(), fds.get(1).is_some_and(|fd| !fd.revents().is_empty())) {
            (false, _) => Woken::Dropped,
            (true, true) => Woken::Output,
            (true, false) => Woken::Time,
        }
    }

    /// Takes what is there; `false` when nobody can write any more.
    fn read_some(&mut self) -> bool {
        let mut piece = [0; PIECE];
        match self.output.read(&mut piece) {
            Ok(0) => false,
            Ok(count) => {
                self.ring.push(&piece[..count]);
                true
            }
            Err(error) => matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::Interrupted),
        }
    }

    /// Whether the command itself has ended. It is not reaped yet, so that its group's number can't become another's.
    fn has_ended(&self) -> bool {
        let Some(pid) = self.pid() else { return true };
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        !matches!(rustix::process::waitid(WaitId::Pid(pid), options), Ok(None))
    }

    fn pid(&self) -> Option<Pid> {
        i32::try_from(self.child.id()).ok().and_then(Pid::from_raw)
    }

    /// Kills the group, and whatever left the group but still carries the mark.
    fn kill(&self) {
        if let Some(pid) = self.pid() {
            _ = rustix::process::kill_process_group(pid, Signal::KILL);
        }
        for _ in 0..ROUNDS {
            let strays = marked(&self.mark);
            if strays.is_empty() {
                return;
            }
            for stray in strays {
                _ = rustix::process::kill_process(stray, Signal::KILL);
            }
        }
    }
}

/// Processes that carry a mark in their environment. A process that took it out of its environment is not found.
fn marked(mark: &str) -> Vec<Pid> {
    let mark = format!("{MARK}={mark}");
    let Ok(processes) = cap_std::fs::Dir::open_ambient_dir("/proc", cap_std::ambient_authority()) else { return Vec::new() };
    let Ok(entries) = processes.entries() else { return Vec::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let carries = |pid: &i32| {
        let environ = processes.read(format!("{pid}/environ")).unwrap_or_default();
        // What is dead already has no environment any more, and stays listed until it is reaped.
        environ.split(|&byte| byte == 0).any(|variable| variable == mark.as_bytes())
    };
    pids.filter(carries).filter_map(Pid::from_raw).collect()
}

fn start(host: &Inner, command: &Command) -> Result<Running, WorkspaceError> {
    let workdir = command.workdir.as_deref().unwrap_or(".");
    let directory = host.at(workdir, |path| host.dir.open_dir(path))?;
    let (output, writer) = std::io::pipe().map_err(|e| refusal(&e))?;
    let both = writer.try_clone().map_err(|e| refusal(&e))?;
    let output = OwnedFd::from(output);
    rustix::io::ioctl_fionbio(&output, true).map_err(|e| refusal(&e.into()))?;
    let scratch = command.confined.then(tempfile::tempdir).transpose().map_err(|e| refusal(&e))?;
    let mark = format!("{:016x}", super::journal::fresh_number());
    let mut shell = shell(command, &mark);
    shell.stdin(Stdio::null()).stdout(Stdio::from(writer)).stderr(Stdio::from(both)).process_group(0);
    if let Some(scratch) = &scratch {
        shell.env("TMPDIR", scratch.path());
    }
    // The handle, not a path: the directory may have been moved meanwhile. The command finds its own name for it.
    shell.current_dir(directory_path(&directory));
    let child = match &scratch {
        Some(scratch) => spawn_confined(host, shell, scratch.path().to_owned())?,
        None => shell.spawn().map_err(|e| refusal(&e))?,
    };
    Ok(Running { child, mark, output: output.into(), ring: Ring::new(command.keep), _scratch: scratch })
}

/// The one place that starts commands for a script, with an environment that holds what the caller gave and nothing else.
#[expect(clippy::disallowed_methods, reason = "this file owns the processes of commands")]
fn shell(command: &Command, mark: &str) -> std::process::Command {
    let mut shell = std::process::Command::new("/bin/sh");
    shell.arg("-c").arg(&command.command).env_clear();
    shell.envs(command.env.iter().map(|(name, value)| (name, value))).env(MARK, mark);
    shell
}

fn directory_path(directory: &cap_std::fs::Dir) -> PathBuf {
    let by_handle = PathBuf::from(format!("/proc/self/fd/{}", directory.as_fd().as_raw_fd()));
    if handle_path(directory).is_some() { by_handle } else { PathBuf::from(".") }
}

/// Starts on a thread that is confined first; the child inherits it, and the thread ends.
#[cfg(target_os = "linux")]
fn spawn_confined(host: &Inner, mut shell: std::process::Command, scratch: PathBuf) -> Result<Child, WorkspaceError> {
    use super::confine::{Reach, confine_thread};
    let started = std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let reach = Reach {
                root: host.dir.as_fd(),
                access: host.access,
                readable: &host.readable,
                scratch: &scratch,
            };
            confine_thread(&reach).map_err(WorkspaceError::Denied)?;
            shell.spawn().map_err(|e| refusal(&e))
        });
        thread.join()
    });
    started.unwrap_or_else(|_| Err(broken("the command could not be confined")))
}

/// Only Linux has Landlock.
#[cfg(not(target_os = "linux"))]
fn spawn_confined(_: &Inner, _: std::process::Command, _: PathBuf) -> Result<Child, WorkspaceError> {
    Err(WorkspaceError::Denied("commands can be confined on Linux only".into()))
}
