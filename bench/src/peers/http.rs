//! The smallest HTTP/1.1 client: one keep-alive connection, one request at a time or several sent ahead.

use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::wire::MessageReader;

/// A connection that is kept.
#[derive(Debug)]
pub(crate) struct Http {
    stream: TcpStream,
    output: MessageReader<TcpStream>,
    port: u16,
    /// The authorization header.
    credentials: &'static str,
    used: Instant,
}

/// A server may close an idle connection; this client reconnects before that.
const REST: Duration = Duration::from_secs(2);

impl Http {
    /// Connects to a port on loopback; `credentials` is a whole header.
    pub(crate) fn connect(port: u16, credentials: &'static str) -> Result<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_nodelay(true)?;
        let output = MessageReader::new(stream.try_clone()?);
        Ok(Self { stream, output, port, credentials, used: Instant::now() })
    }

    /// Sends a request and returns the body of the answer.
    pub(crate) fn post(&mut self, path: &str, body: &str) -> Result<&[u8]> {
        self.send("POST", path, body)?;
        self.body()
    }

    /// Asks for a page.
    pub(crate) fn get(&mut self, path: &str) -> Result<&[u8]> {
        self.send("GET", path, "")?;
        self.body()
    }

    /// Sends a request without waiting for the answer.
    pub(crate) fn send(&mut self, method: &str, path: &str, body: &str) -> Result<()> {
        if self.used.elapsed() > REST && self.output.rest().is_empty() {
            *self = Self::connect(self.port, self.credentials)?;
        }
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{}\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{body}",
            self.credentials,
            body.len()
        );
        Ok(self.stream.write_all(request.as_bytes())?)
    }

    /// Requests a stream without an end, read chunk by chunk.
    pub(crate) fn stream(mut self, path: &str) -> Result<Chunks> {
        self.send("GET", path, "")?;
        let head = String::from_utf8_lossy(self.output.until(b"\r\n\r\n")?).to_ascii_lowercase();
        ensure!(head.contains("transfer-encoding: chunked"), "no stream: {head}");
        Ok(Chunks { _stream: self.stream, output: self.output })
    }

    /// The body of the next answer.
    pub(crate) fn body(&mut self) -> Result<&[u8]> {
        let head = String::from_utf8_lossy(self.output.until(b"\r\n\r\n")?).to_ascii_lowercase();
        let size = head.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok());
        let size: usize = size.context("an answer without a length")?;
        let body = self.output.exactly(size)?;
        self.used = Instant::now();
        ensure!(
            head.starts_with("http/1.1 200"),
            "{}: {}",
            head.lines().next().unwrap_or_default(),
            String::from_utf8_lossy(&body[..body.len().min(300)])
        );
        Ok(body)
    }
}

/// A body in chunks.
#[derive(Debug)]
pub(crate) struct Chunks {
    _stream: TcpStream,
    output: MessageReader<TcpStream>,
}

impl Chunks {
    /// Waits for the next chunk.
    pub(crate) fn next(&mut self) -> Result<&[u8]> {
        let size = usize::from_str_radix(std::str::from_utf8(self.output.until(b"\r\n")?)?, 16)?;
        let chunk = self.output.exactly(size + 2)?;
        Ok(&chunk[..size])
    }
}
