//! Answers of the HTTP server: what they have in common, and those that say no.

use std::convert::Infallible;

use bytes::Bytes;
use futures_util::Stream;
use http::header::{self, HeaderValue};
use http::{Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::Frame;
use wire::jsonrpc::{RpcError, error_response};
use wire::rexd::v1::codes;

use crate::net::auth::Refusal;

/// What an answer carries.
pub(crate) type Body = UnsyncBoxBody<Bytes, Infallible>;

/// An answer, and whether its body goes on for as long as somebody listens.
pub(super) struct Answer {
    pub(super) response: Response<Body>,
    pub(super) is_stream: bool,
}

impl From<Response<Body>> for Answer {
    fn from(response: Response<Body>) -> Answer {
        Answer { response, is_stream: false }
    }
}

/// An answer with a body of this type.
pub(super) fn whole(
    status: StatusCode,
    content_type: &'static str,
    body: impl Into<Bytes>,
) -> Response<Body> {
    let mut response = Response::new(Full::new(body.into()).boxed_unsync());
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

pub(super) fn json(status: StatusCode, body: impl Into<Bytes>) -> Response<Body> {
    whole(status, "application/json", body)
}

/// An answer without a body.
pub(super) fn empty(status: StatusCode) -> Response<Body> {
    let mut response = json(status, Bytes::new());
    response.headers_mut().remove(header::CONTENT_TYPE);
    response
}

/// An answer that goes on; the connection is not used for anything after it.
pub(super) fn stream(frames: impl Stream<Item = Bytes> + Send + 'static) -> Response<Body> {
    use futures_util::StreamExt as _;
    let frames = frames.map(|bytes| Ok::<_, Infallible>(Frame::data(bytes)));
    let mut response = Response::new(StreamBody::new(frames).boxed_unsync());
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

/// A refusal with its reason, as the body of every error is: a JSON-RPC error.
pub(super) fn error(status: StatusCode, error: &RpcError) -> Response<Body> {
    let mut response = json(status, error_response(None, error));
    if status == StatusCode::UNAUTHORIZED {
        response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    response
}

pub(super) fn refused(refusal: &Refusal) -> Response<Body> {
    error(refusal.status, &RpcError::new(refusal.code, refusal.message.clone()))
}

/// A refusal of the request itself.
pub(super) fn bad(status: StatusCode, message: impl Into<String>) -> Response<Body> {
    error(status, &RpcError::new(codes::INVALID_REQUEST, message.into()))
}

/// The rest of the request is not looked at: the connection ends with the answer.
pub(super) fn and_close(mut response: Response<Body>) -> Response<Body> {
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

pub(super) fn wrong_method(allow: &'static str) -> Response<Body> {
    let mut response = bad(StatusCode::METHOD_NOT_ALLOWED, format!("this path takes {allow}"));
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allow));
    response
}
