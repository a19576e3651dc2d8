//! Responses of the HTTP front end: common headers, and errors.

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

use crate::net::auth::AuthRejection;

/// The body of a response: whole or a stream.
pub(super) type ResponseBody = UnsyncBoxBody<Bytes, Infallible>;

/// A response with a body of this type.
pub(super) fn whole(
    status: StatusCode,
    content_type: &'static str,
    body: impl Into<Bytes>,
) -> Response<ResponseBody> {
    let mut response = Response::new(Full::new(body.into()).boxed_unsync());
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

pub(super) fn json(status: StatusCode, body: impl Into<Bytes>) -> Response<ResponseBody> {
    whole(status, "application/json", body)
}

/// A response without a body.
pub(super) fn empty(status: StatusCode) -> Response<ResponseBody> {
    let mut response = json(status, Bytes::new());
    response.headers_mut().remove(header::CONTENT_TYPE);
    response
}

/// A response that is a stream of events; the connection closes after it.
pub(super) fn stream(frames: impl Stream<Item = Bytes> + Send + 'static) -> Response<ResponseBody> {
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

/// An error response, whose body is a JSON-RPC error.
pub(super) fn error(status: StatusCode, error: &RpcError) -> Response<ResponseBody> {
    let mut response = json(status, error_response(None, error));
    if status == StatusCode::UNAUTHORIZED {
        response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    response
}

pub(super) fn rejected(rejection: &AuthRejection) -> Response<ResponseBody> {
    error(rejection.status, &RpcError::new(rejection.code, rejection.message.clone()))
}

/// An error response for an invalid request.
pub(super) fn bad(status: StatusCode, message: impl Into<String>) -> Response<ResponseBody> {
    error(status, &RpcError::new(codes::INVALID_REQUEST, message.into()))
}

/// Closes the connection after the response, without reading the rest of the request.
pub(super) fn and_close(mut response: Response<ResponseBody>) -> Response<ResponseBody> {
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

pub(super) fn wrong_method(allow: &'static str) -> Response<ResponseBody> {
    let mut response = bad(StatusCode::METHOD_NOT_ALLOWED, format!("this path accepts {allow}"));
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allow));
    response
}
