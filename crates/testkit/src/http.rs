//! A minimal HTTP/1.1 client: sequential requests, both kinds of bodies, streams.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};

use crate::daemon::PATIENCE;

/// One connection to a server.
#[derive(Debug)]
pub struct Http {
    address: SocketAddr,
    reader: BufReader<TcpStream>,
}

/// The head of a response.
#[derive(Debug, Clone, Default)]
pub struct Head {
    /// Its status.
    pub status: u16,
    /// Its headers, names in small letters.
    pub headers: Vec<(String, String)>,
}

impl Head {
    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    fn has(&self, name: &str, value: &str) -> bool {
        self.header(name).is_some_and(|found| found.eq_ignore_ascii_case(value))
    }
}

/// A complete response.
#[derive(Debug, Clone, Default)]
pub struct Answer {
    /// Its head.
    pub head: Head,
    /// Its body.
    pub body: String,
}

impl Http {
    /// Connects to an address.
    pub fn connect(address: SocketAddr) -> io::Result<Http> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Http { address, reader: BufReader::with_capacity(64 * 1024, stream) })
    }

    /// The underlying TCP stream.
    pub fn stream(&self) -> &TcpStream {
        self.reader.get_ref()
    }

    /// Sends a request in one write. `headers` are complete lines.
    pub fn send(&mut self, target: &str, headers: &[String], body: Option<&[u8]>) -> io::Result<()> {
        let method = if body.is_some() { "POST" } else { "GET" };
        let mut request = format!("{method} {target} HTTP/1.1\r\nHost: {}\r\n", self.address);
        for header in headers {
            request += &format!("{header}\r\n");
        }
        if let Some(body) = body {
            request += &format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len());
        }
        let mut bytes = request.into_bytes();
        bytes.extend_from_slice(b"\r\n");
        bytes.extend_from_slice(body.unwrap_or_default());
        self.reader.get_mut().write_all(&bytes)
    }

    /// Sends a request and reads the complete response.
    pub fn ask(&mut self, target: &str, headers: &[String], body: Option<&[u8]>) -> io::Result<Answer> {
        self.send(target, headers, body)?;
        let head = self.head()?;
        let body = self.body(&head)?;
        Ok(Answer { head, body: String::from_utf8(body).map_err(io::Error::other)? })
    }

    /// Reads the head of a response.
    pub fn head(&mut self) -> io::Result<Head> {
        let first = self.line()?;
        let status = first.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.ok_or_else(|| io::Error::other(format!("no status: {first:?}")))?;
        let mut head = Head { status, headers: Vec::new() };
        loop {
            let line = self.line()?;
            if line.is_empty() {
                return Ok(head);
            }
            let (name, value) = line.split_once(':').ok_or_else(|| io::Error::other(line.clone()))?;
            head.headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
    }

    /// Reads the body after a head.
    pub fn body(&mut self, head: &Head) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        if head.has("transfer-encoding", "chunked") {
            while let Some(chunk) = self.chunk()? {
                body.extend_from_slice(&chunk);
            }
        } else if let Some(length) = head.header("content-length") {
            body.resize(length.parse().map_err(io::Error::other)?, 0);
            self.reader.read_exact(&mut body)?;
        }
        Ok(body)
    }

    /// The next chunk of a chunked body; `None` after the last.
    pub fn chunk(&mut self) -> io::Result<Option<Vec<u8>>> {
        let size = self.line()?;
        let digits = size.split(';').next().unwrap_or_default();
        let size = usize::from_str_radix(digits, 16)
            .map_err(|error| io::Error::other(format!("{size:?}: {error}")))?;
        let mut chunk = vec![0; size];
        self.reader.read_exact(&mut chunk)?;
        match self.line()?.as_str() {
            "" if size == 0 => Ok(None),
            "" => Ok(Some(chunk)),
            other => Err(io::Error::other(format!("behind a chunk: {other:?}"))),
        }
    }

    /// A line without its newline. The end of the stream within a line is an error.
    fn line(&mut self) -> io::Result<String> {
        let mut line = Vec::new();
        self.reader.read_until(b'\n', &mut line)?;
        let text = line.strip_suffix(b"\r\n").ok_or(io::ErrorKind::UnexpectedEof)?;
        String::from_utf8(text.to_vec()).map_err(io::Error::other)
    }
}

/// The authorization header of a token.
pub fn bearer(token: Option<&str>) -> Vec<String> {
    token.map(|token| format!("Authorization: Bearer {token}")).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    fn answered(answer: &'static [u8]) -> io::Result<Answer> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            let mut stream = listener.accept().unwrap().0;
            let mut head = [0; 1024];
            let read = stream.read(&mut head).unwrap();
            stream.write_all(answer).unwrap();
            String::from_utf8_lossy(&head[..read]).into_owned()
        });
        let answer = Http::connect(address).unwrap().ask("/x", &bearer(Some("t")), Some(b"{}"));
        let request = server.join().unwrap();
        assert!(request.starts_with("POST /x HTTP/1.1\r\n") && request.ends_with("\r\n\r\n{}"), "{request}");
        answer
    }

    #[test]
    fn bodies_of_both_kinds_are_read_and_torn_ones_are_not() {
        let plain = answered(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").unwrap();
        assert_eq!((plain.head.status, plain.body.as_str()), (200, "ok"));
        let chunked =
            b"HTTP/1.1 400 Bad\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\n1;x=y\r\nc\r\n0\r\n\r\n";
        let chunked = answered(chunked).unwrap();
        assert_eq!((chunked.head.status, chunked.body.as_str()), (400, "abc"));
        for torn in [
            &b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\no"[..],
            b"HTTP/1.1 200 OK\r\nContent-Len",
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n",
        ] {
            assert!(answered(torn).is_err());
        }
    }
}
