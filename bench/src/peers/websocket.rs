//! A minimal WebSocket client: large blocking reads, messages borrowed from the buffer, one zstd frame each if
//! the server compresses them.

use std::io::Write;
use std::net::TcpStream;

use anyhow::{Context, Result, bail, ensure};

use super::wire::{MessageReader, write_parts};

/// Capacity for one decompressed message.
const UNPACKED_BYTES: usize = 4 << 20;
const TEXT: u8 = 1;
const BINARY: u8 = 2;
const PING: u8 = 9;
const PONG: u8 = 10;

/// The address and options of a connection.
#[derive(Debug, Clone)]
pub(crate) struct WebSocketAddress {
    /// Host and port.
    pub(crate) address: String,
    /// The path of the handshake.
    pub(crate) path: &'static str,
    /// The bearer token.
    pub(crate) token: Option<&'static str>,
    /// Acknowledge every frame at once, for a server that delays small messages otherwise.
    pub(crate) acknowledges: bool,
}

/// A WebSocket after its handshake.
#[derive(Debug)]
pub(crate) struct WebSocket {
    stream: TcpStream,
    output: MessageReader<TcpStream>,
    acknowledges: bool,
    unpacked: Vec<u8>,
}

impl WebSocket {
    /// Connects and upgrades to WebSocket.
    pub(crate) fn connect(address: &WebSocketAddress) -> Result<Self> {
        let WebSocketAddress { address, path, token, acknowledges } = address;
        let mut stream = TcpStream::connect(address).with_context(|| format!("no answer from {address}"))?;
        stream.set_nodelay(true)?;
        let bearer = token.map_or(String::new(), |token| format!("Authorization: Bearer {token}\r\n"));
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n{bearer}\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: cmV4ZC1iZW5jaC1yZXhkLQ==\r\n\r\n"
        );
        stream.write_all(request.as_bytes())?;
        let mut output = MessageReader::new(stream.try_clone()?);
        let head = output.until(b"\r\n\r\n")?;
        ensure!(
            head.starts_with(b"HTTP/1.1 101"),
            "no WebSocket at {address}: {}",
            String::from_utf8_lossy(head)
        );
        Ok(Self { stream, output, acknowledges: *acknowledges, unpacked: Vec::new() })
    }

    /// Sends messages in one write.
    pub(crate) fn send(&mut self, messages: &[String]) -> Result<()> {
        let mut bytes = Vec::with_capacity(messages.iter().map(|message| message.len() + 16).sum());
        for message in messages {
            push_frame(&mut bytes, TEXT, message.as_bytes());
        }
        self.stream.write_all(&bytes).context("the server closed the connection")
    }

    /// Sends one message from parts without copying them.
    pub(crate) fn send_parts(&mut self, [front, payload, back]: [&[u8]; 3]) -> Result<()> {
        let mut head = Vec::new();
        push_head(&mut head, TEXT, front.len() + payload.len() + back.len());
        write_parts(&mut self.stream, [&head, front, payload, back, b""])
    }

    /// Waits for the next message.
    pub(crate) fn receive(&mut self) -> Result<&[u8]> {
        loop {
            let (opcode, size) = self.frame_head()?;
            match opcode {
                TEXT => return self.output.exactly(size),
                BINARY => {
                    let packed = self.output.exactly(size)?;
                    self.unpacked.clear();
                    self.unpacked.reserve(UNPACKED_BYTES);
                    zstd::bulk::Decompressor::new()?.decompress_to_buffer(packed, &mut self.unpacked)?;
                    return Ok(&self.unpacked);
                }
                PING => {
                    let mut pong = Vec::new();
                    push_frame(&mut pong, PONG, self.output.exactly(size)?);
                    self.stream.write_all(&pong)?;
                }
                PONG => drop(self.output.exactly(size)?),
                other => bail!("unexpected WebSocket frame {other}"),
            }
        }
    }

    /// Whether unread bytes have arrived.
    pub(crate) fn has_more(&self) -> bool {
        !self.output.rest().is_empty()
    }

    /// Opcode and payload size of the next frame.
    fn frame_head(&mut self) -> Result<(u8, usize)> {
        if self.acknowledges {
            rustix::net::sockopt::set_tcp_quickack(&self.stream, true)?;
        }
        let head = self.output.exactly(2)?;
        let (Some(first), Some(second)) = (head.first().copied(), head.get(1).copied()) else {
            bail!("no frame")
        };
        ensure!(first & 0x80 != 0, "the server sent a fragmented message");
        let size = match second & 0x7f {
            126 => u64::from(u16::from_be_bytes(self.output.exactly(2)?.try_into()?)),
            127 => u64::from_be_bytes(self.output.exactly(8)?.try_into()?),
            small => u64::from(small),
        };
        Ok((first & 0x0f, usize::try_from(size)?))
    }
}

/// Encodes a client frame.
fn push_frame(bytes: &mut Vec<u8>, opcode: u8, payload: &[u8]) {
    push_head(bytes, opcode, payload.len());
    bytes.extend_from_slice(payload);
}

/// The header of a client frame. Its mask is zero, which the protocol allows.
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
