//! `GET /ws`: the handshake of a WebSocket, and the connection it becomes.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderValue};
use http::{Request, Response, StatusCode, Version};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use link::websocket::{self, Close, Role};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

use super::answer::{self, Answer, Body};
use super::connection::Visit;
use super::phases::{Phase, Timed};
use super::revoked;
use crate::core::request::ConnectionContext;
use crate::faces::rexd;
use crate::net::auth::Caller;
use crate::net::listen::{Counted, counted};
use crate::observe::metrics::Transport;

/// The subprotocol we speak, for clients that ask for one.
const PROTOCOL: &str = "rexd";
/// 16 bytes in base64.
const KEY_LENGTH: usize = 24;

pub(super) fn upgrade<S>(visit: &Arc<Visit>, caller: Caller, mut request: Request<Incoming>) -> Answer
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut response = match switching(request.version(), request.headers()) {
        Ok(response) => response,
        Err(refusal) => return (*refusal).into(),
    };
    let headers = response.headers_mut();
    if has_token(request.headers(), &header::SEC_WEBSOCKET_PROTOCOL, PROTOCOL) {
        headers.insert(header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(PROTOCOL));
    }
    visit.phases.enter(Phase::Busy);
    let (visit, upgraded) = (visit.clone(), hyper::upgrade::on(&mut request));
    visit.server.tasks.clone().spawn(async move {
        let parts = match upgraded.await.map(hyper::upgrade::Upgraded::downcast::<TokioIo<Timed<Counted<S>>>>)
        {
            Ok(Ok(parts)) => parts,
            // It broke in the very moment, or the daemon ends.
            _ => return tracing::debug!("a WebSocket did not come about"),
        };
        serve(&visit, caller, parts.io.into_inner().into_inner().into_inner(), parts.read_buf).await;
    });
    Answer { response, is_stream: true }
}

/// The answer to a handshake, or why it is none.
pub(crate) fn switching(
    version: Version,
    headers: &HeaderMap,
) -> Result<Response<Body>, Box<Response<Body>>> {
    let key = check(version, headers)?;
    let mut response = answer::empty(StatusCode::SWITCHING_PROTOCOLS);
    let headers = response.headers_mut();
    headers.remove(header::CACHE_CONTROL);
    headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(header::SEC_WEBSOCKET_ACCEPT, key);
    Ok(response)
}

/// Whether this is a handshake, and the key that answers it.
fn check(version: Version, headers: &HeaderMap) -> Result<HeaderValue, Box<Response<Body>>> {
    let is_upgrade = version == Version::HTTP_11
        && has_token(headers, &header::CONNECTION, "upgrade")
        && has_token(headers, &header::UPGRADE, "websocket");
    if !is_upgrade {
        let mut refusal = answer::bad(StatusCode::UPGRADE_REQUIRED, "this path takes WebSockets only");
        refusal.headers_mut().insert(header::UPGRADE, HeaderValue::from_static("websocket"));
        return Err(Box::new(refusal));
    }
    if headers.get(header::SEC_WEBSOCKET_VERSION).is_none_or(|version| version != "13") {
        let mut refusal = answer::bad(StatusCode::UPGRADE_REQUIRED, "only version 13 of WebSocket is spoken");
        refusal.headers_mut().insert(header::SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
        return Err(Box::new(refusal));
    }
    let key = headers.get(header::SEC_WEBSOCKET_KEY).map(HeaderValue::as_bytes);
    let key = key.filter(|key| key.len() == KEY_LENGTH).map(derive_accept_key);
    let key = key.and_then(|key| HeaderValue::try_from(key).ok());
    key.ok_or_else(|| {
        let message = "Sec-WebSocket-Key is missing, or not 16 bytes in base64";
        Box::new(answer::bad(StatusCode::BAD_REQUEST, message))
    })
}

fn has_token(headers: &HeaderMap, name: &header::HeaderName, token: &str) -> bool {
    let texts = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    texts.flat_map(|text| text.split(',')).any(|found| found.trim().eq_ignore_ascii_case(token))
}

async fn serve<S>(visit: &Visit, caller: Caller, stream: S, read_already: Bytes)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let server = &visit.server;
    let _counted = server.metrics.connection(Transport::Ws);
    let (link, closer) = websocket::link(
        counted(stream, &server.metrics, Transport::Ws),
        read_already,
        Role::Server,
        &server.websocket,
        &server.limits,
    );
    let stop = server.stop.child_token();
    let arrival = ConnectionContext::new(caller.clone(), Transport::Ws);
    let end = async {
        let why = tokio::select! {
            () = server.stop.cancelled() => Close::new(Close::GOING_AWAY, "the server ends"),
            () = revoked(&server.gate, &caller) => Close::new(Close::REVOKED, "access was revoked"),
        };
        closer.because(why);
        stop.cancel();
        std::future::pending::<()>().await;
    };
    tokio::select! {
        biased;
        () = end => {}
        () = rexd::serve(server.face.clone(), link, arrival, stop.clone()) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(version: Version, key: Option<&'static str>) -> Result<HeaderValue, StatusCode> {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONNECTION, HeaderValue::from_static("keep-alive, Upgrade"));
        headers.insert(header::UPGRADE, HeaderValue::from_static("WebSocket"));
        headers.insert(header::SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
        let key = key.map(HeaderValue::from_static);
        headers.extend(key.map(|key| (header::SEC_WEBSOCKET_KEY, key)));
        check(version, &headers).map_err(|refusal| refusal.status())
    }

    #[test]
    fn a_handshake_is_of_http_1_1_and_has_a_whole_key() {
        let key = Some("AAAAAAAAAAAAAAAAAAAAAA==");
        assert_eq!(status(Version::HTTP_11, key).unwrap(), "ICX+Yqv66kxgM0FcWaLWlFLwTAI=");
        assert_eq!(status(Version::HTTP_10, key), Err(StatusCode::UPGRADE_REQUIRED));
        assert_eq!(status(Version::HTTP_11, Some("x")), Err(StatusCode::BAD_REQUEST));
        assert_eq!(status(Version::HTTP_11, None), Err(StatusCode::BAD_REQUEST));
    }
}
