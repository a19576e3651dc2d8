//! Reads a terminal with much output on a blocking thread, in batches.
//!
//! The kernel processes terminal output in a worker. A read of an empty terminal waits for that worker, and so does a poll,
//! even if the descriptor does not block. Beside busy programs this takes milliseconds, which the event loop must not wait.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;

/// Output within [`WINDOW`] from which on a thread reads a terminal: 16 KiB. Typing and a redrawn screen stay below it.
const MUCH_OUTPUT: usize = 16 * 1024;
const WINDOW: Duration = Duration::from_millis(100);
/// Time of one read from which on a thread reads a terminal.
const SLOW_READ: Duration = Duration::from_millis(1);
/// Size of a batch; a batch ends behind the read that reaches it.
pub(super) const BATCH_BYTES: usize = 64 * 1024;
/// The kernel returns 4 KiB at most per read of a terminal.
pub(super) const TERMINAL_READ: usize = 4 * 1024;
/// Longest time of a batch while output keeps coming.
const BATCH_TIME: Duration = Duration::from_millis(5);
/// Time without output after which the event loop reads a terminal again.
pub(super) const QUIET_TIME: Duration = Duration::from_millis(50);

/// The output of a terminal in the current window.
#[derive(Debug)]
pub(super) struct Pace {
    since: Instant,
    bytes: usize,
}

impl Pace {
    pub(super) fn new() -> Pace {
        Pace { since: Instant::now(), bytes: 0 }
    }

    /// Notes a read that began at `began`; returns whether a thread should read from now on.
    pub(super) fn is_high(&mut self, began: Instant, count: usize) -> bool {
        let now = Instant::now();
        if now - self.since > WINDOW {
            *self = Pace { since: now, bytes: 0 };
        }
        self.bytes += count;
        self.bytes >= MUCH_OUTPUT || now - began >= SLOW_READ
    }
}

/// Output that was read at once.
#[derive(Debug)]
pub(super) struct Batch {
    /// The bytes that were held back before, and those read.
    pub(super) bytes: Vec<u8>,
    pub(super) end: BatchEnd,
}

/// Why a batch has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BatchEnd {
    /// More output is likely.
    Full,
    /// There was no output for the time that was given.
    Quiet,
    /// No process has the terminal open.
    Closed,
}

/// Reads behind the bytes in `buffer`, at most as much as it has capacity for.
///
/// A terminal that no process has open returns an error instead of an end. The kernel also returns it when the last process
/// wrote and closed the terminal during the read; what was written is then read by the next one.
pub(super) fn read_output(fd: &OwnedFd, buffer: &mut Vec<u8>) -> rustix::io::Result<usize> {
    again_if_closed(|| rustix::io::read(fd, rustix::buffer::spare_capacity(buffer)))
}

fn again_if_closed(mut read: impl FnMut() -> rustix::io::Result<usize>) -> rustix::io::Result<usize> {
    match read() {
        Err(Errno::IO) => read(),
        result => result,
    }
}

/// Reads a batch behind `held`; waits for its first byte at most for `patience`. Blocks.
pub(super) fn read_batch(fd: &OwnedFd, held: &[u8], patience: Duration) -> Batch {
    let mut bytes = Vec::with_capacity(held.len() + BATCH_BYTES + TERMINAL_READ);
    bytes.extend_from_slice(held);
    let deadline = Instant::now() + BATCH_TIME;
    let mut may_wait = !patience.is_zero();
    let end = loop {
        match read_output(fd, &mut bytes) {
            Ok(0) => break BatchEnd::Closed,
            Ok(_) if bytes.len() >= BATCH_BYTES || Instant::now() >= deadline => break BatchEnd::Full,
            Ok(_) | Err(Errno::INTR) => {}
            Err(Errno::AGAIN) if bytes.len() > held.len() => break BatchEnd::Full,
            Err(Errno::AGAIN) if may_wait => {
                may_wait = false;
                let timeout = Timespec { tv_sec: 0, tv_nsec: i64::from(patience.subsec_nanos()) };
                // The next read returns the result.
                let _ready = rustix::event::poll(&mut [PollFd::new(fd, PollFlags::IN)], Some(&timeout));
            }
            Err(Errno::AGAIN) => break BatchEnd::Quiet,
            Err(_closed) => break BatchEnd::Closed,
        }
    };
    Batch { bytes, end }
}

#[cfg(test)]
mod tests {
    use super::super::spec::TerminalSize;
    use super::super::streams;
    use super::*;

    #[test]
    fn a_batch_is_bounded_and_ends_when_there_is_no_output() {
        let mut wiring = streams::terminal(TerminalSize { cols: 80, rows: 24 }).unwrap();
        let (master, _) = wiring.outputs.remove(0);
        rustix::io::ioctl_fionbio(&master, true).unwrap();
        let silent = read_batch(&master, b"\xc3", Duration::ZERO);
        assert_eq!((silent.bytes.as_slice(), silent.end), (b"\xc3".as_slice(), BatchEnd::Quiet));
        let slave = wiring.child[1].try_clone().unwrap();
        let writer = std::thread::spawn(move || {
            // Blocks while the terminal is full; ends with the master.
            while rustix::io::write(&slave, &[b'x'; 4096]).is_ok() {}
        });
        let mut total = 0;
        while total < 4 * BATCH_BYTES {
            let batch = read_batch(&master, b"", QUIET_TIME);
            assert!(batch.bytes.len() <= BATCH_BYTES + TERMINAL_READ, "{}", batch.bytes.len());
            assert_ne!(batch.end, BatchEnd::Closed);
            total += batch.bytes.len();
        }
        drop((master, wiring));
        writer.join().unwrap();
    }

    #[test]
    fn output_of_a_terminal_that_was_closed_during_a_read_is_read() {
        let mut results = [Err(Errno::IO), Ok(7)].into_iter();
        assert_eq!(again_if_closed(|| results.next().unwrap()), Ok(7));
        let mut results = [Err(Errno::IO), Err(Errno::IO)].into_iter();
        assert_eq!(again_if_closed(|| results.next().unwrap()), Err(Errno::IO));
        assert_eq!(again_if_closed(|| Err(Errno::AGAIN)), Err(Errno::AGAIN));
    }

    #[test]
    fn a_slow_read_or_much_output_is_left_to_a_thread() {
        let now = Instant::now();
        assert!(Pace::new().is_high(now - SLOW_READ, 1));
        let mut pace = Pace { since: Instant::now() + WINDOW, bytes: 0 };
        let is_high: Vec<bool> =
            (0..4).map(|_| pace.is_high(Instant::now() + WINDOW, TERMINAL_READ)).collect();
        assert_eq!(is_high, [false, false, false, true]);
    }
}
