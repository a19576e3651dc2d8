//! Stdin and stdout as a link, without a thread: the runtime polls both like sockets.
//!
//! A pipe or a terminal is reopened, so that it is non-blocking for this process alone: the shell's terminal, and a stderr
//! that shares it, are not changed. A socket cannot be reopened; its flags are restored when the link ends. Files and
//! `/dev/null` never block for long and are read and written in place.

use std::fs::File;
use std::io::{self, IoSlice, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf as _, BytesMut};
use rustix::fs::{FileType, Mode, OFlags, fcntl_getfl, fcntl_setfl, fstat};
use rustix::io::fcntl_dupfd_cloexec;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, Interest, ReadBuf};
use tokio::net::unix::pipe;

use crate::ndjson::Lines;
use crate::reader::newline;
use crate::{Limits, Link, ndjson};

/// The size of stdout's pipe after bulk output has filled it.
const LARGE_PIPE: usize = 1024 * 1024;
/// The size of a read before the end of the first line.
const FIRST_READ: usize = 4 * 1024;

/// Stdin and stdout of this process as a link. Must be called within a tokio runtime.
pub fn open(limits: &Limits) -> io::Result<Link> {
    Ok(Streams::open()?.into_link(limits))
}

/// Any two descriptors as a link, as [`open`] does with stdin and stdout.
pub fn over(input: BorrowedFd<'_>, output: BorrowedFd<'_>, limits: &Limits) -> io::Result<Link> {
    Ok(Streams::over(input, output)?.into_link(limits))
}

/// Stdin and stdout before they become a link: the first line can be inspected, or the bytes can be used otherwise.
#[derive(Debug)]
pub struct Streams {
    input: Input,
    output: Output,
    /// Bytes that were read and not consumed.
    read: BytesMut,
    is_over: bool,
}

/// The two streams as byte streams.
#[derive(Debug)]
pub struct Parts<R, W> {
    /// Bytes that were read already.
    pub read: BytesMut,
    /// The rest of the input; `None` if it has ended.
    pub input: Option<R>,
    /// The output stream.
    pub output: W,
}

impl Streams {
    /// The standard streams of this process. Must be called within a tokio runtime.
    pub fn open() -> io::Result<Streams> {
        Streams::over(rustix::stdio::stdin(), rustix::stdio::stdout())
    }

    /// Uses any two descriptors.
    pub fn over(input: BorrowedFd<'_>, output: BorrowedFd<'_>) -> io::Result<Streams> {
        // Both may be one socket: the flags to restore are those before either was changed.
        let (input_flags, output_flags) = (fcntl_getfl(input)?, fcntl_getfl(output)?);
        let input = Input::open(input, input_flags)?;
        let output = Output::open(output, output_flags)?;
        Ok(Streams { input, output, read: BytesMut::new(), is_over: false })
    }

    /// Waits for the first line and returns it without its newline; `None` if the input ends before it, or if it is longer
    /// than `most`. The line is not consumed, and nothing is lost if this future is dropped.
    pub async fn first_line(&mut self, most: usize) -> Option<&[u8]> {
        while self.line_end().is_none() && !self.is_over && self.read.len() <= most {
            self.read.reserve(FIRST_READ);
            match self.input.read_buf(&mut self.read).await {
                Ok(0) => self.is_over = true,
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    tracing::debug!(%error, "reading from the peer failed");
                    self.is_over = true;
                }
            }
        }
        let end = self.line_end().or(self.is_over.then_some(self.read.len()))?;
        self.read.get(..end).map(<[u8]>::trim_ascii).filter(|line| !line.is_empty() && line.len() <= most)
    }

    /// Drops the first line.
    pub fn skip_line(&mut self) {
        let end = self.line_end().map_or(self.read.len(), |end| end + 1);
        self.read.advance(end);
    }

    /// The end of the first line that is not blank.
    fn line_end(&self) -> Option<usize> {
        let start = self.read.iter().position(|byte| !byte.is_ascii_whitespace())?;
        newline(self.read.get(start..)?).map(|end| start + end)
    }

    /// Writes to the output.
    pub async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.output.write_all(bytes).await
    }

    /// Resolves when the reader of the output has closed it; never where that cannot be detected.
    pub fn reader_gone(&self) -> impl Future<Output = ()> + Send + 'static {
        self.output.reader_gone()
    }

    /// Converts both to a link, which begins with the bytes already read.
    pub fn into_link(self, limits: &Limits) -> Link {
        let Streams { input, output, read, is_over } = self;
        let gone = output.reader_gone();
        ndjson::link_until(
            Lines::begun(input, (limits.line_bytes, &limits.budget), (read, is_over)),
            output,
            limits,
            gone,
        )
    }

    /// Converts both to byte streams.
    pub fn into_parts(self) -> Parts<impl AsyncRead + Unpin + Send, impl AsyncWrite + Unpin + Send> {
        let Streams { input, output, read, is_over } = self;
        Parts { read, input: (!is_over).then_some(input), output }
    }
}

/// A descriptor for non-blocking reads of bytes, such as stdin.
pub fn input(shared: BorrowedFd<'_>) -> io::Result<Input> {
    Input::open(shared, fcntl_getfl(shared)?)
}

/// A descriptor for non-blocking writes of bytes, such as stdout.
pub fn output(shared: BorrowedFd<'_>) -> io::Result<Output> {
    Output::open(shared, fcntl_getfl(shared)?)
}

/// A descriptor that is non-blocking for this process.
struct NonBlockingFd {
    descriptor: OwnedFd,
    restore: Option<FlagsGuard>,
}

/// Restores the flags of a shared descriptor.
#[derive(Debug)]
struct FlagsGuard {
    descriptor: OwnedFd,
    flags: OFlags,
}

impl Drop for FlagsGuard {
    fn drop(&mut self) {
        if let Err(error) = fcntl_setfl(&self.descriptor, self.flags) {
            tracing::debug!(%error, "restoring the flags of stdio failed");
        }
    }
}

fn non_blocking(shared: BorrowedFd<'_>, flags: OFlags) -> io::Result<NonBlockingFd> {
    match FileType::from_raw_mode(fstat(shared)?.st_mode) {
        FileType::Fifo | FileType::CharacterDevice => match open_again(shared, flags) {
            Ok(descriptor) => Ok(NonBlockingFd { descriptor, restore: None }),
            // Another user's terminal, or no /proc: use it like a socket.
            Err(_) => borrowed(shared, flags),
        },
        FileType::Socket => borrowed(shared, flags),
        _ => Ok(NonBlockingFd { descriptor: fcntl_dupfd_cloexec(shared, 3)?, restore: None }),
    }
}

fn open_again(shared: BorrowedFd<'_>, flags: OFlags) -> io::Result<OwnedFd> {
    use std::os::fd::AsRawFd;
    let path = format!("/proc/self/fd/{}", shared.as_raw_fd());
    let access = flags & OFlags::ACCMODE;
    let wanted = access | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    Ok(rustix::fs::open(path, wanted, Mode::empty())?)
}

fn borrowed(shared: BorrowedFd<'_>, flags: OFlags) -> io::Result<NonBlockingFd> {
    let descriptor = fcntl_dupfd_cloexec(shared, 3)?;
    let restore = Some(FlagsGuard { descriptor: fcntl_dupfd_cloexec(shared, 3)?, flags });
    fcntl_setfl(&descriptor, flags | OFlags::NONBLOCK)?;
    Ok(NonBlockingFd { descriptor, restore })
}

/// The input as a non-blocking stream.
#[derive(Debug)]
pub struct Input(Source);

#[derive(Debug)]
enum Source {
    Waited { input: pipe::Receiver, _restore: Option<FlagsGuard> },
    InPlace(File),
}

impl Input {
    fn open(shared: BorrowedFd<'_>, flags: OFlags) -> io::Result<Input> {
        let NonBlockingFd { descriptor, restore } = non_blocking(shared, flags)?;
        let spare = descriptor.try_clone()?;
        match pipe::Receiver::from_owned_fd_unchecked(descriptor) {
            Ok(input) => Ok(Input(Source::Waited { input, _restore: restore })),
            Err(error) if is_always_ready(&error) => Ok(Input(Source::InPlace(File::from(spare)))),
            Err(error) => Err(error),
        }
    }
}

impl AsyncRead for Input {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut self.get_mut().0 {
            Source::Waited { input, .. } => Pin::new(input).poll_read(cx, buffer),
            Source::InPlace(file) => {
                let read = file.read(buffer.initialize_unfilled())?;
                buffer.advance(read);
                Poll::Ready(Ok(()))
            }
        }
    }
}

/// The output as a non-blocking stream.
#[derive(Debug)]
pub struct Output(Sink);

#[derive(Debug)]
enum Sink {
    Waited { output: pipe::Sender, may_grow: bool, _restore: Option<FlagsGuard> },
    InPlace(File),
}

impl Output {
    fn open(shared: BorrowedFd<'_>, flags: OFlags) -> io::Result<Output> {
        let NonBlockingFd { descriptor, restore } = non_blocking(shared, flags)?;
        let spare = descriptor.try_clone()?;
        match pipe::Sender::from_owned_fd_unchecked(descriptor) {
            Ok(output) => Ok(Output(Sink::Waited { output, may_grow: true, _restore: restore })),
            Err(error) if is_always_ready(&error) => Ok(Output(Sink::InPlace(File::from(spare)))),
            Err(error) => Err(error),
        }
    }
}

impl Output {
    /// Resolves when the reader of the output has closed it; never where that cannot be detected.
    fn reader_gone(&self) -> impl Future<Output = ()> + Send + 'static {
        let watched = match &self.0 {
            Sink::Waited { output, .. } => output.as_fd().try_clone_to_owned().ok(),
            Sink::InPlace(_) => None,
        };
        let watched = watched.and_then(|descriptor| pipe::Sender::from_owned_fd_unchecked(descriptor).ok());
        async move {
            let gone = match &watched {
                Some(output) => output.ready(Interest::ERROR).await.is_ok(),
                None => false,
            };
            if !gone {
                std::future::pending::<()>().await;
            }
        }
    }
}

impl AsyncWrite for Output {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let (output, may_grow) = match &mut self.get_mut().0 {
            Sink::Waited { output, may_grow, .. } => (output, may_grow),
            Sink::InPlace(file) => return Poll::Ready(file.write_vectored(slices)),
        };
        let polled = Pin::new(&mut *output).poll_write_vectored(cx, slices);
        let wanted = slices.iter().map(|slice| slice.len()).sum();
        let is_full = match &polled {
            Poll::Pending => true,
            Poll::Ready(Ok(written)) => *written < wanted,
            Poll::Ready(Err(_)) => false,
        };
        if is_full && std::mem::take(may_grow) && grow(output.as_fd()) && polled.is_pending() {
            return Pin::new(output).poll_write_vectored(cx, slices);
        }
        polled
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Enlarges the pipe. Fails silently if the output is not a pipe or the limit is reached.
fn grow(output: BorrowedFd<'_>) -> bool {
    match rustix::pipe::fcntl_getpipe_size(output) {
        Ok(size) if size < LARGE_PIPE => rustix::pipe::fcntl_setpipe_size(output, LARGE_PIPE).is_ok(),
        _ => false,
    }
}

/// True if the kernel reports that a file is always ready and cannot be polled.
fn is_always_ready(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::PERM.raw_os_error())
}
