//! The state of a terminal: its size, whether it echoes, and whether a foreground process waits for its input.
//!
//! The kernel shows in `/proc/PID/task/TID/syscall` which call a thread is blocked in, to a process that may trace it: an
//! ancestor of the same user, or root. A program that changed its user, such as `sudo`, is not shown; then the wait is
//! unknown.

use std::fmt;
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::sync::Arc;

use rustix::termios::LocalModes;

use super::keeper::KeeperReply;
use super::proc;
use super::spec::TerminalSize;
use crate::Error;

/// Threads examined per process: 256; further ones are ignored.
const MAX_THREADS: usize = 256;
/// Descriptors examined per waiting call: 4,096; further ones are ignored.
const MAX_DESCRIPTORS: usize = 4096;
/// The device number of `/dev/tty`, 5:0: the controlling terminal of the process that opened it.
const DEV_TTY: u64 = 5 << 8;

/// The state of a terminal at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TerminalState {
    /// Columns and rows.
    pub size: TerminalSize,
    /// Whether the terminal itself shows what is typed. False for a password, and for programs that draw their own input.
    pub echoes: bool,
    /// Whether input is delivered by line. A terminal that does not echo but delivers lines asks for a secret.
    pub is_canonical: bool,
    /// What its foreground processes wait for; `None` if the kernel does not show it.
    pub wait: Option<TerminalWait>,
}

/// What the foreground processes of a terminal wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TerminalWait {
    /// A process is blocked in a read of the terminal.
    Read,
    /// A process waits for several events, input of the terminal among them, as the event loop of a full-screen program
    /// does even while it is busy.
    Poll,
    /// No process waits for input of the terminal.
    Elsewhere,
}

/// A terminal to examine, with its own descriptor, so that the supervisor need not wait for the examination.
#[derive(Debug)]
pub(super) struct TerminalProbe {
    pub(super) fd: Arc<OwnedFd>,
    /// The path of the side that programs open.
    pub(super) name: Option<String>,
}

/// An examination that the requester runs, so that neither the supervisor nor the relay waits for it.
pub(super) struct Examination(pub(super) KeeperReply<TerminalState>);

impl fmt::Debug for Examination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Examination")
    }
}

/// Examines a terminal on a blocking thread.
pub(super) async fn examine(probe: Option<TerminalProbe>) -> Result<TerminalState, Error> {
    let probe = probe.ok_or(Error::Gone)?;
    let examined = tokio::task::spawn_blocking(move || probe.examine()).await;
    examined.map_err(|_stopped| Error::Gone)?.map_err(|_closed| Error::Gone)
}

impl TerminalProbe {
    /// Examines the terminal. Reads many files, so it must not run on the event loop.
    pub(super) fn examine(&self) -> io::Result<TerminalState> {
        let size = rustix::termios::tcgetwinsize(&self.fd)?;
        let modes = rustix::termios::tcgetattr(&self.fd)?.local_modes;
        Ok(TerminalState {
            size: TerminalSize { cols: size.ws_col, rows: size.ws_row },
            echoes: modes.contains(LocalModes::ECHO),
            is_canonical: modes.contains(LocalModes::ICANON),
            wait: self.wait(),
        })
    }

    fn wait(&self) -> Option<TerminalWait> {
        let device = fs::metadata(self.name.as_deref()?).ok()?.rdev();
        let group = rustix::termios::tcgetpgrp(self.fd.as_fd()).ok()?.as_raw_nonzero().get();
        let is_member = |pid: &i32| proc::ancestry(*pid).is_some_and(|found| found.group == group);
        let waits = proc::pids().filter(is_member).flat_map(|pid| waits_of(pid, device));
        // A group without processes is not shown either.
        summarize(waits)
    }
}

/// The strongest evidence: one reader decides, and one thread that is not shown leaves the rest unknown.
fn summarize(waits: impl Iterator<Item = Option<TerminalWait>>) -> Option<TerminalWait> {
    let (mut polls, mut is_unknown, mut count) = (false, false, 0);
    for wait in waits {
        count += 1;
        match wait {
            Some(TerminalWait::Read) => return wait,
            Some(TerminalWait::Poll) => polls = true,
            Some(TerminalWait::Elsewhere) => {}
            None => is_unknown = true,
        }
    }
    match (polls, is_unknown || count == 0) {
        (true, _) => Some(TerminalWait::Poll),
        (false, true) => None,
        (false, false) => Some(TerminalWait::Elsewhere),
    }
}

/// What each thread of a process waits for.
fn waits_of(pid: i32, device: u64) -> Vec<Option<TerminalWait>> {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let descriptors = Descriptors { pid, device };
    let waits = threads.flatten().take(MAX_THREADS).map(|thread| {
        match fs::read_to_string(thread.path().join("syscall")) {
            Ok(line) => descriptors.wait(&line),
            // It ended meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Some(TerminalWait::Elsewhere),
            Err(_denied) => None,
        }
    });
    waits.collect()
}

/// The descriptors of a process, to find those that are the terminal.
struct Descriptors {
    pid: i32,
    device: u64,
}

impl Descriptors {
    /// What a thread with this line in its `syscall` file waits for; `None` if that is not shown.
    fn wait(&self, line: &str) -> Option<TerminalWait> {
        let mut fields = line.split_ascii_whitespace();
        // `running`, and -1 for a thread that is blocked outside a call, are no numbers of calls.
        let Some(number) = fields.next().and_then(|field| field.parse::<i64>().ok()).filter(|n| *n >= 0)
        else {
            return Some(TerminalWait::Elsewhere);
        };
        let mut argument = || u64::from_str_radix(fields.next()?.strip_prefix("0x")?, 16).ok();
        let (first, second) = (argument()?, argument()?);
        let is_polled = match WaitingCall::of(number) {
            None => return Some(TerminalWait::Elsewhere),
            Some(WaitingCall::Ring) => return None,
            Some(WaitingCall::Read) => {
                let is_read = self.is_terminal(i64::try_from(first).ok()?);
                return Some(if is_read { TerminalWait::Read } else { TerminalWait::Elsewhere });
            }
            Some(WaitingCall::Epoll) => self.epoll_has_terminal(first)?,
            Some(WaitingCall::Poll) => self.poll_has_terminal(first, second)?,
            Some(WaitingCall::Select) => self.select_has_terminal(first, second)?,
        };
        Some(if is_polled { TerminalWait::Poll } else { TerminalWait::Elsewhere })
    }

    fn is_terminal(&self, fd: i64) -> bool {
        // Follows the link to the open file itself, whatever its path means in this mount namespace.
        let file = fs::metadata(format!("/proc/{}/fd/{fd}", self.pid));
        file.is_ok_and(|file| file.rdev() == self.device || file.rdev() == DEV_TTY)
    }

    /// The kernel lists the members of an epoll set in `fdinfo`: `tfd: 0 events: 19 …`, events in hexadecimal.
    fn epoll_has_terminal(&self, epoll: u64) -> Option<bool> {
        let text = fs::read_to_string(format!("/proc/{}/fdinfo/{epoll}", self.pid)).ok()?;
        let member = |line: &str| {
            let mut words = line.split_ascii_whitespace();
            (words.next() == Some("tfd:")).then_some(())?;
            let fd = words.next()?.parse::<i64>().ok()?;
            (words.next() == Some("events:")).then_some(())?;
            let events = u64::from_str_radix(words.next()?, 16).ok()?;
            (events & u64::from(POLL_IN) != 0).then_some(fd)
        };
        Some(text.lines().take(MAX_DESCRIPTORS).filter_map(member).any(|fd| self.is_terminal(fd)))
    }

    fn poll_has_terminal(&self, address: u64, count: u64) -> Option<bool> {
        const POLLFD_BYTES: usize = 8;
        let count = usize::try_from(count).ok()?.min(MAX_DESCRIPTORS);
        let bytes = self.memory(address, count * POLLFD_BYTES)?;
        let waits_for_terminal = |entry: &[u8]| {
            let (fd, events) = (entry.first_chunk::<4>()?, entry.get(4..)?.first_chunk::<2>()?);
            let reads = u16::from_ne_bytes(*events) & POLL_IN != 0;
            Some(reads && self.is_terminal(i64::from(i32::from_ne_bytes(*fd))))
        };
        Some(bytes.chunks_exact(POLLFD_BYTES).any(|entry| waits_for_terminal(entry) == Some(true)))
    }

    fn select_has_terminal(&self, count: u64, address: u64) -> Option<bool> {
        if address == 0 {
            return Some(false);
        }
        let count = usize::try_from(count).ok()?.min(MAX_DESCRIPTORS);
        // A set is an array of words in the byte order of the machine; all supported ones are little-endian.
        let bytes = self.memory(address, count.div_ceil(8))?;
        let is_set = |fd: &usize| bytes.get(fd / 8).is_some_and(|byte| byte & (1 << (fd % 8)) != 0);
        Some((0..count).filter(is_set).any(|fd| i64::try_from(fd).is_ok_and(|fd| self.is_terminal(fd))))
    }

    fn memory(&self, address: u64, count: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0; count];
        let memory = fs::File::open(format!("/proc/{}/mem", self.pid)).ok()?;
        memory.read_exact_at(&mut bytes, address).ok()?;
        Some(bytes)
    }
}

/// `POLLIN`, the same for epoll.
const POLL_IN: u16 = 1;

/// A call in which a thread waits for input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WaitingCall {
    Read,
    Poll,
    Select,
    Epoll,
    /// `io_uring_enter`, whose pending operations are not shown.
    Ring,
}

impl WaitingCall {
    fn of(number: i64) -> Option<WaitingCall> {
        #[cfg(target_arch = "x86_64")]
        match number {
            libc::SYS_poll => return Some(WaitingCall::Poll),
            libc::SYS_select => return Some(WaitingCall::Select),
            libc::SYS_epoll_wait => return Some(WaitingCall::Epoll),
            _ => {}
        }
        match number {
            libc::SYS_read | libc::SYS_readv => Some(WaitingCall::Read),
            libc::SYS_ppoll => Some(WaitingCall::Poll),
            libc::SYS_pselect6 => Some(WaitingCall::Select),
            libc::SYS_epoll_pwait | libc::SYS_epoll_pwait2 => Some(WaitingCall::Epoll),
            libc::SYS_io_uring_enter => Some(WaitingCall::Ring),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_reader_decides_and_one_hidden_thread_leaves_the_rest_unknown() {
        let (read, poll, elsewhere) =
            (Some(TerminalWait::Read), Some(TerminalWait::Poll), Some(TerminalWait::Elsewhere));
        for (waits, expected) in [
            (vec![elsewhere, None, read], read),
            (vec![None, poll], poll),
            (vec![elsewhere, None], None),
            (vec![elsewhere, elsewhere], elsewhere),
            (vec![], None),
        ] {
            assert_eq!(summarize(waits.clone().into_iter()), expected, "{waits:?}");
        }
    }

    #[test]
    fn a_line_that_is_no_call_is_no_wait() {
        let nothing = Descriptors { pid: 1, device: u64::MAX };
        for line in ["running", "-1 0x7ffd 0x7f18", "", "61 0x1 0x2 0x0"] {
            assert_eq!(nothing.wait(line), Some(TerminalWait::Elsewhere), "{line:?}");
        }
        for line in ["0", "0 0x", "0 zz 0x1", &format!("{} 0x1 0x1", libc::SYS_io_uring_enter)] {
            assert_eq!(nothing.wait(line), None, "{line:?}");
        }
    }
}
