//! Lines: a carrier of lines over two descriptors, for pipes and unix sockets. It reads only on request.

use std::fmt::Debug;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use crate::carrier::{Carrier, Received, readable};
use crate::daemon::PATIENCE;
use crate::proc::{wait_for, wait_readable};

/// Lines to and from a daemon.
#[derive(Debug)]
pub struct Lines<R, W> {
    input: Option<R>,
    output: Option<W>,
    buffer: Vec<u8>,
    /// Up to where the buffer was searched for a newline.
    scanned: usize,
    is_over: bool,
}

impl Lines<UnixStream, UnixStream> {
    /// Connects to a unix socket.
    pub fn connect(path: &Path) -> io::Result<Self> {
        let stream = UnixStream::connect(path)?;
        Ok(Lines::new(stream.try_clone()?, stream))
    }
}

impl<R: Read + AsFd, W: Write + AsFd> Lines<R, W> {
    /// Takes both ends and makes them non-blocking.
    pub fn new(input: R, output: W) -> Self {
        for fd in [input.as_fd(), output.as_fd()] {
            let flags = fcntl_getfl(fd).expect("flags");
            fcntl_setfl(fd, flags | OFlags::NONBLOCK).expect("a descriptor that does not block");
        }
        Lines { input: Some(input), output: Some(output), buffer: Vec::new(), scanned: 0, is_over: false }
    }

    /// Reads available bytes without blocking.
    fn fill(&mut self) -> io::Result<()> {
        let Some(input) = self.input.as_mut() else { return Ok(()) };
        let start = self.buffer.len();
        self.buffer.resize(start + 64 * 1024, 0);
        let read = input.read(&mut self.buffer[start..]);
        self.buffer.truncate(start + read.as_ref().map_or(0, |read| *read));
        match read {
            Ok(0) => self.is_over = true,
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn take_line(&mut self) -> Option<String> {
        if self.scanned == 0 && wire::binary::is_binary(&self.buffer) {
            let length =
                usize::try_from(wire::binary::message_bytes(&self.buffer)?).expect("a short message");
            let rest = (self.buffer.len() >= length).then(|| self.buffer.split_off(length))?;
            let message = std::mem::replace(&mut self.buffer, rest);
            return Some(readable(message).expect("a payload of text"));
        }
        let new = &self.buffer[self.scanned..];
        let Some(end) = new.iter().position(|byte| *byte == b'\n') else {
            self.scanned = self.buffer.len();
            return None;
        };
        let rest = self.buffer.split_off(self.scanned + end + 1);
        let mut line = std::mem::replace(&mut self.buffer, rest);
        line.pop();
        self.scanned = 0;
        Some(String::from_utf8(line).expect("a line of UTF-8"))
    }

    /// The bytes of one read, for tests of batched writes. No output may be pending before.
    pub fn read_once(&mut self, deadline: Instant) -> Vec<u8> {
        assert!(self.buffer.is_empty(), "something was read already: {}", self.buffer.len());
        let input = self.input.as_ref().expect("an input");
        assert!(wait_readable(input, deadline), "no output in time");
        self.fill().expect("a read");
        self.buffer.clone()
    }

    /// Stops reading permanently.
    pub fn close_input(&mut self) {
        self.input = None;
        self.is_over = true;
    }

    /// Closes the sending direction.
    pub fn close_output(&mut self) {
        self.output = None;
    }
}

impl<R: Read + AsFd + Debug, W: Write + AsFd + Debug> Carrier for Lines<R, W> {
    /// While the daemon does not read, its output is buffered, so that neither side blocks the other.
    fn send(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while !bytes.is_empty() {
            let Some(output) = self.output.as_mut() else { return Err(io::ErrorKind::NotConnected.into()) };
            match output.write(bytes) {
                Ok(written) => bytes = &bytes[written..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let soon = Instant::now() + Duration::from_millis(20);
                    if !wait_for(output, PollFlags::OUT, soon) && Instant::now() > deadline {
                        return Err(io::Error::new(io::ErrorKind::TimedOut, "the daemon does not read"));
                    }
                    self.fill()?;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn receive(&mut self, deadline: Instant) -> io::Result<Received> {
        loop {
            if let Some(line) = self.take_line() {
                return Ok(Received::Message(line));
            }
            if self.is_over {
                if self.buffer.is_empty() {
                    return Ok(Received::End);
                }
                let text = format!("the last line has no end: {:?}", self.buffer);
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, text));
            }
            let Some(input) = self.input.as_ref() else { return Ok(Received::End) };
            if !wait_readable(input, deadline) {
                return Ok(Received::Late);
            }
            self.fill()?;
        }
    }

    fn finish(&mut self) -> io::Result<()> {
        if let Some(output) = self.output.take() {
            // Dropping closes a pipe; a socket needs an explicit shutdown.
            match rustix::net::shutdown(&output, rustix::net::Shutdown::Write) {
                Ok(()) | Err(rustix::io::Errno::NOTSOCK | rustix::io::Errno::NOTCONN) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn answers_after_the_end(&self) -> bool {
        true
    }
}
