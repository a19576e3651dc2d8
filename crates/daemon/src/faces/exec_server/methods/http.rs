//! `http/request`: an HTTP request on behalf of the client, with the body as a whole or in chunks.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use engine::policy::Environment;
use engine::process::Program;
use http::{HeaderName, HeaderValue, Method};
use link::Outgoing;
use link::dial::{self, DialError, DialResponse, Proxies, Redirects, Request};
use tokio_util::sync::CancellationToken;
use wire::exec_server::http::{
    HTTP_BODY_DELTA, HttpBodyDelta, HttpHeader, HttpRequest, HttpRequestHeader, HttpResponse,
    MAX_DELTA_BYTES, RedirectPolicy,
};
use wire::exec_server::{ByteChunk, envelope};
use wire::jsonrpc::RpcError;

use super::{Context, ExecServerPrepared, PrepareResult};
use crate::core::effects::{CommandEffects, Effects};
use crate::faces::exec_server::errors::rpc_error;
pub use crate::faces::exec_server::session::Reservations;
use crate::faces::exec_server::session::{Reservation, Session};

/// The longest body in one response: as base64 it still fits into a message.
const MAX_BODY: usize = 47 * 1024 * 1024;

/// A longer body waits until there is memory for the longest.
const SMALL_BODY: usize = 1024 * 1024;
/// Memory for the longest body: once as bytes, once as base64.
const LARGE_BODY: u64 = 3 * MAX_BODY as u64;

/// Checks and converts a `http/request` request.
pub(crate) fn prepare(params: &Arc<HttpRequest>, context: &Context<'_>) -> PrepareResult {
    let (policy, state) = (context.session.core.policy.current(), &context.session.state);
    // If commands have no network, the daemon must not be a way around that.
    let confinement = context.session.sandbox.of_session(&policy);
    if confinement.is_some_and(|confinement| confinement.restricts_network()) {
        return Err(RpcError::invalid_request("the operator's sandbox profile has no network"));
    }
    let (active, outgoing) = (state.http.clone(), state.outgoing.clone());
    let memory = context.session.response_memory.clone();
    let effects = effects(params, context.session)?;
    let params = params.clone();
    Ok(ExecServerPrepared::with_effects(effects, move |session, mut pending| {
        let Some(outgoing) = outgoing else { return };
        let cancel = pending.responder.cancel.clone();
        session.spawn(async move {
            let mut reserved = None;
            let large = async {
                reserved = Some(memory.reserve(LARGE_BODY).await?);
                Ok(())
            };
            let options = RequestOptions {
                variables: &policy.environment,
                filter: Some(policy.policy.environment()),
                proxies: Some(&policy.proxies),
            };
            let result = tokio::select! {
                result = request((*params).clone(), options, &active, large) => result,
                // The response has no reader.
                () = cancel.cancelled() => return,
            };
            if let Some(memory) = reserved {
                pending.responder.hold_memory(memory);
            }
            match result {
                Ok((response, body)) => {
                    pending.finish(Ok(response)).await;
                    if let Some(body) = body {
                        cancel.run_until_cancelled(body.send(&outgoing)).await;
                    }
                }
                Err(error) => pending.reject(error).await,
            }
        });
    }))
}

/// The policy and an approver see a request as the command `http-request METHOD URL`, which is in the class `network`.
fn effects(params: &HttpRequest, session: &Session) -> Result<Effects, RpcError> {
    let root = session.roots.paths().first().map_or(Path::new("/"), PathBuf::as_path);
    let cwd = session.roots.admit(Path::new("/"), root).map_err(rpc_error)?;
    let argv = ["http-request", &params.method, &params.url].map(str::to_owned).to_vec();
    Ok(Effects::Command(Box::new(CommandEffects {
        program: Program::Argv(argv),
        cwd,
        env: Vec::new(),
        stdin: params.body_base64.clone().unwrap_or_default().into_inner(),
        has_terminal: false,
        is_detached: false,
    })))
}

/// What the server's environment adds to a request.
#[derive(Debug, Clone, Copy, Default)]
pub struct RequestOptions<'a> {
    /// The variables that headers may use: only those that commands inherit, so that a client cannot have a secret of the
    /// operator sent.
    pub variables: &'a [(OsString, OsString)],
    /// Which variables commands inherit, to explain a missing one.
    pub filter: Option<&'a Environment>,
    /// The proxies of the server.
    pub proxies: Option<&'a Proxies>,
}

/// The body of a streamed response, to be sent after the response itself.
#[derive(Debug)]
pub struct BodyStream {
    response: DialResponse,
    id: Reservation,
}

/// Sends a request. A long body waits for `large` before it is read on. A streamed body is returned beside the response,
/// for [`BodyStream::send`].
pub async fn request(
    params: HttpRequest,
    options: RequestOptions<'_>,
    active: &Reservations,
    large: impl Future<Output = Result<(), RpcError>>,
) -> Result<(HttpResponse, Option<BodyStream>), RpcError> {
    let (is_streamed, id) = (params.stream_response, &params.request_id);
    let in_use = || {
        RpcError::invalid_params(format!("http/request streamResponse requestId `{id}` is already active"))
    };
    // Only a streamed body is identified by the id.
    let id = match is_streamed {
        true => Some(active.reserve(id, CancellationToken::new()).ok_or_else(in_use)?),
        false => None,
    };
    let request = request_from(params, options)?;
    let url = request.url.clone();
    let mut received = dial::http(request).await.map_err(|error| failure(&error, &url))?;
    let headers = received.headers.iter().map(|(name, value)| HttpHeader {
        name: name.as_str().to_owned(),
        value: String::from_utf8_lossy(value.as_bytes()).into_owned(),
    });
    let mut response = HttpResponse {
        status: received.status.as_u16(),
        headers: headers.collect(),
        body_base64: ByteChunk::default(),
    };
    if let Some(id) = id {
        return Ok((response, Some(BodyStream { response: received, id })));
    }
    let mut body = Vec::new();
    let mut large = Some(large);
    while let Some(chunk) = received.chunk().await.map_err(|error| unread(&error))? {
        body.extend_from_slice(&chunk);
        if body.len() > SMALL_BODY
            && let Some(large) = large.take()
        {
            large.await?;
        }
        if body.len() > MAX_BODY {
            let problem =
                format!("the response has more than {MAX_BODY} bytes: request it with streamResponse");
            return Err(RpcError::internal(problem));
        }
    }
    response.body_base64 = body.into();
    Ok((response, None))
}

impl BodyStream {
    /// Sends the body in chunks, the last one empty. Ends early when the connection is closed.
    pub async fn send(mut self, outgoing: &Outgoing) {
        let (mut seq, mut done) = (0, false);
        while !done {
            let chunk = self.response.chunk().await;
            done = !matches!(chunk, Ok(Some(_)));
            let error = chunk.as_ref().err().map(|error| unread(error).message);
            let mut rest = chunk.ok().flatten().unwrap_or_default();
            // At least one notification, none too long.
            loop {
                seq += 1;
                let delta = HttpBodyDelta {
                    request_id: self.id.id.clone(),
                    seq,
                    delta_base64: ByteChunk(rest.split_to(rest.len().min(MAX_DELTA_BYTES))),
                    done,
                    error: error.clone(),
                };
                let Ok(message) = envelope::notification(HTTP_BODY_DELTA, &delta) else { return };
                if outgoing.event(message.into()).await.is_err() {
                    return;
                }
                if rest.is_empty() {
                    break;
                }
            }
        }
    }
}

fn request_from(params: HttpRequest, options: RequestOptions<'_>) -> Result<Request, RpcError> {
    let not_a_method = |error| RpcError::invalid_params(format!("http/request method is invalid: {error}"));
    let method = Method::from_bytes(params.method.as_bytes()).map_err(not_a_method)?;
    let mut request = Request::new(method, params.url);
    for header in params.headers {
        let (name, value) = header_from(header, options)?;
        request.headers.append(name, value);
    }
    request.body = params.body_base64.unwrap_or_default().into_inner();
    request.timeout = params.timeout_ms.map(Duration::from_millis);
    request.proxies = options.proxies.cloned().unwrap_or_default();
    request.redirects = match params.redirect_policy {
        None | Some(RedirectPolicy::Follow) => Redirects::Follow,
        Some(RedirectPolicy::Stop) => Redirects::Stop,
    };
    // These belong to the connection.
    for name in [http::header::CONTENT_LENGTH, http::header::TRANSFER_ENCODING, http::header::CONNECTION] {
        request.headers.remove(name);
    }
    let any = HeaderValue::from_static("*/*");
    request.headers.entry(http::header::ACCEPT).or_insert(any);
    Ok(request)
}

fn header_from(
    header: HttpRequestHeader,
    options: RequestOptions<'_>,
) -> Result<(HeaderName, HeaderValue), RpcError> {
    let HttpRequestHeader { name, mut value, value_env_var } = header;
    let header = HeaderName::from_bytes(name.as_bytes())
        .map_err(|error| RpcError::invalid_params(format!("http/request header name is invalid: {error}")))?;
    let is_from_variable = value_env_var.is_some();
    if let Some(variable) = value_env_var {
        let found = options.variables.iter().find(|(name, _)| name.to_str() == Some(&variable));
        let found = found.and_then(|(_, value)| value.to_str());
        // The given value is a prefix, such as `Bearer `.
        value += found.ok_or_else(|| missing_variable(&name, &variable, options.filter))?;
    }
    let mut value = HeaderValue::from_str(&value).map_err(|error| {
        RpcError::invalid_params(format!("http/request header value is invalid for {name}: {error}"))
    })?;
    // A redirect to another host must not receive it.
    value.set_sensitive(is_from_variable);
    Ok((header, value))
}

/// A variable that is not there, or that commands do not get. Clients may only show that a tool is missing, so it is logged
/// as well.
fn missing_variable(header: &str, variable: &str, filter: Option<&Environment>) -> RpcError {
    let mut message =
        format!("http/request header {header} requires executor environment variable {variable}");
    if filter.is_some_and(|filter| !filter.inherits(variable)) {
        message += ", which is withheld from commands; hint: add it to `keep` below [environment] in the \
                    configuration of the server";
    }
    tracing::warn!("{message}");
    RpcError::invalid_params(message)
}

fn failure(error: &DialError, url: &str) -> RpcError {
    let shown = url.split(['?', '#']).next().unwrap_or_default();
    match error {
        DialError::Url { problem, .. } => RpcError::invalid_params(match url.split_once(':') {
            Some((scheme, _))
                if !["http", "https"].iter().any(|known| scheme.eq_ignore_ascii_case(known)) =>
            {
                format!("http/request only supports http and https URLs, got {scheme}")
            }
            Some(_) => format!("http/request url is invalid: {problem}"),
            None => "http/request url is invalid: relative URL without a base".to_owned(),
        }),
        DialError::Header(problem) => RpcError::invalid_params(format!("http/request failed: {problem}")),
        DialError::Late(_) => RpcError::internal(format!("http/request failed: {error}")),
        DialError::Reach { .. }
        | DialError::Tls { .. }
        | DialError::Refused { .. }
        | DialError::Broken(_) => {
            let message = format!("http/request failed: error sending request for url ({shown}): {error}");
            RpcError::internal(message)
        }
    }
}

fn unread(error: &DialError) -> RpcError {
    RpcError::internal(format!("failed to read http/request response body: {error}"))
}
