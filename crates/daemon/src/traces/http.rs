//! HTTP: one POST to a collector over a connection of its own. Nothing more of HTTP is needed here.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::settings::SettingsError;

/// The most that is read of an answer; a collector has no reason to say more.
const MAX_ANSWER: usize = 64 * 1024;

/// Where spans are posted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// What to resolve.
    host: String,
    port: u16,
    /// Host and port as they were written, for the `Host` header.
    authority: String,
    path: String,
}

/// What a collector answered.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) status: u16,
    /// How long it asks to be left alone.
    pub(super) retry_after: Option<Duration>,
    pub(super) body: Vec<u8>,
}

impl Endpoint {
    /// Reads an `http://` URL.
    pub fn parse(url: &str) -> Result<Endpoint, SettingsError> {
        let wrong = || SettingsError::Endpoint(url.to_owned());
        let scheme = url.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase());
        match scheme.as_deref() {
            Some("http") => {}
            Some("https") => return Err(SettingsError::Https(url.to_owned())),
            _ => return Err(wrong()),
        }
        let (_, rest) = url.split_once("://").ok_or_else(wrong)?;
        let (authority, path) = match rest.split_once('/') {
            Some((authority, path)) => (authority, format!("/{path}")),
            None => (rest, "/".to_owned()),
        };
        let is_plain = |text: &str| text.bytes().all(|byte| matches!(byte, b'!'..=b'~'));
        if !is_plain(authority)
            || !is_plain(&path)
            || authority.contains(['@', '?', '#'])
            || path.contains('#')
        {
            return Err(wrong());
        }
        let (host, port) = host_and_port(authority).ok_or_else(wrong)?;
        Ok(Endpoint { host: host.to_owned(), port, authority: authority.to_owned(), path })
    }

    /// Posts JSON and reads the answer. The caller bounds the time.
    pub(super) async fn post(&self, headers: &[(String, String)], body: &[u8]) -> io::Result<Answer> {
        let mut stream = TcpStream::connect((self.host.as_str(), self.port)).await?;
        let mut head = format!(
            "POST {} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
             User-Agent: rexd/{}\r\nConnection: close\r\n",
            self.path,
            self.authority,
            body.len(),
            env!("CARGO_PKG_VERSION"),
        );
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str("\r\n");
        stream.write_all(head.as_bytes()).await?;
        stream.write_all(body).await?;
        stream.flush().await?;
        read_answer(&mut stream).await
    }
}

/// A host in brackets is an IPv6 address, whose colons are its own.
fn host_and_port(authority: &str) -> Option<(&str, u16)> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, after) = rest.split_once(']')?;
            (host, if after.is_empty() { None } else { Some(after.strip_prefix(':')?) })
        }
        None => match authority.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        },
    };
    let port = port.map_or(Some(80), |port| port.parse().ok().filter(|port| *port > 0))?;
    (!host.is_empty()).then_some((host, port))
}

/// Reads until the answer is whole: its length is reached, or the collector closes.
async fn read_answer(stream: &mut TcpStream) -> io::Result<Answer> {
    let mut bytes = Vec::new();
    loop {
        let came = stream.read_buf(&mut bytes).await?;
        let answer = answer(&bytes);
        match answer {
            Some((answer, is_whole)) if is_whole || came == 0 || bytes.len() >= MAX_ANSWER => {
                return Ok(answer);
            }
            _ if came == 0 || bytes.len() >= MAX_ANSWER => return Err(io::ErrorKind::InvalidData.into()),
            _ => {}
        }
    }
}

/// The answer so far and whether all of it is here, once its head is.
fn answer(bytes: &[u8]) -> Option<(Answer, bool)> {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = std::str::from_utf8(bytes.get(..end)?).ok()?;
    let mut first = head.split("\r\n").next()?.splitn(3, ' ');
    let status = first.next().filter(|version| version.starts_with("HTTP/1.")).and(first.next())?;
    let status = status.parse().ok().filter(|status| (100..600).contains(status))?;
    let body = bytes.get(end + 4..)?;
    let header = |name: &str| {
        let mut headers = head.split("\r\n").skip(1).filter_map(|line| line.split_once(':'));
        headers.find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
    };
    let length: Option<usize> = header("content-length").and_then(|length| length.parse().ok());
    let retry_after = header("retry-after").and_then(|wait| wait.parse().ok()).map(Duration::from_secs);
    let is_whole = status == 204 || length.is_some_and(|length| body.len() >= length);
    Some((Answer { status, retry_after, body: body.to_vec() }, is_whole))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_plain_http() {
        let parsed = |url: &str| Endpoint::parse(url).map(|it| (it.host, it.port, it.authority, it.path));
        let of = |host: &str, port, authority: &str, path: &str| {
            Ok((host.to_owned(), port, authority.to_owned(), path.to_owned()))
        };
        assert_eq!(parsed("http://a:4318/v1/traces"), of("a", 4318, "a:4318", "/v1/traces"));
        assert_eq!(parsed("HTTP://a"), of("a", 80, "a", "/"));
        assert_eq!(parsed("http://[::1]:1/x?y=z"), of("::1", 1, "[::1]:1", "/x?y=z"));
        let error = Endpoint::parse("https://a/v1/traces").unwrap_err();
        assert!(error.to_string().contains("a collector on this machine"), "{error}");
        for url in [
            "",
            "a:1",
            "ftp://a",
            "http://",
            "http://:1",
            "http://a:0",
            "http://a:x",
            "http://u@a",
            "http://a b",
        ]
        .into_iter()
        .chain([
            "http://a/\r\nX: y",
            "http://a/#x",
            "http://[::1",
            "http://[::1]x",
            "http://a:70000",
        ]) {
            assert_eq!(Endpoint::parse(url), Err(SettingsError::Endpoint(url.to_owned())), "{url}");
        }
    }

    #[test]
    fn answers_are_read_as_far_as_they_matter() {
        let whole = b"HTTP/1.1 503 Busy\r\nretry-after: 7\r\nContent-Length: 2\r\n\r\n{}";
        let (answer, is_whole) = super::answer(whole).unwrap();
        assert!(is_whole);
        let retry_after = Some(Duration::from_secs(7));
        assert_eq!(answer, Answer { status: 503, retry_after, body: b"{}".to_vec() });
        assert!(!super::answer(&whole[..whole.len() - 1]).unwrap().1);
        for bytes in
            [&b"HTTP/1.1 200 OK\r\n"[..], b"SSH-2.0\r\n\r\n", b"HTTP/1.1 2000 x\r\n\r\n", b"\xff\r\n\r\n"]
        {
            assert_eq!(super::answer(bytes), None);
        }
    }
}
