//! A pair of pipes beside the standard streams: a program that the caller controls reads requests from one and reports on
//! the other, without touching its terminal.

use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd, RawFd};
use std::sync::{Mutex, PoisonError};

use rustix::io::Errno;
use rustix::pipe::PipeFlags;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::sys;

/// The lowest number of a descriptor that a program inherits, so that it meets none that the program opens itself.
const FIRST_NUMBER: RawFd = 64;
/// Bytes of one read.
const READ_BYTES: usize = 4 * 1024;

/// The caller's ends of the pipes.
#[derive(Debug)]
pub struct SideChannel {
    requests: AsyncFd<OwnedFd>,
    reports: AsyncFd<OwnedFd>,
}

/// The program's ends, until it was started.
#[derive(Debug)]
pub struct SidePipes {
    numbers: (RawFd, RawFd),
    ends: Mutex<Option<(OwnedFd, OwnedFd)>>,
}

impl SideChannel {
    /// Opens both pipes. The second value goes into the specification of one process.
    pub fn open() -> io::Result<(SideChannel, SidePipes)> {
        let (program_reads, requests) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        let (reports, program_writes) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        let high = |end: OwnedFd| rustix::io::fcntl_dupfd_cloexec(end, FIRST_NUMBER);
        let (program_reads, program_writes) = (high(program_reads)?, high(program_writes)?);
        for end in [&requests, &reports] {
            rustix::io::ioctl_fionbio(end, true)?;
        }
        let channel = SideChannel {
            requests: sys::watch(requests, Interest::WRITABLE)?,
            reports: sys::watch(reports, Interest::READABLE)?,
        };
        let numbers = (program_reads.as_raw_fd(), program_writes.as_raw_fd());
        Ok((channel, SidePipes { numbers, ends: Mutex::new(Some((program_reads, program_writes))) }))
    }

    /// Writes a request completely. Fails when the program has closed its end.
    pub async fn write(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let mut guard = self.requests.writable().await?;
            match guard.try_io(|fd| Ok(rustix::io::write(fd.get_ref(), bytes)?)) {
                Ok(written) => bytes = bytes.get(written?..).unwrap_or_default(),
                Err(_would_block) => {}
            }
        }
        Ok(())
    }

    /// Waits for a report, of which this may be a part; `None` when the program has closed its end. Cancel-safe.
    pub async fn read(&self) -> io::Result<Option<Vec<u8>>> {
        loop {
            let mut guard = self.reports.readable().await?;
            let mut bytes = Vec::with_capacity(READ_BYTES);
            let read = guard
                .try_io(|fd| Ok(rustix::io::read(fd.get_ref(), rustix::buffer::spare_capacity(&mut bytes))?));
            match read {
                Ok(Ok(0)) => return Ok(None),
                Ok(Ok(_)) => return Ok(Some(bytes)),
                Ok(Err(error)) if error.raw_os_error() == Some(Errno::INTR.raw_os_error()) => {}
                Ok(Err(error)) => return Err(error),
                Err(_would_block) => {}
            }
        }
    }
}

impl SidePipes {
    /// The numbers under which the program has its ends: the one it reads and the one it writes.
    pub fn numbers(&self) -> (RawFd, RawFd) {
        self.numbers
    }

    /// The ends for the one start; later there are none.
    pub(super) fn take(&self) -> Option<(OwnedFd, OwnedFd)> {
        self.ends.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// The ends as a start passes them on.
pub(super) fn borrowed(ends: &Option<(OwnedFd, OwnedFd)>) -> [Option<BorrowedFd<'_>>; 2] {
    match ends {
        Some((reads, writes)) => [Some(reads.as_fd()), Some(writes.as_fd())],
        None => [None, None],
    }
}
