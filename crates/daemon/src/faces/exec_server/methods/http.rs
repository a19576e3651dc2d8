//! `http/request`: an HTTP request on behalf of the client, with the body as a whole or in chunks.

use std::collections::HashSet;
use std::ffi::OsString;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use link::Outgoing;
use link::dial::{self, DialError, DialResponse, Redirects, Request};
use wire::exec_server::http::{
    HTTP_BODY_DELTA, HttpBodyDelta, HttpHeader, HttpRequest, HttpRequestHeader, HttpResponse,
    MAX_DELTA_BYTES, RedirectPolicy,
};
use wire::exec_server::{ByteChunk, envelope};
use wire::jsonrpc::RpcError;

use super::{ExecServerPrepared, PrepareResult};
use crate::core::request::RequestContext;
use crate::faces::exec_server::session::Session;

/// The longest body in one response: as base64 it still fits into a message.
const MAX_BODY: usize = 47 * 1024 * 1024;

/// A longer body waits until there is memory for the longest.
const SMALL_BODY: usize = 1024 * 1024;
/// Memory for the longest body: once as bytes, once as base64.
const LARGE_BODY: u64 = 3 * MAX_BODY as u64;

/// Checks and converts a `http/request` request.
pub(crate) fn prepare(params: &Arc<HttpRequest>, session: &Session, _: &RequestContext) -> PrepareResult {
    let policy = session.core.policy.current();
    // If commands have no network, the daemon must not be a way around that.
    if session.sandbox.of_session(&policy).is_some_and(|confinement| confinement.restricts_network()) {
        return Err(RpcError::invalid_request("the operator's sandbox profile has no network"));
    }
    let params = params.clone();
    Ok(ExecServerPrepared::new(move |session, mut pending| {
        let (active, memory) = (session.state.http.clone(), session.state.response_memory());
        let Some(outgoing) = session.state.outgoing.clone() else { return };
        let cancel = pending.responder.cancel.clone();
        session.spawn(async move {
            let mut permit = None;
            let large = async { permit = memory.reserve(LARGE_BODY).await };
            let result = tokio::select! {
                result = request((*params).clone(), &policy.environment, &active, large) => result,
                // The response has no reader.
                () = cancel.cancelled() => return,
            };
            permit.into_iter().for_each(|permit| pending.responder.hold(permit));
            match result {
                Ok((response, body)) => {
                    pending.finish(Ok(response)).await;
                    if let Some(body) = body {
                        tokio::select! {
                            () = body.send(&outgoing) => {}
                            () = cancel.cancelled() => {}
                        }
                    }
                }
                Err(HttpFailure::Params(message)) => {
                    pending.finish(Err::<(), _>(RpcError::invalid_params(message))).await;
                }
                Err(HttpFailure::Failed(message)) => {
                    pending.finish(Err::<(), _>(RpcError::internal(message))).await;
                }
            }
        });
    }))
}

/// Why a request failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HttpFailure {
    /// The parameters are invalid: `-32602`.
    #[error("{0}")]
    Params(String),
    /// The request failed: `-32603`.
    #[error("{0}")]
    Failed(String),
}

/// The running requests of one connection.
#[derive(Debug, Clone, Default)]
pub struct ActiveRequests(Arc<Mutex<HashSet<String>>>);

/// A running request; dropping this frees its id.
#[derive(Debug)]
struct ActiveRequest {
    id: String,
    all: ActiveRequests,
}

impl ActiveRequests {
    fn begin(&self, id: &str) -> Result<ActiveRequest, HttpFailure> {
        let is_new = self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(id.to_owned());
        match is_new {
            true => Ok(ActiveRequest { id: id.to_owned(), all: self.clone() }),
            false => Err(HttpFailure::Params(format!("requestId `{id}` is in use by another request"))),
        }
    }
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        self.all.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.id);
    }
}

/// The body of a streamed response, to be sent after the response itself.
#[derive(Debug)]
pub struct BodyStream {
    response: DialResponse,
    active: ActiveRequest,
}

/// Sends a request. Headers may take values from `variables`: only those that commands inherit, so that a client cannot
/// have a secret of the operator sent. A long body waits for `large` before it is read on. A streamed body is returned
/// beside the response, for [`BodyStream::send`].
pub async fn request(
    params: HttpRequest,
    variables: &[(OsString, OsString)],
    active: &ActiveRequests,
    large: impl Future<Output = ()>,
) -> Result<(HttpResponse, Option<BodyStream>), HttpFailure> {
    let is_streamed = params.stream_response;
    let active = active.begin(&params.request_id)?;
    let mut received = dial::http(request_from(params, variables)?).await.map_err(failure)?;
    let headers = received.headers.iter().map(|(name, value)| HttpHeader {
        name: name.as_str().to_owned(),
        value: String::from_utf8_lossy(value.as_bytes()).into_owned(),
    });
    let mut response = HttpResponse {
        status: received.status.as_u16(),
        headers: headers.collect(),
        body_base64: ByteChunk::default(),
    };
    if is_streamed {
        return Ok((response, Some(BodyStream { response: received, active })));
    }
    let mut body = Vec::new();
    let mut large = Some(large);
    while let Some(chunk) = received.chunk().await.map_err(failure)? {
        body.extend_from_slice(&chunk);
        if body.len() > SMALL_BODY
            && let Some(large) = large.take()
        {
            large.await;
        }
        if body.len() > MAX_BODY {
            let problem =
                format!("the response has more than {MAX_BODY} bytes: request it with streamResponse");
            return Err(HttpFailure::Failed(problem));
        }
    }
    response.body_base64 = body.into();
    Ok((response, None))
}

impl BodyStream {
    /// Sends the body in chunks, the last one empty. Ends early when the connection is closed.
    pub async fn send(mut self, outgoing: &Outgoing) {
        let mut seq = 0;
        loop {
            let (delta, done, error) = match self.response.chunk().await {
                Ok(Some(chunk)) => (chunk, false, None),
                Ok(None) => (Bytes::new(), true, None),
                Err(error) => (Bytes::new(), true, Some(error.to_string())),
            };
            for chunk in split(delta) {
                seq += 1;
                let delta = HttpBodyDelta {
                    request_id: self.active.id.clone(),
                    seq,
                    delta_base64: ByteChunk(chunk),
                    done,
                    error: error.clone(),
                };
                let Ok(message) = envelope::notification(HTTP_BODY_DELTA, &delta) else { return };
                if outgoing.event(message.into()).await.is_err() {
                    return;
                }
            }
            if done {
                return;
            }
        }
    }
}

/// At least one chunk, none too long.
fn split(bytes: Bytes) -> Vec<Bytes> {
    let mut rest = BytesMut::from(bytes);
    let mut chunks = Vec::new();
    while rest.len() > MAX_DELTA_BYTES {
        chunks.push(rest.split_to(MAX_DELTA_BYTES).freeze());
    }
    chunks.push(rest.freeze());
    chunks
}

fn request_from(params: HttpRequest, variables: &[(OsString, OsString)]) -> Result<Request, HttpFailure> {
    let method = Method::from_bytes(params.method.as_bytes());
    let method =
        method.map_err(|_| HttpFailure::Params(format!("`{}` is not an HTTP method", params.method)))?;
    let mut request = Request::new(method, params.url);
    for header in params.headers {
        let (name, value) = header_from(header, variables)?;
        request.headers.append(name, value);
    }
    request.body = params.body_base64.unwrap_or_default().into_inner();
    request.timeout = params.timeout_ms.map(Duration::from_millis);
    request.redirects = match params.redirect_policy {
        None | Some(RedirectPolicy::Follow) => Redirects::Follow,
        Some(RedirectPolicy::Stop) => Redirects::Stop,
    };
    remove_connection_headers(&mut request.headers);
    let any = HeaderValue::from_static("*/*");
    request.headers.entry(http::header::ACCEPT).or_insert(any);
    Ok(request)
}

/// Removes headers that belong to the connection.
fn remove_connection_headers(headers: &mut HeaderMap) {
    for name in [http::header::CONTENT_LENGTH, http::header::TRANSFER_ENCODING, http::header::CONNECTION] {
        headers.remove(name);
    }
}

fn header_from(
    header: HttpRequestHeader,
    variables: &[(OsString, OsString)],
) -> Result<(HeaderName, HeaderValue), HttpFailure> {
    let HttpRequestHeader { name, value, value_env_var } = header;
    let wrong = |problem: String| HttpFailure::Params(format!("header `{name}`: {problem}"));
    let value = match (value, value_env_var) {
        (Some(value), None) => value,
        // The given value is a prefix, such as `Bearer `.
        (given, Some(variable)) => {
            let found = variables.iter().find(|(name, _)| name.to_str() == Some(&variable));
            let value = found.and_then(|(_, value)| value.to_str());
            let value = value.map(|value| given.unwrap_or_default() + value);
            let hint = "add it to `keep` below [environment] in the configuration of the server";
            value.ok_or_else(|| wrong(format!("the server has no variable {variable}; hint: {hint}")))?
        }
        (None, None) => return Err(wrong("neither value nor valueEnvVar is set".to_owned())),
    };
    let known =
        HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong("invalid header name".to_owned()))?;
    let value = HeaderValue::from_str(&value).map_err(|_| wrong("invalid header value".to_owned()))?;
    Ok((known, value))
}

fn failure(error: DialError) -> HttpFailure {
    match error {
        DialError::Url { .. } | DialError::Header(_) => HttpFailure::Params(error.to_string()),
        DialError::Reach { .. }
        | DialError::Tls { .. }
        | DialError::Refused { .. }
        | DialError::Broken(_)
        | DialError::Late(_) => HttpFailure::Failed(error.to_string()),
    }
}
