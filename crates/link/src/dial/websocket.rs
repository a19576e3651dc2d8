//! A WebSocket to a server: the handshake, and the error if it is rejected.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, StatusCode};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::timeout;
use tungstenite::handshake::client::generate_key;
use tungstenite::handshake::derive_accept_key;

use super::endpoint::Endpoint;
use super::{DialError, Duplex, Tls};
use crate::websocket::{Closer, Role, Settings};
use crate::{Limits, Link};

/// The limit on the head of a response.
const MAX_HEAD_BYTES: usize = 64 * 1024;
/// The limit on headers of a response.
const MAX_HEADERS: usize = 128;
/// The bytes of an error body that are shown.
const MAX_BODY_BYTES: usize = 200;
/// The time to wait for the rest of an error body.
const BODY_TIMEOUT: Duration = Duration::from_secs(2);

/// An open WebSocket before its first message.
pub struct Socket {
    stream: Box<dyn Duplex>,
    /// Bytes of the server after its response.
    read_already: Bytes,
}

impl std::fmt::Debug for Socket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Socket")
    }
}

impl Socket {
    /// A link whose messages are JSON. Must be called within a tokio runtime.
    pub fn json(self, settings: &Settings, limits: &Limits) -> (Link, Closer) {
        crate::websocket::link(self.stream, self.read_already, Role::Client, settings, limits)
    }

    /// A link whose messages are any bytes. Must be called within a tokio runtime.
    pub fn binary(self, settings: &Settings, limits: &Limits) -> (Link, Closer) {
        crate::websocket::binary(self.stream, self.read_already, Role::Client, settings, limits)
    }

    /// A link whose messages are any bytes, of text frames too. Must be called within a tokio runtime.
    pub fn mixed(self, settings: &Settings, limits: &Limits) -> (Link, Closer) {
        crate::websocket::mixed(self.stream, self.read_already, Role::Client, settings, limits)
    }
}

/// Opens a WebSocket at a `ws://` or `wss://` URL. Has no deadline of its own.
pub async fn websocket(url: &str, headers: &HeaderMap, tls: &Tls) -> Result<Socket, DialError> {
    let endpoint = Endpoint::parse(url, ("ws", "wss"))?;
    let mut stream = endpoint.connect(tls).await?;
    let key = generate_key();
    let broken = |error: std::io::Error| DialError::Broken(format!("the handshake failed: {error}"));
    stream.write_all(&request(&endpoint, headers, &key)).await.map_err(broken)?;
    stream.flush().await.map_err(broken)?;
    let mut read = BytesMut::new();
    loop {
        if let Some((head, answer)) = parse(&read)? {
            let rest = read.split_off(head);
            return accept(answer, &key, stream, rest).await;
        }
        let count = stream.read_buf(&mut read).await.map_err(broken)?;
        if count == 0 {
            return Err(DialError::Broken(
                "the server closed the connection during the handshake".to_owned(),
            ));
        }
        if read.len() > MAX_HEAD_BYTES {
            return Err(DialError::Broken("the server's response to the handshake is too long".to_owned()));
        }
    }
}

fn request(endpoint: &Endpoint, headers: &HeaderMap, key: &str) -> Vec<u8> {
    let mut request = format!(
        "GET {} HTTP/1.1\r\nHost: {}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n",
        endpoint.path, endpoint.authority
    )
    .into_bytes();
    for (name, value) in headers {
        request.extend_from_slice(name.as_str().as_bytes());
        request.extend_from_slice(b": ");
        request.extend_from_slice(value.as_bytes());
        request.extend_from_slice(b"\r\n");
    }
    request.extend_from_slice(b"\r\n");
    request
}

struct Head {
    status: StatusCode,
    accept: Option<HeaderValue>,
}

/// The status in the head of a response.
pub(super) fn status(head: &[u8]) -> Result<Option<StatusCode>, DialError> {
    Ok(parse(head)?.map(|(_, head)| head.status))
}

/// The head of a response and its length, once it is complete.
fn parse(read: &[u8]) -> Result<Option<(usize, Head)>, DialError> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut answer = httparse::Response::new(&mut headers);
    let invalid =
        |why: &dyn std::fmt::Display| DialError::Broken(format!("the server does not speak HTTP: {why}"));
    let length = match answer.parse(read).map_err(|error| invalid(&error))? {
        httparse::Status::Partial => return Ok(None),
        httparse::Status::Complete(length) => length,
    };
    let status = StatusCode::from_u16(answer.code.unwrap_or_default()).map_err(|error| invalid(&error))?;
    let accept =
        answer.headers.iter().find(|header| header.name.eq_ignore_ascii_case("sec-websocket-accept"));
    let accept = accept.and_then(|header| HeaderValue::from_bytes(header.value).ok());
    Ok(Some((length, Head { status, accept })))
}

async fn accept(
    head: Head,
    key: &str,
    mut stream: Box<dyn Duplex>,
    mut rest: BytesMut,
) -> Result<Socket, DialError> {
    if head.status != StatusCode::SWITCHING_PROTOCOLS {
        while rest.len() < MAX_BODY_BYTES
            && matches!(timeout(BODY_TIMEOUT, stream.read_buf(&mut rest)).await, Ok(Ok(1..)))
        {}
        let body = String::from_utf8_lossy(&rest).trim().chars().take(MAX_BODY_BYTES).collect();
        return Err(DialError::Refused { status: head.status, body });
    }
    let expected = derive_accept_key(key.as_bytes());
    match head.accept.is_some_and(|accept| accept.as_bytes() == expected.as_bytes()) {
        true => Ok(Socket { stream, read_already: rest.freeze() }),
        false => Err(DialError::Broken("the server's response belongs to another handshake".to_owned())),
    }
}
