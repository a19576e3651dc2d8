//! The daemon's ends of a process's pipes or terminal, for reads and writes that do not block.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use rustix::io::Errno;
use rustix::pipe::PipeFlags;
use rustix::pty::OpenptFlags;
use rustix::termios::Winsize;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

use super::spec::{Stream, TerminalSize};
use super::sys;
use super::terminal_reader::{
    BATCH_BYTES, Batch, BatchEnd, Pace, QUIET_TIME, TERMINAL_READ, read_batch, read_output,
};
use super::terminal_state::TerminalProbe;
use super::text::incomplete_tail;

/// Size of the first read of a stream; interactive output is small.
const SMALLEST_READ: usize = 8 * 1024;
/// Size of the reads of a stream with much output.
const LARGEST_READ: usize = 256 * 1024;
/// Size of a pipe with much output, which reduces context switches.
const BULK_PIPE: usize = 1024 * 1024;

/// The beginning of a character in text waits this long for the rest of it: 5 ms. A program that writes and then waits
/// for an answer must not wait for ever because its last bytes look like the beginning of a character.
const CHARACTER_WAIT: Duration = Duration::from_millis(5);

/// Maximal number of reads from a terminal after its leader has exited.
const READS_AT_EXIT: usize = 256;

/// One stream of output, read as it is written. Text is read in chunks that end at character boundaries, unless the rest of
/// a character takes longer than 5 ms.
#[derive(Debug)]
pub(super) struct Output {
    fd: Arc<OwnedFd>,
    source: Source,
    pace: Pace,
    is_closed: bool,
    pub(super) stream: Stream,
    read_size: usize,
    is_grown: bool,
    read_bytes: u64,
    is_text: bool,
    /// The beginning of a character whose remaining bytes have not arrived.
    held: Vec<u8>,
    /// When `held` is passed on without them.
    held_until: Instant,
}

/// Where an output is read.
#[derive(Debug)]
enum Source {
    /// On the event loop, when the kernel reports output.
    EventLoop(AsyncFd<Arc<OwnedFd>>),
    /// On a blocking thread, with the batch that is being read: a terminal with much output.
    Thread(Option<JoinHandle<Batch>>),
}

impl Output {
    pub(super) fn new(fd: OwnedFd, stream: Stream, is_text: bool) -> io::Result<Output> {
        rustix::io::ioctl_fionbio(&fd, true)?;
        let fd = Arc::new(fd);
        let source = Source::EventLoop(sys::watch(fd.clone(), Interest::READABLE)?);
        Ok(Output {
            fd,
            source,
            pace: Pace::new(),
            is_closed: false,
            stream,
            read_size: SMALLEST_READ,
            is_grown: false,
            read_bytes: 0,
            is_text,
            held: Vec::new(),
            held_until: Instant::now(),
        })
    }

    /// Waits for the next chunk; `None` at the end. Cancel-safe.
    pub(super) async fn next(&mut self) -> Option<Bytes> {
        while !self.is_closed {
            let Source::EventLoop(watched) = &self.source else {
                let patience = if self.held.is_empty() { QUIET_TIME } else { CHARACTER_WAIT };
                let batch = self.next_batch(patience).await?;
                if let Some(bytes) = self.accept_batch(batch) {
                    return Some(bytes);
                }
                continue;
            };
            let readable = tokio::select! {
                biased;
                readable = watched.readable() => readable,
                () = sleep_until(self.held_until), if !self.held.is_empty() => {
                    // If this task runs late, the rest of the character may be there.
                    let mut buffer = buffer_after(&self.held, self.read_size);
                    let rest = read_output(&self.fd, &mut buffer);
                    let Ok(count @ 1..) = rest else { return Some(std::mem::take(&mut self.held).into()) };
                    match self.accept(buffer, count) {
                        Some(bytes) => return Some(bytes),
                        None => continue,
                    }
                }
            };
            let mut guard = readable.ok()?;
            let began = std::time::Instant::now();
            let mut buffer = buffer_after(&self.held, self.read_size);
            let result = guard.try_io(|fd| Ok(read_output(fd.get_ref(), &mut buffer)?));
            match result {
                Err(_would_block) => {}
                Ok(Ok(0)) => return None,
                Ok(Ok(count)) => {
                    if self.stream == Stream::Terminal && self.pace.is_high(began, count) {
                        self.source = Source::Thread(None);
                    }
                    if let Some(bytes) = self.accept(buffer, count) {
                        return Some(bytes);
                    }
                }
                Ok(Err(error)) if error.raw_os_error() == Some(Errno::INTR.raw_os_error()) => {}
                Ok(Err(_ended)) => return None,
            }
        }
        None
    }

    /// The next batch of a terminal, read by a thread; `None` while the runtime shuts down. Cancel-safe.
    async fn next_batch(&mut self, patience: Duration) -> Option<Batch> {
        if let Source::EventLoop(_) = &self.source {
            self.source = Source::Thread(None);
        }
        let Source::Thread(reading) = &mut self.source else { return None };
        let (fd, held) = (&self.fd, &self.held);
        let start = || {
            let (fd, held) = (fd.clone(), held.clone());
            tokio::task::spawn_blocking(move || read_batch(&fd, &held, patience))
        };
        let batch = reading.get_or_insert_with(start).await;
        *reading = None;
        batch.ok()
    }

    fn accept_batch(&mut self, Batch { bytes, end }: Batch) -> Option<Bytes> {
        let count = bytes.len() - self.held.len();
        match end {
            BatchEnd::Full => {}
            BatchEnd::Closed => self.is_closed = true,
            BatchEnd::Quiet => {
                // If this fails, the thread continues.
                if let Ok(watched) = sys::watch(self.fd.clone(), Interest::READABLE) {
                    self.source = Source::EventLoop(watched);
                    self.pace = Pace::new();
                }
            }
        }
        if count == 0 { None } else { self.accept(bytes, count) }
    }

    /// Reads the remaining output of a terminal after its leader has exited. The kernel processes terminal output in the
    /// background, so `FIONREAD` does not count all of it; only an empty read shows that there is none.
    pub(super) async fn read_terminal_backlog(&mut self) -> Vec<Bytes> {
        let mut backlog = Vec::new();
        if let Source::Thread(Some(_)) = &self.source {
            // It may have ended, without output, before the last output was written.
            let Some(begun) = self.next_batch(Duration::ZERO).await else { return backlog };
            backlog.extend(self.accept_batch(begun));
        }
        if let Source::Thread(_) = &self.source {
            for _ in 0..READS_AT_EXIT * TERMINAL_READ / BATCH_BYTES {
                let Some(batch) = self.next_batch(Duration::ZERO).await else { break };
                let end = batch.end;
                backlog.extend(self.accept_batch(batch));
                if end != BatchEnd::Full {
                    break;
                }
            }
            return backlog;
        }
        for _ in 0..READS_AT_EXIT {
            let mut buffer = buffer_after(&self.held, self.read_size);
            match read_output(&self.fd, &mut buffer) {
                Ok(0) => break,
                Ok(count) => backlog.extend(self.accept(buffer, count)),
                Err(Errno::INTR) => {}
                Err(_empty_or_ended) => break,
            }
        }
        backlog
    }

    /// Accepts `count` new bytes at the end of `buffer`; `None` if they complete no character.
    fn accept(&mut self, mut buffer: Vec<u8>, count: usize) -> Option<Bytes> {
        self.adapt(count);
        self.read_bytes += count as u64;
        let tail = if self.is_text { incomplete_tail(&buffer) } else { 0 };
        // More bytes of the same character do not extend its wait.
        if tail > 0 && (self.held.is_empty() || tail < buffer.len()) {
            self.held_until = Instant::now() + CHARACTER_WAIT;
        }
        self.held.clear();
        self.held.extend_from_slice(&buffer[buffer.len() - tail..]);
        buffer.truncate(buffer.len() - tail);
        (!buffer.is_empty()).then(|| exact(buffer))
    }

    /// The number of bytes read so far.
    pub(super) fn read_bytes(&self) -> u64 {
        self.read_bytes
    }

    /// The number of bytes in the pipe.
    pub(super) fn waiting_bytes(&self) -> u64 {
        rustix::io::ioctl_fionread(&self.fd).unwrap_or(0)
    }

    /// The bytes of an incomplete character.
    pub(super) fn rest(&mut self) -> Bytes {
        Bytes::from(std::mem::take(&mut self.held))
    }

    /// The name of this pipe or terminal, as the links in `/proc/PID/fd` of the other end show it.
    pub(super) fn name(&self) -> Option<String> {
        let fd = &self.fd;
        if self.stream == Stream::Terminal {
            let name = rustix::pty::ptsname(fd, Vec::new()).ok()?;
            return name.into_string().ok();
        }
        let link = std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd())).ok()?;
        link.into_os_string().into_string().ok()
    }

    /// The foreground process group of a terminal.
    pub(super) fn foreground_group(&self) -> Option<i32> {
        Some(rustix::termios::tcgetpgrp(&self.fd).ok()?.as_raw_nonzero().get())
    }

    /// The terminal of this output, to examine it elsewhere.
    pub(super) fn probe(&self) -> TerminalProbe {
        TerminalProbe { fd: self.fd.clone(), name: self.name() }
    }

    /// Sets the size of the terminal; the kernel signals the programs. A value of 0 changes nothing.
    pub(super) fn resize(&self, size: TerminalSize) -> io::Result<()> {
        let mut now = rustix::termios::tcgetwinsize(&self.fd)?;
        if size.cols > 0 {
            now.ws_col = size.cols;
        }
        if size.rows > 0 {
            now.ws_row = size.rows;
        }
        Ok(rustix::termios::tcsetwinsize(&self.fd, now)?)
    }

    fn adapt(&mut self, count: usize) {
        if count == self.read_size && self.read_size < LARGEST_READ {
            self.read_size = (self.read_size * 4).min(LARGEST_READ);
        } else if count < self.read_size / 16 {
            self.read_size = (self.read_size / 4).max(SMALLEST_READ);
        }
        if self.read_size == LARGEST_READ && !self.is_grown && self.stream != Stream::Terminal {
            self.is_grown = true;
            // Fails if the user's limit of pipe memory is reached; the pipe then keeps its size.
            let _grown = rustix::pipe::fcntl_setpipe_size(&self.fd, BULK_PIPE);
        }
    }
}

/// A buffer that starts with the bytes held back before and has capacity for `size` more.
fn buffer_after(held: &[u8], size: usize) -> Vec<u8> {
    let mut buffer = Vec::with_capacity(held.len() + size);
    buffer.extend_from_slice(held);
    buffer
}

/// Frees the memory that a short read did not need.
fn exact(buffer: Vec<u8>) -> Bytes {
    if buffer.len() * 2 < buffer.capacity() { Bytes::copy_from_slice(&buffer) } else { Bytes::from(buffer) }
}

/// The writing end of a process's standard input. It is registered with the runtime when it is full for the first time:
/// most never are.
#[derive(Debug)]
pub(super) struct Input {
    fd: OwnedFd,
    watched: OnceLock<AsyncFd<OwnedFd>>,
}

impl Input {
    pub(super) fn new(fd: OwnedFd) -> io::Result<Input> {
        rustix::io::ioctl_fionbio(&fd, true)?;
        Ok(Input { fd, watched: OnceLock::new() })
    }

    /// Writes without waiting. Returns the number of bytes, or `None` if the pipe is full.
    pub(super) fn try_write(&self, bytes: &[u8]) -> io::Result<Option<usize>> {
        match rustix::io::write(&self.fd, bytes) {
            Ok(count) => Ok(Some(count)),
            Err(Errno::AGAIN | Errno::INTR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Waits until the pipe has space, and writes a part of `bytes`. Cancel-safe.
    pub(super) async fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        if let Some(count) = self.try_write(bytes)? {
            return Ok(count);
        }
        let watched = match self.watched.get() {
            Some(watched) => watched,
            None => {
                let fd = rustix::io::fcntl_dupfd_cloexec(&self.fd, 3)?;
                let watched = sys::watch(fd, Interest::WRITABLE)?;
                self.watched.get_or_init(|| watched)
            }
        };
        loop {
            let mut guard = watched.writable().await?;
            match guard.try_io(|fd| Ok(rustix::io::write(fd.get_ref(), bytes)?)) {
                Ok(result) => return result,
                Err(_would_block) => {}
            }
        }
    }
}

/// The three descriptors of the child, and the daemon's ends of them.
#[derive(Debug)]
pub(super) struct Wiring {
    pub(super) child: [OwnedFd; 3],
    pub(super) input: Option<OwnedFd>,
    pub(super) outputs: Vec<(OwnedFd, Stream)>,
}

/// Pipes; without `input` the child reads from `/dev/null`, and merged streams have one pipe.
pub(super) fn pipes(has_input: bool, merges_stderr: bool) -> io::Result<Wiring> {
    let (stdin, input) = if has_input {
        let (read, write) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        (read, Some(write))
    } else {
        (
            rustix::fs::open(
                "/dev/null",
                rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::CLOEXEC,
                rustix::fs::Mode::empty(),
            )?,
            None,
        )
    };
    let (out_read, out_write) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
    if merges_stderr {
        let err_write = rustix::io::fcntl_dupfd_cloexec(&out_write, 3)?;
        let outputs = vec![(out_read, Stream::Stdout)];
        return Ok(Wiring { child: [stdin, out_write, err_write], input, outputs });
    }
    let (err_read, err_write) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
    Ok(Wiring {
        child: [stdin, out_write, err_write],
        input,
        outputs: vec![(out_read, Stream::Stdout), (err_read, Stream::Stderr)],
    })
}

/// A terminal, opened at its final size.
pub(super) fn terminal(size: TerminalSize) -> io::Result<Wiring> {
    let master = rustix::pty::openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    rustix::pty::grantpt(&master)?;
    rustix::pty::unlockpt(&master)?;
    rustix::termios::tcsetwinsize(&master, winsize(size))?;
    let slave = rustix::pty::ioctl_tiocgptpeer(
        &master,
        OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC,
    )?;
    let duplicate = |fd: &OwnedFd| rustix::io::fcntl_dupfd_cloexec(fd.as_fd(), 3);
    let child = [duplicate(&slave)?, duplicate(&slave)?, slave];
    let input = duplicate(&master)?;
    Ok(Wiring { child, input: Some(input), outputs: vec![(master, Stream::Terminal)] })
}

fn winsize(size: TerminalSize) -> Winsize {
    Winsize { ws_row: size.rows, ws_col: size.cols, ws_xpixel: 0, ws_ypixel: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(is_text: bool) -> (Output, OwnedFd) {
        let (read, write) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).unwrap();
        (Output::new(read, Stream::Stdout, is_text).unwrap(), write)
    }

    async fn next_after(output: &mut Output, pipe: &OwnedFd, written: &[u8]) -> Bytes {
        rustix::io::write(pipe, written).unwrap();
        output.next().await.unwrap()
    }

    #[tokio::test]
    async fn the_backlog_of_a_terminal_contains_output_after_a_batch_that_ended_quietly() {
        let mut wiring = terminal(TerminalSize { cols: 80, rows: 24 }).unwrap();
        let (master, stream) = wiring.outputs.remove(0);
        let mut output = Output::new(master, stream, true).unwrap();
        let quiet = || Batch { bytes: Vec::new(), end: BatchEnd::Quiet };
        output.source = Source::Thread(Some(tokio::task::spawn_blocking(quiet)));
        rustix::io::write(&wiring.child[1], b"last").unwrap();
        assert_eq!(output.read_terminal_backlog().await, [&b"last"[..]]);
    }

    /// ARCHITECTURE.md, invariant 12.
    #[tokio::test(start_paused = true)]
    async fn the_rest_of_a_character_completes_it_however_it_is_split() {
        let (mut output, pipe) = output(true);
        assert_eq!(next_after(&mut output, &pipe, b"a\xc3").await, "a");
        assert_eq!(next_after(&mut output, &pipe, b"\xa9\xe2\x82").await, "é");
        assert_eq!(next_after(&mut output, &pipe, b"\xac\xf0").await, "€");
        assert_eq!(next_after(&mut output, &pipe, b"\x9f\x98\x80z").await, "😀z");
    }

    #[tokio::test(start_paused = true)]
    async fn a_character_that_is_not_completed_is_passed_on_after_five_milliseconds() {
        let (mut output, pipe) = output(true);
        assert_eq!(next_after(&mut output, &pipe, b"abc\xf0").await, "abc");
        let read_at = Instant::now();
        assert_eq!(next_after(&mut output, &pipe, b"\x9f\x98").await, b"\xf0\x9f\x98"[..]);
        // The clock advances only in this wait, in steps of a millisecond.
        let waited = read_at.elapsed();
        assert!(
            waited >= CHARACTER_WAIT && waited <= CHARACTER_WAIT + Duration::from_millis(1),
            "{waited:?}"
        );
        assert_eq!(output.rest(), b""[..]);
    }

    #[tokio::test(start_paused = true)]
    async fn bytes_that_complete_no_character_are_passed_on_at_once() {
        let begun = Instant::now();
        let (mut output, pipe) = output(false);
        assert_eq!(next_after(&mut output, &pipe, b"abc\xdc").await, b"abc\xdc"[..], "not text");
        let (mut output, pipe) = self::output(true);
        for never in [&b"a\xff"[..], b"b\xe0\x80", b"c\xed\xa0", b"\x80"] {
            assert_eq!(next_after(&mut output, &pipe, never).await, never);
        }
        assert_eq!(begun.elapsed(), Duration::ZERO);
    }
}
