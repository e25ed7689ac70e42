//! Watches a process that a tool started: bounded output, a time limit, and nothing left of it afterwards.

mod ring;

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use gloveport::workspace::WorkspaceError;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};

use crate::host::journal::fresh_number;
use crate::host::open::refusal;
pub(crate) use ring::Ring;

/// How often the end of the process is looked for while something that it started holds its output open.
const TICK: Duration = Duration::from_millis(20);
/// How long output is read after everything was killed.
const DRAIN: Duration = Duration::from_millis(500);
/// Bytes of one read.
const PIECE: usize = 64 << 10;
/// The variable by which processes are known that left the process group.
const MARK: &str = "GLOVEPORT_COMMAND";
/// Rounds of looking for such processes: each may have started others meanwhile.
const ROUNDS: usize = 5;

/// A process under way. Dropping it kills it with everything it started.
pub(crate) struct Running {
    child: Child,
    mark: String,
    outputs: Vec<Output>,
    /// Removed with its content at the end.
    _scratch: Option<tempfile::TempDir>,
}

/// One stream of the process.
struct Output {
    file: File,
    ring: Ring,
    open: bool,
}

/// How a process ended.
pub(crate) struct Ended {
    /// Exit code, 128 + signal for a killed one, `None` after a time-out.
    pub(crate) code: Option<i32>,
    /// What its streams held, in the order in which they were given.
    pub(crate) outputs: Vec<Ring>,
}

/// Starts a process and watches it on a thread of its own. Dropping the future kills it.
pub(crate) async fn run(
    start: impl FnOnce() -> Result<Running, WorkspaceError> + Send + 'static,
    timeout: Duration,
) -> Result<Ended, WorkspaceError> {
    let (send, result) = tokio::sync::oneshot::channel();
    // The other end of this pipe closes when the future is dropped, which wakes the thread.
    let (dropped, _alive) = std::io::pipe().map_err(|e| refusal(&e))?;
    let dropped = OwnedFd::from(dropped);
    let watch = move || _ = send.send(start().and_then(|running| running.watch(timeout, &dropped)));
    std::thread::Builder::new().name("gloveport-command".into()).spawn(watch).map_err(|e| refusal(&e))?;
    result.await.unwrap_or_else(|_| Err(broken("the command's thread broke off")))
}

pub(crate) fn broken(message: &str) -> WorkspaceError {
    WorkspaceError::Io { message: message.to_owned(), source: None }
}

/// The reading end of a stream that is kept in a ring, and the end for the process.
pub(crate) fn stream(keep: (usize, usize)) -> Result<(Stream, OwnedFd), WorkspaceError> {
    let (reader, writer) = std::io::pipe().map_err(|e| refusal(&e))?;
    let reader = OwnedFd::from(reader);
    rustix::io::ioctl_fionbio(&reader, true).map_err(|e| refusal(&e.into()))?;
    Ok((Stream(Output { file: reader.into(), ring: Ring::new(keep), open: true }), writer.into()))
}

/// A stream that was not given to a process yet.
pub(crate) struct Stream(Output);

/// What a process is started with.
pub(crate) struct Start {
    /// The program, with nothing but its streams still to be set.
    pub(crate) command: Command,
    pub(crate) stdin: Stdio,
    pub(crate) stdout: OwnedFd,
    pub(crate) stderr: OwnedFd,
    pub(crate) streams: Vec<Stream>,
    pub(crate) scratch: Option<tempfile::TempDir>,
}

impl Start {
    /// Starts it with `spawn`, in a process group of its own.
    pub(crate) fn spawn(
        mut self,
        spawn: impl FnOnce(Command) -> Result<Child, WorkspaceError>,
    ) -> Result<Running, WorkspaceError> {
        let mark = format!("{:016x}", fresh_number());
        self.command.stdin(self.stdin).stdout(self.stdout).stderr(self.stderr).process_group(0).env(MARK, &mark);
        let outputs = self.streams.into_iter().map(|stream| stream.0).collect();
        Ok(Running { child: spawn(self.command)?, mark, outputs, _scratch: self.scratch })
    }
}

enum Woken {
    Output,
    Dropped,
    Time,
}

impl Running {
    fn watch(mut self, timeout: Duration, dropped: &OwnedFd) -> Result<Ended, WorkspaceError> {
        let until = Instant::now() + timeout;
        let mut ended = false;
        while !ended && Instant::now() < until {
            match self.wait(dropped, until.saturating_duration_since(Instant::now()).min(TICK)) {
                Woken::Output => self.read(),
                Woken::Dropped => return Err(broken("nobody waits for the command")),
                Woken::Time => {}
            }
            ended = self.has_ended();
        }
        self.kill();
        let drained = Instant::now() + DRAIN;
        while self.outputs.iter().any(|output| output.open) && Instant::now() < drained {
            match self.wait(dropped, TICK) {
                Woken::Output => self.read(),
                Woken::Dropped => break,
                Woken::Time => {}
            }
        }
        let status = self.child.wait().map_err(|e| refusal(&e))?;
        let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
        let outputs = self.outputs.iter_mut().map(|output| std::mem::take(&mut output.ring)).collect();
        Ok(Ended { code: if ended { code } else { None }, outputs })
    }

    /// Waits until there is output, the caller is gone, or some time has passed.
    fn wait(&self, dropped: &OwnedFd, at_most: Duration) -> Woken {
        let timeout = Timespec::try_from(at_most).ok();
        let open = self.outputs.iter().filter(|output| output.open);
        let mut fds = vec![PollFd::new(dropped, PollFlags::IN)];
        fds.extend(open.map(|output| PollFd::new(&output.file, PollFlags::IN)));
        if poll(&mut fds, timeout.as_ref()).is_err() {
            return Woken::Time;
        }
        let mut ready = fds.iter().map(|fd| !fd.revents().is_empty());
        match (ready.next(), ready.any(|ready| ready)) {
            (Some(true), _) => Woken::Dropped,
            (_, true) => Woken::Output,
            (_, false) => Woken::Time,
        }
    }

    /// Takes what is there.
    fn read(&mut self) {
        let mut piece = [0; PIECE];
        for output in self.outputs.iter_mut().filter(|output| output.open) {
            match output.file.read(&mut piece) {
                Ok(0) => output.open = false,
                Ok(count) => output.ring.push(&piece[..count]),
                Err(error) => {
                    use std::io::ErrorKind::{Interrupted, WouldBlock};
                    output.open = matches!(error.kind(), WouldBlock | Interrupted);
                }
            }
        }
    }

    /// Whether the process itself has ended. It is not reaped yet, so that its group's number can't become another's.
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

impl Drop for Running {
    fn drop(&mut self) {
        // Reaped already: the group's number may be another's by now.
        if matches!(self.child.try_wait(), Ok(Some(_))) {
            return;
        }
        self.kill();
        _ = self.child.wait();
    }
}

/// Processes that carry a mark in their environment. A process that took it out of its environment is not found.
fn marked(mark: &str) -> Vec<Pid> {
    let mark = format!("{MARK}={mark}");
    let Ok(processes) = cap_std::fs::Dir::open_ambient_dir("/proc", cap_std::ambient_authority()) else {
        return Vec::new();
    };
    let Ok(entries) = processes.entries() else { return Vec::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let carries = |pid: &i32| {
        // What is dead already has no environment any more, and stays listed until it is reaped.
        let environ = processes.read(format!("{pid}/environ")).unwrap_or_default();
        environ.split(|&byte| byte == 0).any(|variable| variable == mark.as_bytes())
    };
    pids.filter(carries).filter_map(Pid::from_raw).collect()
}
