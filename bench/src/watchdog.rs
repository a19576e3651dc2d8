//! Servers started by the benchmark; each is killed by its id when dropped, or when a row exceeds its limit.

use std::ffi::OsStr;
use std::io;
use std::process::{Child, ChildStdin, ChildStdout, Command};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};

use crate::stats::within;

/// Ids of the servers that are running now; a watchdog kills these and nothing else.
static RUNNING: Mutex<Vec<Pid>> = Mutex::new(Vec::new());

/// A child process that never outlives this value.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    pid: Pid,
    grace: Duration,
    ends_with_signal: bool,
}

impl Server {
    /// Starts the command and registers it.
    pub(crate) fn start(command: &mut Command) -> Result<Self> {
        let child =
            command.spawn().with_context(|| format!("could not start {:?}", command.get_program()))?;
        let pid = Pid::from_child(&child);
        RUNNING.lock().unwrap_or_else(PoisonError::into_inner).push(pid);
        Ok(Self { child, pid, grace: Duration::ZERO, ends_with_signal: false })
    }

    /// A server that stops itself and its processes at the end of its stdin.
    pub(crate) fn ends_with_stdin(mut self) -> Self {
        self.grace = Duration::from_secs(5);
        self
    }

    /// A server that stops itself and its processes on SIGTERM.
    pub(crate) fn ends_with_signal(mut self) -> Self {
        self.ends_with_signal = true;
        self.ends_with_stdin()
    }

    /// The process id as `/proc` names it.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// The pipe to the server, once.
    pub(crate) fn stdin(&mut self) -> Result<ChildStdin> {
        self.child.stdin.take().context("stdin was not piped")
    }

    /// The pipe from the server, once.
    pub(crate) fn stdout(&mut self) -> Result<ChildStdout> {
        self.child.stdout.take().context("stdout was not piped")
    }

    /// Whether the server has exited.
    pub(crate) fn ended(&mut self) -> io::Result<bool> {
        Ok(self.child.try_wait()?.is_some())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        RUNNING.lock().unwrap_or_else(PoisonError::into_inner).retain(|pid| *pid != self.pid);
        drop(self.child.stdin.take());
        if self.ends_with_signal && matches!(self.child.try_wait(), Ok(None)) {
            // It may exit at the same time.
            kill_process(self.pid, Signal::TERM).unwrap_or_default();
        }
        within(self.grace, || !matches!(self.child.try_wait(), Ok(None)));
        if matches!(self.child.try_wait(), Ok(None)) && self.child.kill().is_ok() {
            drop(self.child.wait());
        }
    }
}

/// A command that the kernel kills when this program dies, for servers that do not stop at the end of stdin.
pub(crate) fn tied(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--"]).arg(program);
    command
}

/// Kills every server when a row exceeds its limit; a pending read then sees the end of its pipe.
#[derive(Debug)]
pub(crate) struct Watchdog {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<bool>>,
}

impl Watchdog {
    /// Starts the clock of a row.
    pub(crate) fn start(limit: Duration) -> Self {
        let (stop, stopped) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let late = stopped.recv_timeout(limit) == Err(RecvTimeoutError::Timeout);
            if late {
                kill_running();
            }
            late
        });
        Self { stop: Some(stop), thread: Some(thread) }
    }

    /// Stops the clock; true if the limit was exceeded.
    pub(crate) fn stop(mut self) -> bool {
        drop(self.stop.take());
        self.thread.take().is_some_and(|thread| thread.join().unwrap_or(true))
    }
}

fn kill_running() {
    for pid in RUNNING.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        // The server may have exited already.
        kill_process(*pid, Signal::KILL).unwrap_or_default();
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::process::Stdio;

    use super::*;

    #[test]
    fn a_silent_server_is_killed_and_its_reader_goes_on() {
        let mut server =
            Server::start(Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped())).unwrap();
        let watchdog = Watchdog::start(Duration::from_millis(20));
        let mut text = String::new();
        server.stdout().unwrap().read_to_string(&mut text).unwrap();
        assert!(watchdog.stop());
        assert!(!Watchdog::start(Duration::from_secs(60)).stop());
    }
}
