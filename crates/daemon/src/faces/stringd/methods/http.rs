//! `http.request`: a document or an action on a web server.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ::http::{HeaderName, HeaderValue, Method, header};
use bytes::Bytes;
use engine::process::Program;
use link::dial::{self, Redirects, Request};
use wire::jsonrpc::RpcError;

use super::params::{HttpCall, HttpReply};
use super::{StringdContext, StringdPrepareResult};
use crate::core::effects::{CommandEffects, Effects};
use crate::core::table::Prepared;
use crate::faces::stringd::errors::rpc_error;

/// The longest body of a reply; a longer one is refused.
const MAX_REPLY_BYTES: usize = 16 * 1024 * 1024;

/// Checks and converts the request. The policy sees it as the command `http-request METHOD URL`.
pub(crate) fn request(params: &Arc<HttpCall>, context: &StringdContext<'_>) -> StringdPrepareResult {
    let policy = context.session.core.policy.current();
    // If commands have no network, the daemon must not be a way around that.
    let confinement = context.session.sandbox.of_session(&policy);
    if confinement.is_some_and(|confinement| confinement.restricts_network()) {
        return Err(RpcError::invalid_request("the operator's sandbox profile has no network"));
    }
    let root = context.session.roots.paths().first().map_or(Path::new("/"), PathBuf::as_path);
    let cwd = context.session.roots.admit(Path::new("/"), root).map_err(rpc_error)?;
    let body = Bytes::from(params.body.clone().unwrap_or_default());
    let argv = ["http-request", &params.method, &params.url].map(str::to_owned).to_vec();
    let effects = CommandEffects {
        program: Program::Argv(argv),
        cwd,
        env: Vec::new(),
        stdin: body.clone(),
        has_terminal: false,
        is_detached: false,
    };
    let mut request = outgoing(params, body)?;
    request.timeout = Some(context.session.face.settings.command_timeout);
    request.proxies = policy.proxies.clone();
    Ok(Prepared::with_effects(Effects::Command(Box::new(effects)), move |session, pending| {
        session.spawn(async move { pending.finish(send(request).await).await });
    }))
}

fn outgoing(params: &HttpCall, body: Bytes) -> Result<Request, RpcError> {
    let invalid = |what: &str| RpcError::invalid_params(format!("invalid {what}"));
    let method = Method::from_bytes(params.method.as_bytes()).map_err(|_| invalid("method"))?;
    let mut request = Request::new(method, params.url.clone());
    for (name, value) in &params.headers {
        let header = HeaderName::from_bytes(name.as_bytes()).map_err(|_| invalid("header name"))?;
        let mut value = HeaderValue::from_str(value).map_err(|_| invalid("header value"))?;
        // A redirect to another host must not receive what may be a secret.
        value.set_sensitive(true);
        request.headers.insert(header, value);
    }
    // These belong to the connection.
    for name in [header::CONTENT_LENGTH, header::TRANSFER_ENCODING, header::CONNECTION] {
        request.headers.remove(name);
    }
    request.body = body;
    request.redirects = Redirects::Follow;
    Ok(request)
}

async fn send(request: Request) -> Result<HttpReply, RpcError> {
    let failed = |error: dial::DialError| RpcError::invalid_request(error.to_string());
    let reply = dial::http(request).await.map_err(failed)?;
    let status = reply.status.as_u16();
    let content_type = reply.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let content_type = content_type.unwrap_or_default().to_ascii_lowercase();
    // One byte more shows that a body is too long.
    let body = reply.bytes(MAX_REPLY_BYTES + 1).await.map_err(failed)?;
    if body.len() > MAX_REPLY_BYTES {
        return Err(RpcError::invalid_request(format!("reply too large (limit {MAX_REPLY_BYTES} bytes)")));
    }
    Ok(HttpReply { status, content_type, body: String::from_utf8_lossy(&body).into_owned() })
}
