//! The WebSocket handshake: the check of a request, its response, and the stream that follows.

use std::fmt;

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Request, Response, StatusCode, Version};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tungstenite::handshake::derive_accept_key;

use super::connection::BoxedStream;
use super::deadlines::DeadlineStream;

/// The length of 16 bytes in base64.
const KEY_LENGTH: usize = 24;

/// Why a request is no WebSocket handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HandshakeError {
    /// The headers do not ask for an upgrade over HTTP/1.1.
    #[error("this path accepts WebSocket connections only")]
    NotAnUpgrade,
    /// Another version of the protocol.
    #[error("unsupported Sec-WebSocket-Version; expected 13")]
    Version,
    /// No usable `Sec-WebSocket-Key`.
    #[error("invalid Sec-WebSocket-Key: expected 16 bytes in base64")]
    Key,
}

impl HandshakeError {
    /// The status of the response.
    pub fn status(self) -> StatusCode {
        match self {
            HandshakeError::NotAnUpgrade | HandshakeError::Version => StatusCode::UPGRADE_REQUIRED,
            HandshakeError::Key => StatusCode::BAD_REQUEST,
        }
    }

    /// The header that names what the server supports.
    pub fn header(self) -> Option<(HeaderName, HeaderValue)> {
        match self {
            HandshakeError::NotAnUpgrade => Some((header::UPGRADE, HeaderValue::from_static("websocket"))),
            HandshakeError::Version => Some((header::SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"))),
            HandshakeError::Key => None,
        }
    }
}

/// A request that is a valid handshake.
#[derive(Debug)]
pub struct WebSocketHandshake {
    key: HeaderValue,
    upgrade: OnUpgrade,
}

/// A connection after its handshake, without HTTP deadlines.
pub struct UpgradedStream {
    /// The byte stream.
    pub stream: BoxedStream,
    /// Bytes that arrived behind the request.
    pub read_already: Bytes,
}

impl fmt::Debug for UpgradedStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UpgradedStream").finish_non_exhaustive()
    }
}

impl WebSocketHandshake {
    /// Checks the headers of a request and takes its upgrade.
    pub fn from_request<B>(request: &mut Request<B>) -> Result<WebSocketHandshake, HandshakeError> {
        let key = check(request.version(), request.headers())?;
        Ok(WebSocketHandshake { key, upgrade: hyper::upgrade::on(request) })
    }

    /// The response, with an empty body, and the stream that the connection becomes after it is sent. The future returns
    /// `None` when the connection ends first; give it a task of its own.
    pub fn accept<B: Default>(
        self,
    ) -> (Response<B>, impl Future<Output = Option<UpgradedStream>> + Send + 'static) {
        let mut response = Response::new(B::default());
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        let headers = response.headers_mut();
        headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
        headers.insert(header::SEC_WEBSOCKET_ACCEPT, self.key);
        (response, upgraded(self.upgrade))
    }
}

async fn upgraded(upgrade: OnUpgrade) -> Option<UpgradedStream> {
    match upgrade.await.map(Upgraded::downcast::<TokioIo<DeadlineStream>>) {
        Ok(Ok(parts)) => {
            let stream = parts.io.into_inner().into_inner();
            Some(UpgradedStream { stream, read_already: parts.read_buf })
        }
        // The connection failed in this moment, or the server stops.
        Ok(Err(_)) | Err(_) => {
            tracing::debug!("a WebSocket connection ended during its handshake");
            None
        }
    }
}

/// True if a comma-separated header contains `token`, in any case.
pub fn has_token(headers: &HeaderMap, name: &HeaderName, token: &str) -> bool {
    let texts = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    texts.flat_map(|text| text.split(',')).any(|found| found.trim().eq_ignore_ascii_case(token))
}

fn check(version: Version, headers: &HeaderMap) -> Result<HeaderValue, HandshakeError> {
    let is_upgrade = version == Version::HTTP_11
        && has_token(headers, &header::CONNECTION, "upgrade")
        && has_token(headers, &header::UPGRADE, "websocket");
    if !is_upgrade {
        return Err(HandshakeError::NotAnUpgrade);
    }
    if headers.get(header::SEC_WEBSOCKET_VERSION).is_none_or(|version| version != "13") {
        return Err(HandshakeError::Version);
    }
    let key = headers.get(header::SEC_WEBSOCKET_KEY).map(HeaderValue::as_bytes);
    let key = key.filter(|key| key.len() == KEY_LENGTH).map(derive_accept_key);
    key.and_then(|key| HeaderValue::try_from(key).ok()).ok_or(HandshakeError::Key)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(version: Version, key: Option<&'static str>) -> Result<HeaderValue, HandshakeError> {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONNECTION, HeaderValue::from_static("keep-alive, Upgrade"));
        headers.insert(header::UPGRADE, HeaderValue::from_static("WebSocket"));
        headers.insert(header::SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
        let key = key.map(HeaderValue::from_static);
        headers.extend(key.map(|key| (header::SEC_WEBSOCKET_KEY, key)));
        check(version, &headers)
    }

    #[test]
    fn a_handshake_needs_http_1_1_and_a_whole_key() {
        let key = Some("AAAAAAAAAAAAAAAAAAAAAA==");
        assert_eq!(checked(Version::HTTP_11, key).unwrap(), "ICX+Yqv66kxgM0FcWaLWlFLwTAI=");
        assert_eq!(checked(Version::HTTP_10, key), Err(HandshakeError::NotAnUpgrade));
        assert_eq!(checked(Version::HTTP_11, Some("x")), Err(HandshakeError::Key));
        assert_eq!(checked(Version::HTTP_11, None), Err(HandshakeError::Key));
    }
}
