//! A child's standard streams as a link: a daemon on this machine, or one behind ssh.
//!
//! The child's stderr is kept, to explain a failure of the link. After [`Child`] is dropped, the child has 5 seconds to end
//! by itself, as it does when its input is closed; then it is killed.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;

use crate::task::OwnedTask;
use crate::{Limits, Link, stdio};

/// The bytes of the child's stderr that are kept; older ones are dropped.
const ERRORS_KEPT: usize = 16 * 1024;
/// The time for a child to end after its input was closed.
const GRACE: Duration = Duration::from_secs(5);
/// The time for which stderr is read after the child's end; a descendant may hold the pipe open.
const STDERR_GRACE: Duration = Duration::from_millis(500);

/// A child process whose standard streams are a link.
#[derive(Debug)]
pub struct Child {
    running: Option<Running>,
    errors: Errors,
    reading: Option<OwnedTask<()>>,
}

#[derive(Debug)]
struct Running {
    process: std::process::Child,
    ended: Option<pipe::Receiver>,
}

/// The end of a child's stderr. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Errors(Arc<Mutex<VecDeque<u8>>>);

/// Starts `command` with a link on its standard streams. Must be called within a tokio runtime.
pub fn spawn(mut command: Command, limits: &Limits) -> io::Result<(Link, Child)> {
    let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let (Some(input), Some(output)) = (process.stdin.take(), process.stdout.take()) else {
        return Err(io::Error::other("the child has no standard streams"));
    };
    let errors = Errors::default();
    let reading = process.stderr.take().map(|stderr| errors.collect(stderr.into())).transpose()?;
    let ended = watch(&process);
    let link = stdio::over(output.as_fd(), input.as_fd(), limits)?;
    Ok((link, Child { running: Some(Running { process, ended }), errors, reading }))
}

impl Child {
    /// The child's stderr so far.
    pub fn errors(&self) -> Errors {
        self.errors.clone()
    }

    /// The child's process id.
    pub fn pid(&self) -> Option<u32> {
        self.running.as_ref().map(|running| running.process.id())
    }

    /// Sends SIGTERM, for a link that is not used any more.
    pub fn ask_to_end(&mut self) {
        // After a wait, the process id may belong to another process.
        if let Some(running) = &mut self.running
            && let Ok(None) = running.process.try_wait()
        {
            kill_process(Pid::from_child(&running.process), Signal::TERM).ok();
        }
    }

    /// Waits up to 5 seconds until the child has ended; `None` if it has not. Its stderr is complete then.
    pub async fn ended(&mut self) -> Option<ExitStatus> {
        let status = self.running.as_mut()?.ended_within(GRACE).await?;
        if let Some(reading) = self.reading.take() {
            // Dropping the join on a timeout ends the reader.
            tokio::time::timeout(STDERR_GRACE, reading.join()).await.ok();
        }
        Some(status)
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if let (Some(mut running), Ok(_runtime)) =
            (self.running.take(), tokio::runtime::Handle::try_current())
        {
            let reaping = async move {
                if running.ended_within(GRACE).await.is_none() {
                    running.end();
                }
            };
            // Ends after `GRACE` at the latest.
            OwnedTask::spawn(reaping).detach();
        }
    }
}

impl Running {
    async fn ended_within(&mut self, grace: Duration) -> Option<ExitStatus> {
        if let Some(ended) = &self.ended {
            // After a timeout, the status below shows that it still runs.
            tokio::time::timeout(grace, ended.readable()).await.ok();
        }
        self.process.try_wait().ok().flatten()
    }

    fn end(&mut self) {
        let killed = self.process.kill().and_then(|()| self.process.wait());
        if let Err(error) = killed {
            tracing::debug!(%error, "killing the child of a link failed");
        }
    }
}

impl Errors {
    /// The text so far, trimmed.
    pub fn text(&self) -> String {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (first, second) = kept.as_slices();
        String::from_utf8_lossy(&[first, second].concat()).trim().to_owned()
    }

    fn push(&self, bytes: &[u8]) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend(bytes);
        let over = kept.len().saturating_sub(ERRORS_KEPT);
        kept.drain(..over);
    }

    /// Reads a pipe to its end on a task. Must be called within a tokio runtime.
    pub fn collect(&self, pipe: OwnedFd) -> io::Result<OwnedTask<()>> {
        let mut pipe = pipe::Receiver::from_owned_fd(pipe)?;
        let errors = self.clone();
        Ok(OwnedTask::spawn(async move {
            let mut buffer = [0; 4096];
            while let Ok(read @ 1..) = pipe.read(&mut buffer).await {
                errors.push(&buffer[..read]);
            }
        }))
    }
}

/// A pidfd, which becomes readable when the child ends; `None` on kernels without it. It is polled like a pipe and never
/// read.
fn watch(process: &std::process::Child) -> Option<pipe::Receiver> {
    let pidfd = pidfd_open(Pid::from_child(process), PidfdFlags::NONBLOCK).ok()?;
    pipe::Receiver::from_owned_fd_unchecked(pidfd).ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;

    use super::*;
    use crate::Incoming;

    #[tokio::test]
    async fn lines_go_through_a_child_and_its_errors_are_kept() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo something is wrong >&2; exec cat"]);
        let (mut link, mut child) = spawn(command, &Limits::default()).unwrap();
        link.outgoing.respond(bytes::Bytes::from_static(b"{\"a\":1}")).await.unwrap();
        assert_eq!(
            link.incoming.recv().await,
            Some(Incoming::Message(bytes::Bytes::from_static(b"{\"a\":1}")))
        );
        let errors = child.errors();
        drop(link);
        assert!(child.ended().await.unwrap().success(), "it ends when its input does");
        assert_eq!(errors.text(), "something is wrong");
    }

    #[tokio::test]
    async fn the_stderr_of_a_child_is_complete_after_its_end() {
        for _ in 0..50 {
            let mut command = Command::new("sh");
            command.args(["-c", "exec >&- <&-; echo no >&2; exit 3"]);
            let (_link, mut child) = spawn(command, &Limits::default()).unwrap();
            assert_eq!(child.ended().await.and_then(|status| status.code()), Some(3));
            assert_eq!(child.errors().text(), "no");
        }
    }

    #[tokio::test]
    async fn a_child_that_is_ended_does_not_wait_for_its_input() {
        let mut command = Command::new("sleep");
        command.arg("1000");
        let (_link, mut child) = spawn(command, &Limits::default()).unwrap();
        child.ask_to_end();
        assert_eq!(child.ended().await.and_then(|status| status.signal()), Some(15));
        child.ask_to_end();
    }

    #[test]
    fn only_the_newest_errors_are_kept() {
        let errors = Errors::default();
        errors.push(&[b'a'; ERRORS_KEPT]);
        errors.push(b"end");
        assert!(errors.text().ends_with("aend") && errors.text().len() == ERRORS_KEPT);
    }
}
