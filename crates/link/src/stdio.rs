//! Stdin and stdout as a link, without a thread: both are waited for by the runtime like sockets.
//!
//! A pipe or a terminal is opened again, so that it is non-blocking for us alone: the terminal of the shell that
//! started us, and a stderr that shares it, stay as they were. A socket cannot be opened again; its flags are put back
//! when the link ends. Files and `/dev/null` never block for long and are read and written in place.

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

/// What stdout's pipe is grown to when bulk output fills it.
const LARGE_PIPE: usize = 1024 * 1024;
/// Room for a read while the first line comes.
const FIRST_READ: usize = 4 * 1024;

/// Stdin and stdout of this process as a link. Must be called within a tokio runtime.
pub fn open(limits: &Limits) -> io::Result<Link> {
    Ok(Streams::open()?.into_link(limits))
}

/// Any two descriptors as a link, as [`open`] does with stdin and stdout.
pub fn over(input: BorrowedFd<'_>, output: BorrowedFd<'_>, limits: &Limits) -> io::Result<Link> {
    Ok(Streams::over(input, output)?.into_link(limits))
}

/// Stdin and stdout before they are a link: the first line can be looked at, and somebody else may take the bytes.
#[derive(Debug)]
pub struct Streams {
    input: Input,
    output: Output,
    /// What was read and not taken.
    read: BytesMut,
    is_over: bool,
}

/// The two streams as bytes.
#[derive(Debug)]
pub struct Parts<R, W> {
    /// What was read already.
    pub read: BytesMut,
    /// What follows it; nothing if it has ended.
    pub input: Option<R>,
    /// Where answers go.
    pub output: W,
}

impl Streams {
    /// Those of this process. Must be called within a tokio runtime.
    pub fn open() -> io::Result<Streams> {
        Streams::over(rustix::stdio::stdin(), rustix::stdio::stdout())
    }

    /// Any two descriptors.
    pub fn over(input: BorrowedFd<'_>, output: BorrowedFd<'_>) -> io::Result<Streams> {
        // Both may be one socket: the flags to put back are those before either was changed.
        let (input_flags, output_flags) = (fcntl_getfl(input)?, fcntl_getfl(output)?);
        let input = Input::open(input, input_flags)?;
        let output = Output::open(output, output_flags)?;
        Ok(Streams { input, output, read: BytesMut::new(), is_over: false })
    }

    /// Waits for the first line and shows it without its end; nothing if input ends before there is one, or if it is
    /// longer than `most`. It stays where it is; nothing is lost if this future is dropped.
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

    /// Where the first line ends that is not blank.
    fn line_end(&self) -> Option<usize> {
        let start = self.read.iter().position(|byte| !byte.is_ascii_whitespace())?;
        newline(self.read.get(start..)?).map(|end| start + end)
    }

    /// Writes to the output.
    pub async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.output.write_all(bytes).await
    }

    /// Comes true when whoever reads our output has closed it; never where that cannot be seen.
    pub fn reader_gone(&self) -> impl Future<Output = ()> + Send + 'static {
        self.output.reader_gone()
    }

    /// Both as a link, beginning with what was read.
    pub fn into_link(self, limits: &Limits) -> Link {
        let Streams { input, output, read, is_over } = self;
        let gone = output.reader_gone();
        ndjson::link_until(Lines::begun(input, limits.line_bytes, (read, is_over)), output, limits, gone)
    }

    /// Both as bytes.
    pub fn into_parts(self) -> Parts<impl AsyncRead + Unpin + Send, impl AsyncWrite + Unpin + Send> {
        let Streams { input, output, read, is_over } = self;
        Parts { read, input: (!is_over).then_some(input), output }
    }
}

/// A descriptor to read from without blocking, such as our own stdin, where bytes and not messages are wanted.
pub fn input(shared: BorrowedFd<'_>) -> io::Result<Input> {
    Input::open(shared, fcntl_getfl(shared)?)
}

/// A descriptor to write to without blocking, such as our own stdout, where bytes and not messages are wanted.
pub fn output(shared: BorrowedFd<'_>) -> io::Result<Output> {
    Output::open(shared, fcntl_getfl(shared)?)
}

/// A descriptor that is non-blocking for us.
struct Ours {
    descriptor: OwnedFd,
    restore: Option<Restore>,
}

/// Puts the flags of a shared descriptor back.
#[derive(Debug)]
struct Restore {
    descriptor: OwnedFd,
    flags: OFlags,
}

impl Drop for Restore {
    fn drop(&mut self) {
        if let Err(error) = fcntl_setfl(&self.descriptor, self.flags) {
            tracing::debug!(%error, "could not put the flags of stdio back");
        }
    }
}

fn ours(shared: BorrowedFd<'_>, flags: OFlags) -> io::Result<Ours> {
    match FileType::from_raw_mode(fstat(shared)?.st_mode) {
        FileType::Fifo | FileType::CharacterDevice => match open_again(shared, flags) {
            Ok(descriptor) => Ok(Ours { descriptor, restore: None }),
            // Another user's terminal, or no /proc: then as with a socket.
            Err(_) => borrowed(shared, flags),
        },
        FileType::Socket => borrowed(shared, flags),
        _ => Ok(Ours { descriptor: fcntl_dupfd_cloexec(shared, 3)?, restore: None }),
    }
}

fn open_again(shared: BorrowedFd<'_>, flags: OFlags) -> io::Result<OwnedFd> {
    use std::os::fd::AsRawFd;
    let path = format!("/proc/self/fd/{}", shared.as_raw_fd());
    let access = flags & OFlags::ACCMODE;
    let wanted = access | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    Ok(rustix::fs::open(path, wanted, Mode::empty())?)
}

fn borrowed(shared: BorrowedFd<'_>, flags: OFlags) -> io::Result<Ours> {
    let descriptor = fcntl_dupfd_cloexec(shared, 3)?;
    let restore = Some(Restore { descriptor: fcntl_dupfd_cloexec(shared, 3)?, flags });
    fcntl_setfl(&descriptor, flags | OFlags::NONBLOCK)?;
    Ok(Ours { descriptor, restore })
}

/// The reading side.
#[derive(Debug)]
pub struct Input(Source);

#[derive(Debug)]
enum Source {
    Waited { input: pipe::Receiver, _restore: Option<Restore> },
    InPlace(File),
}

impl Input {
    fn open(shared: BorrowedFd<'_>, flags: OFlags) -> io::Result<Input> {
        let Ours { descriptor, restore } = ours(shared, flags)?;
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

/// The writing side.
#[derive(Debug)]
pub struct Output(Sink);

#[derive(Debug)]
enum Sink {
    Waited { output: pipe::Sender, may_grow: bool, _restore: Option<Restore> },
    InPlace(File),
}

impl Output {
    fn open(shared: BorrowedFd<'_>, flags: OFlags) -> io::Result<Output> {
        let Ours { descriptor, restore } = ours(shared, flags)?;
        let spare = descriptor.try_clone()?;
        match pipe::Sender::from_owned_fd_unchecked(descriptor) {
            Ok(output) => Ok(Output(Sink::Waited { output, may_grow: true, _restore: restore })),
            Err(error) if is_always_ready(&error) => Ok(Output(Sink::InPlace(File::from(spare)))),
            Err(error) => Err(error),
        }
    }
}

impl Output {
    /// Comes true when whoever reads our output has closed it; never where that cannot be seen.
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

/// Makes the pipe larger. Not every output is a pipe and not everybody may: then it stays as it is.
fn grow(output: BorrowedFd<'_>) -> bool {
    match rustix::pipe::fcntl_getpipe_size(output) {
        Ok(size) if size < LARGE_PIPE => rustix::pipe::fcntl_setpipe_size(output, LARGE_PIPE).is_ok(),
        _ => false,
    }
}

/// Whether this is the kernel's way to say that a file is always ready and need not be waited for.
fn is_always_ready(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::PERM.raw_os_error())
}
