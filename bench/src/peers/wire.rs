//! Moves whole JSON messages: lines over pipes and unix sockets, or frames over a WebSocket.

use std::fs::File;
use std::io::{IoSlice, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use memchr::memchr;

use super::websocket::WebSocket;

/// How much is asked of the kernel at once.
const READ_BYTES: usize = 1 << 20;

/// A connection that carries one JSON message after another.
#[derive(Debug)]
pub(crate) enum Wire {
    /// One message per line.
    Lines { input: File, output: MessageReader<File> },
    /// One message per frame.
    WebSocket(WebSocket),
}

impl Wire {
    /// Lines over two descriptors: the pipes of a child.
    pub(crate) fn lines(input: impl Into<OwnedFd>, output: impl Into<OwnedFd>) -> Self {
        Self::Lines { input: File::from(input.into()), output: MessageReader::new(File::from(output.into())) }
    }

    /// Lines over a unix socket.
    pub(crate) fn unix(path: &Path) -> Result<Self> {
        let stream = UnixStream::connect(path).with_context(|| format!("no answer at {}", path.display()))?;
        Ok(Self::lines(stream.try_clone()?, stream))
    }

    /// Sends messages in one write.
    pub(crate) fn send(&mut self, messages: &[String]) -> Result<()> {
        match self {
            Self::Lines { input, .. } => {
                let mut bytes = Vec::with_capacity(messages.iter().map(|message| message.len() + 1).sum());
                for message in messages {
                    bytes.extend_from_slice(message.as_bytes());
                    bytes.push(b'\n');
                }
                input.write_all(&bytes).context("the server closed its stdin")
            }
            Self::WebSocket(socket) => socket.send(messages),
        }
    }

    /// Sends one message from parts without copying them.
    pub(crate) fn send_parts(&mut self, parts: [&[u8]; 3]) -> Result<()> {
        let [front, payload, back] = parts;
        match self {
            Self::Lines { input, .. } => write_parts(input, [b"", front, payload, back, b"\n"]),
            Self::WebSocket(socket) => socket.send_parts(parts),
        }
    }

    /// Waits for the next message.
    pub(crate) fn receive(&mut self) -> Result<&[u8]> {
        match self {
            Self::Lines { output, .. } => output.until(b"\n"),
            Self::WebSocket(socket) => socket.receive(),
        }
    }

    /// Whether unread bytes have arrived.
    pub(crate) fn has_more(&self) -> bool {
        match self {
            Self::Lines { output, .. } => memchr(b'\n', output.rest()).is_some(),
            Self::WebSocket(socket) => socket.has_more(),
        }
    }
}

/// Writes all parts, with one system call if the kernel takes them at once.
pub(super) fn write_parts(writer: &mut impl Write, parts: [&[u8]; 5]) -> Result<()> {
    let mut written = writer.write_vectored(&parts.map(IoSlice::new))?;
    for part in parts {
        let done = written.min(part.len());
        written -= done;
        writer.write_all(&part[done..])?;
    }
    Ok(())
}

/// A read buffer that grows to the largest message seen and hands messages out without copying them.
#[derive(Debug)]
pub(crate) struct MessageReader<R> {
    reader: R,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
}

impl<R: Read> MessageReader<R> {
    /// An empty buffer over a reader.
    pub(crate) fn new(reader: R) -> Self {
        Self { reader, buffer: vec![0; READ_BYTES], start: 0, end: 0 }
    }

    /// The bytes up to the mark; the mark itself is taken but not returned.
    pub(crate) fn until(&mut self, mark: &[u8]) -> Result<&[u8]> {
        let mut searched = 0;
        loop {
            if let Some(at) = memchr::memmem::find(&self.buffer[self.start + searched..self.end], mark) {
                let from = self.start;
                let to = from + searched + at;
                self.start = to + mark.len();
                return Ok(&self.buffer[from..to]);
            }
            searched = (self.end - self.start).saturating_sub(mark.len() - 1);
            self.fill()?;
        }
    }

    /// Exactly this many bytes.
    pub(crate) fn exactly(&mut self, size: usize) -> Result<&[u8]> {
        while self.end - self.start < size {
            self.fill()?;
        }
        let from = self.start;
        self.start += size;
        Ok(&self.buffer[from..from + size])
    }

    /// Bytes read but not consumed.
    pub(crate) fn rest(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    fn fill(&mut self) -> Result<()> {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
        if self.buffer.len() - self.end < READ_BYTES / 2 {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        if self.buffer.len() - self.end < READ_BYTES / 2 {
            self.buffer.resize(self.buffer.len() * 2, 0);
        }
        let room = (self.buffer.len() - self.end).min(READ_BYTES);
        let read = self.reader.read(&mut self.buffer[self.end..self.end + room])?;
        ensure!(read > 0, "the server ended");
        self.end += read;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_survive_any_split() {
        let text: Vec<u8> = (0..500_000u32).flat_map(|n| format!("{n}\n").into_bytes()).collect();
        let mut inbox = MessageReader::new(text.as_slice());
        for n in 0..500_000u32 {
            assert_eq!(inbox.until(b"\n").unwrap(), n.to_string().as_bytes());
        }
        assert!(inbox.until(b"\n").is_err());
    }

    #[test]
    fn a_message_larger_than_the_buffer_arrives_whole() {
        let mut text = vec![b'x'; 5 << 20];
        text.extend_from_slice(b"\nrest\n");
        let mut inbox = MessageReader::new(text.as_slice());
        assert_eq!(inbox.until(b"\n").unwrap().len(), 5 << 20);
        assert_eq!(inbox.until(b"\n").unwrap(), b"rest");
    }
}
