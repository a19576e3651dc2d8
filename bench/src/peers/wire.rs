//! Moves whole JSON messages: lines over pipes, or frames over a WebSocket.

use std::io::{IoSlice, Read, Write};
use std::net::TcpStream;
use std::process::{ChildStdin, ChildStdout};

use anyhow::{Context, Result, bail, ensure};
use memchr::memchr;

/// How much is asked of the kernel at once.
const READ_BYTES: usize = 1 << 20;

/// A connection that carries one JSON message after another.
#[derive(Debug)]
pub(crate) enum Wire {
    /// One message per line.
    Lines { input: ChildStdin, output: Inbox<ChildStdout> },
    /// One message per text frame.
    WebSocket { stream: TcpStream, output: Inbox<TcpStream> },
}

impl Wire {
    /// Lines over the pipes of a child.
    pub(crate) fn lines(input: ChildStdin, output: ChildStdout) -> Self {
        Self::Lines { input, output: Inbox::new(output) }
    }

    /// A WebSocket to `address`, upgraded.
    pub(crate) fn websocket(address: &str) -> Result<Self> {
        let mut stream = TcpStream::connect(address).with_context(|| format!("no answer from {address}"))?;
        stream.set_nodelay(true)?;
        let request = format!(
            "GET / HTTP/1.1\r\nHost: {address}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: cmV4ZC1iZW5jaC1yZXhkLQ==\r\n\r\n"
        );
        stream.write_all(request.as_bytes())?;
        let mut output = Inbox::new(stream.try_clone()?);
        let head = output.until(b"\r\n\r\n")?;
        ensure!(head.starts_with(b"HTTP/1.1 101"), "no WebSocket at {address}");
        Ok(Self::WebSocket { stream, output })
    }

    /// Sends messages in one go.
    pub(crate) fn send(&mut self, messages: &[String]) -> Result<()> {
        let mut bytes = Vec::with_capacity(messages.iter().map(|message| message.len() + 16).sum());
        match self {
            Self::Lines { input, .. } => {
                for message in messages {
                    bytes.extend_from_slice(message.as_bytes());
                    bytes.push(b'\n');
                }
                input.write_all(&bytes).context("the server closed its stdin")
            }
            Self::WebSocket { stream, .. } => {
                for message in messages {
                    push_frame(&mut bytes, TEXT, message.as_bytes());
                }
                stream.write_all(&bytes).context("the server closed the connection")
            }
        }
    }

    /// Sends one message that is made of parts, without copying them together.
    pub(crate) fn send_parts(&mut self, parts: [&[u8]; 3]) -> Result<()> {
        let [front, payload, back] = parts;
        match self {
            Self::Lines { input, .. } => write_parts(input, [b"", front, payload, back, b"\n"]),
            Self::WebSocket { stream, .. } => {
                let mut head = Vec::new();
                push_head(&mut head, TEXT, front.len() + payload.len() + back.len());
                write_parts(stream, [&head, front, payload, back, b""])
            }
        }
    }

    /// The next message; waits for it.
    pub(crate) fn receive(&mut self) -> Result<&[u8]> {
        match self {
            Self::Lines { output, .. } => output.until(b"\n"),
            Self::WebSocket { stream, output } => loop {
                let (opcode, size) = frame_head(stream, output)?;
                match opcode {
                    TEXT | BINARY => return output.exactly(size),
                    PING => {
                        let payload = output.exactly(size)?.to_vec();
                        let mut pong = Vec::new();
                        push_frame(&mut pong, PONG, &payload);
                        stream.write_all(&pong)?;
                    }
                    PONG => drop(output.exactly(size)?),
                    other => bail!("unexpected WebSocket frame {other}"),
                }
            },
        }
    }

    /// Whether bytes have arrived that were not looked at yet.
    pub(crate) fn has_more(&self) -> bool {
        match self {
            Self::Lines { output, .. } => memchr(b'\n', output.rest()).is_some(),
            Self::WebSocket { output, .. } => !output.rest().is_empty(),
        }
    }
}

const TEXT: u8 = 1;
const BINARY: u8 = 2;
const PING: u8 = 9;
const PONG: u8 = 10;

/// Writes all parts, with one system call if the kernel takes them at once.
fn write_parts(writer: &mut impl Write, parts: [&[u8]; 5]) -> Result<()> {
    let mut written = writer.write_vectored(&parts.map(IoSlice::new))?;
    for part in parts {
        let done = written.min(part.len());
        written -= done;
        writer.write_all(&part[done..])?;
    }
    Ok(())
}

/// A client frame.
fn push_frame(bytes: &mut Vec<u8>, opcode: u8, payload: &[u8]) {
    push_head(bytes, opcode, payload.len());
    bytes.extend_from_slice(payload);
}

/// The head of a client frame. Its mask is zero, which the protocol allows and which costs the client nothing.
fn push_head(bytes: &mut Vec<u8>, opcode: u8, size: usize) {
    const FINAL: u8 = 0x80;
    const MASKED: u8 = 0x80;
    bytes.push(FINAL | opcode);
    match (u8::try_from(size), u16::try_from(size)) {
        (Ok(size @ 0..=125), _) => bytes.push(MASKED | size),
        (_, Ok(size)) => {
            bytes.push(MASKED | 126);
            bytes.extend_from_slice(&size.to_be_bytes());
        }
        (_, Err(_)) => {
            bytes.push(MASKED | 127);
            bytes.extend_from_slice(&(size as u64).to_be_bytes());
        }
    }
    bytes.extend_from_slice(&[0; 4]);
}

/// Opcode and payload size of the next frame. Acknowledges at once, lest the peer's Nagle waits 40 ms for us.
fn frame_head(stream: &TcpStream, output: &mut Inbox<TcpStream>) -> Result<(u8, usize)> {
    rustix::net::sockopt::set_tcp_quickack(stream, true)?;
    let head = output.exactly(2)?;
    let (Some(first), Some(second)) = (head.first().copied(), head.get(1).copied()) else {
        bail!("no frame")
    };
    ensure!(first & 0x80 != 0, "the server sent a fragmented message");
    let size = match second & 0x7f {
        126 => u64::from(u16::from_be_bytes(output.exactly(2)?.try_into()?)),
        127 => u64::from_be_bytes(output.exactly(8)?.try_into()?),
        small => u64::from(small),
    };
    Ok((first & 0x0f, usize::try_from(size)?))
}

/// A read buffer that grows to the largest message seen and hands messages out without copying them.
#[derive(Debug)]
pub(crate) struct Inbox<R> {
    reader: R,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
}

impl<R: Read> Inbox<R> {
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

    /// What was read but not taken.
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
        let mut inbox = Inbox::new(text.as_slice());
        for n in 0..500_000u32 {
            assert_eq!(inbox.until(b"\n").unwrap(), n.to_string().as_bytes());
        }
        assert!(inbox.until(b"\n").is_err());
    }

    #[test]
    fn a_message_larger_than_the_buffer_arrives_whole() {
        let mut text = vec![b'x'; 5 << 20];
        text.extend_from_slice(b"\nrest\n");
        let mut inbox = Inbox::new(text.as_slice());
        assert_eq!(inbox.until(b"\n").unwrap().len(), 5 << 20);
        assert_eq!(inbox.until(b"\n").unwrap(), b"rest");
    }
}
