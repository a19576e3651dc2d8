//! The handshake of a WebSocket, and the stream a request becomes.

use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{StatusCode, Version};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

use crate::refusal::Refusal;

/// 16 bytes in base64.
const KEY_LENGTH: usize = 24;

/// What a request becomes.
pub(crate) type Stream = TokioIo<Upgraded>;

/// A request that wants to be a WebSocket.
#[derive(Debug)]
pub(crate) struct Handshake {
    key: HeaderValue,
    upgrade: OnUpgrade,
}

impl Handshake {
    /// Reads it from a request.
    pub(crate) fn of(request: &mut Request) -> Result<Handshake, Refusal> {
        let key = check(request.version(), request.headers())?;
        Ok(Handshake { key, upgrade: hyper::upgrade::on(request) })
    }

    /// The answer that agrees, and the stream that comes of it; none if it takes longer than that.
    pub(crate) fn accept(
        self,
        patience: Duration,
    ) -> (Response, impl Future<Output = Option<Stream>> + Send + 'static) {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        let headers = response.headers_mut();
        headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
        headers.insert(header::SEC_WEBSOCKET_ACCEPT, self.key);
        let stream = async move {
            let upgraded = tokio::time::timeout(patience, self.upgrade).await;
            upgraded.ok().and_then(Result::ok).map(TokioIo::new)
        };
        (response, stream)
    }
}

/// Whether this is a handshake, and the key that answers it.
fn check(version: Version, headers: &HeaderMap) -> Result<HeaderValue, Refusal> {
    let refused = |message| Refusal::new(StatusCode::UPGRADE_REQUIRED, "websocket_only", message);
    let is_upgrade = version == Version::HTTP_11
        && has_token(headers, &header::CONNECTION, "upgrade")
        && has_token(headers, &header::UPGRADE, "websocket");
    if !is_upgrade {
        return Err(refused("this path takes WebSockets only"));
    }
    if headers.get(header::SEC_WEBSOCKET_VERSION).is_none_or(|version| version != "13") {
        return Err(refused("only version 13 of WebSocket is spoken"));
    }
    let key = headers.get(header::SEC_WEBSOCKET_KEY).map(HeaderValue::as_bytes);
    let key = key.filter(|key| key.len() == KEY_LENGTH).map(derive_accept_key);
    key.and_then(|key| HeaderValue::try_from(key).ok()).ok_or_else(|| {
        Refusal::bad("bad_handshake", "Sec-WebSocket-Key is missing, or not 16 bytes in base64")
    })
}

fn has_token(headers: &HeaderMap, name: &HeaderName, token: &str) -> bool {
    let texts = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    texts.flat_map(|text| text.split(',')).any(|found| found.trim().eq_ignore_ascii_case(token))
}
