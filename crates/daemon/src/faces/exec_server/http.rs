//! `http/request`: fetching something for a client, whole or in pieces.

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

/// The longest body that is answered in one piece: as base64 it still fits into a message.
const MOST_BODY: usize = 47 * 1024 * 1024;

/// A body that is longer waits until there is memory for the longest.
const SMALL_BODY: usize = 1024 * 1024;
/// What the longest takes: once as it is, once as text.
pub(super) const LARGE: u64 = 3 * MOST_BODY as u64;

/// Why nothing was fetched.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HttpFailure {
    /// The request makes no sense: `-32602`.
    #[error("{0}")]
    Params(String),
    /// It did not work: `-32603`.
    #[error("{0}")]
    Failed(String),
}

/// The requests of one connection that are not over.
#[derive(Debug, Clone, Default)]
pub struct ActiveRequests(Arc<Mutex<HashSet<String>>>);

/// One that is not over; dropping this makes its id free.
#[derive(Debug)]
struct Active {
    id: String,
    all: ActiveRequests,
}

impl ActiveRequests {
    fn begin(&self, id: &str) -> Result<Active, HttpFailure> {
        let is_new = self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(id.to_owned());
        match is_new {
            true => Ok(Active { id: id.to_owned(), all: self.clone() }),
            false => Err(HttpFailure::Params(format!("requestId `{id}` is in use by another request"))),
        }
    }
}

impl Drop for Active {
    fn drop(&mut self) {
        self.all.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.id);
    }
}

/// The body of an answer that is streamed: to be told once the answer itself is sent.
#[derive(Debug)]
pub struct Streamed {
    answer: DialResponse,
    active: Active,
}

/// Fetches. Headers may take values from `variables`: those that commands inherit, so that nobody has their server send
/// what its operator keeps from them. A long answer waits for `large` before it goes on. What is streamed
/// comes back beside the answer, for [`Streamed::tell`].
pub async fn request(
    params: HttpRequest,
    variables: &[(OsString, OsString)],
    active: &ActiveRequests,
    large: impl Future<Output = ()>,
) -> Result<(HttpResponse, Option<Streamed>), HttpFailure> {
    let is_streamed = params.stream_response;
    let active = active.begin(&params.request_id)?;
    let mut answer = dial::http(converted(params, variables)?).await.map_err(failure)?;
    let headers = answer.headers.iter().map(|(name, value)| HttpHeader {
        name: name.as_str().to_owned(),
        value: String::from_utf8_lossy(value.as_bytes()).into_owned(),
    });
    let mut response = HttpResponse {
        status: answer.status.as_u16(),
        headers: headers.collect(),
        body_base64: ByteChunk::default(),
    };
    if is_streamed {
        return Ok((response, Some(Streamed { answer, active })));
    }
    let mut body = Vec::new();
    let mut large = Some(large);
    while let Some(chunk) = answer.chunk().await.map_err(failure)? {
        body.extend_from_slice(&chunk);
        if body.len() > SMALL_BODY
            && let Some(large) = large.take()
        {
            large.await;
        }
        if body.len() > MOST_BODY {
            let problem =
                format!("the answer has more than {MOST_BODY} bytes: ask for it with streamResponse");
            return Err(HttpFailure::Failed(problem));
        }
    }
    response.body_base64 = body.into();
    Ok((response, None))
}

impl Streamed {
    /// Tells the body in pieces, the last one empty. Ends early when nobody listens any more.
    pub async fn tell(mut self, tell: &Outgoing) {
        let mut seq = 0;
        loop {
            let (delta, done, error) = match self.answer.chunk().await {
                Ok(Some(chunk)) => (chunk, false, None),
                Ok(None) => (Bytes::new(), true, None),
                Err(error) => (Bytes::new(), true, Some(error.to_string())),
            };
            for piece in pieces(delta) {
                seq += 1;
                let delta = HttpBodyDelta {
                    request_id: self.active.id.clone(),
                    seq,
                    delta_base64: ByteChunk(piece),
                    done,
                    error: error.clone(),
                };
                let Ok(message) = envelope::notification(HTTP_BODY_DELTA, &delta) else { return };
                if tell.event(message.into()).await.is_err() {
                    return;
                }
            }
            if done {
                return;
            }
        }
    }
}

/// At least one piece, none too long.
fn pieces(bytes: Bytes) -> Vec<Bytes> {
    let mut rest = BytesMut::from(bytes);
    let mut pieces = Vec::new();
    while rest.len() > MAX_DELTA_BYTES {
        pieces.push(rest.split_to(MAX_DELTA_BYTES).freeze());
    }
    pieces.push(rest.freeze());
    pieces
}

fn converted(params: HttpRequest, variables: &[(OsString, OsString)]) -> Result<Request, HttpFailure> {
    let method = Method::from_bytes(params.method.as_bytes());
    let method = method.map_err(|_| HttpFailure::Params(format!("`{}` is no HTTP method", params.method)))?;
    let mut request = Request::new(method, params.url);
    for header in params.headers {
        let (name, value) = converted_header(header, variables)?;
        request.headers.append(name, value);
    }
    request.body = params.body_base64.unwrap_or_default().into_inner();
    request.timeout = params.timeout_ms.map(Duration::from_millis);
    request.redirects = match params.redirect_policy {
        None | Some(RedirectPolicy::Follow) => Redirects::Follow,
        Some(RedirectPolicy::Stop) => Redirects::Stop,
    };
    forget_own(&mut request.headers);
    let any = HeaderValue::from_static("*/*");
    request.headers.entry(http::header::ACCEPT).or_insert(any);
    Ok(request)
}

/// What the connection itself needs to be right.
fn forget_own(headers: &mut HeaderMap) {
    for name in [http::header::CONTENT_LENGTH, http::header::TRANSFER_ENCODING, http::header::CONNECTION] {
        headers.remove(name);
    }
}

fn converted_header(
    header: HttpRequestHeader,
    variables: &[(OsString, OsString)],
) -> Result<(HeaderName, HeaderValue), HttpFailure> {
    let HttpRequestHeader { name, value, value_env_var } = header;
    let wrong = |problem: String| HttpFailure::Params(format!("header `{name}`: {problem}"));
    let value = match (value, value_env_var) {
        (Some(value), None) => value,
        // What is given comes first: `Bearer ` and a token, say.
        (given, Some(variable)) => {
            let found = variables.iter().find(|(name, _)| name.to_str() == Some(&variable));
            let value = found.and_then(|(_, value)| value.to_str());
            let value = value.map(|value| given.unwrap_or_default() + value);
            let hint = "if it is set there, name it in `keep` below [environment] of its configuration";
            value.ok_or_else(|| wrong(format!("this server has no variable {variable} to give; {hint}")))?
        }
        (None, None) => return Err(wrong("it has neither a value nor a valueEnvVar".to_owned())),
    };
    let known =
        HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong("no header has such a name".to_owned()))?;
    let value = HeaderValue::from_str(&value).map_err(|_| wrong("no header has such a value".to_owned()))?;
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
