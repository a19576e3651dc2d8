//! Connects to a running daemon or exec-server over a WebSocket, with or without TLS.

use http::header::AUTHORIZATION;
use http::{HeaderMap, StatusCode};
use link::Link;
use link::dial::{DialError, Socket};

use crate::error::{ConnectError, ConnectStep};
use crate::options::KeepAlive;
use crate::target::{Target, UrlTarget};

/// What a WebSocket carries, and the limits for it.
pub(super) enum WebSocketContent {
    /// One JSON message per frame.
    Json(link::Limits),
    /// Binary relay frames.
    RelayFrames(link::Limits),
}

/// Connects and upgrades, at `path` if the URL has none. `hint` is for a connection that is refused.
pub(super) async fn dial(
    url: &UrlTarget,
    (target, hint): (&Target, &str),
    (path, content): (&str, WebSocketContent),
    keep_alive: &KeepAlive,
) -> Result<Link, ConnectError> {
    let socket = open(url, path).await.map_err(|error| failure(error, target, hint))?;
    let (link, _closer) = match content {
        WebSocketContent::Json(limits) => socket.json(keep_alive, &limits),
        WebSocketContent::RelayFrames(limits) => socket.binary(keep_alive, &limits),
    };
    Ok(link)
}

/// The same before its first message, and with the error of the connection.
pub(super) async fn open(url: &UrlTarget, path: &str) -> Result<Socket, DialError> {
    let headers = headers(url).map_err(DialError::Header)?;
    link::dial::websocket(&address(url, path), &headers, &url.tls).await
}

fn address(url: &UrlTarget, default_path: &str) -> String {
    let scheme = match url.scheme.is_encrypted() {
        true => "wss",
        false => "ws",
    };
    let path = match url.path.as_str() {
        "" | "/" => default_path,
        path => path,
    };
    // A query may follow the host directly; a request needs a path before it.
    let slash = if path.starts_with('/') { "" } else { "/" };
    format!("{scheme}://{}{slash}{path}", url.authority)
}

/// The headers of a request to a URL: its token, and those for proxies.
pub(super) fn headers(url: &UrlTarget) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    if let Some(token) = &url.token {
        let value = format!("Bearer {}", token.0).parse();
        headers
            .insert(AUTHORIZATION, value.map_err(|_| "the token has characters that a header cannot have")?);
    }
    for (name, value) in &url.headers {
        let name: http::HeaderName = name.parse().map_err(|_| format!("`{name}` is not a header name"))?;
        let value = value
            .parse()
            .map_err(|_| format!("the value of {name} has characters that a header cannot have"))?;
        headers.insert(name, value);
    }
    Ok(headers)
}

/// Explains a failed connection. `hint` is for one that is refused.
pub(super) fn failure(error: DialError, target: &Target, hint: &str) -> ConnectError {
    let failed = |step, cause: &dyn std::fmt::Display| ConnectError::new(target, step, cause);
    match error {
        DialError::Url { .. } | DialError::Header(_) => failed(ConnectStep::Find, &error),
        DialError::Reach { source, .. } => failed(ConnectStep::Connect, &source).hint(hint).transient(),
        DialError::Tls { source, .. } if source.kind() == std::io::ErrorKind::Unsupported => {
            failed(ConnectStep::Authenticate, &source).hint(match target {
                Target::Hub(_) => "use http:// if the hub has no TLS",
                _ => "use ws:// or http:// if the server has no TLS",
            })
        }
        DialError::Tls { source, .. } => failed(ConnectStep::Authenticate, &source).hint(match target {
            Target::Hub(_) => "name the authority of its certificate with `rex login URL --ca-file FILE`",
            _ => "set the target's caFile to the authority of its certificate",
        }),
        DialError::Refused { status, body } => rejected(status, &body, target),
        DialError::Broken(_) | DialError::Late(_) => failed(ConnectStep::OpenSession, &error).transient(),
    }
}

fn rejected(status: StatusCode, body: &str, target: &Target) -> ConnectError {
    let failed = |step, cause: &str| ConnectError::new(target, step, cause);
    let cause = format!("the server answered {status} {}", error_message(body));
    match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            failed(ConnectStep::Authenticate, cause.trim_end()).hint(token_hint(target))
        }
        StatusCode::NOT_FOUND => failed(ConnectStep::OpenSession, cause.trim_end()).hint(match target {
            Target::ExecServer(url) if url.is_harness() => "is there a rexhub at that address?",
            Target::Hub(_) => "is there a rexhub at the address of the login?",
            Target::ExecServer(_) => "is there an exec-server at that address?",
            _ => "is there a rexd at that address?",
        }),
        status => {
            let error = failed(ConnectStep::OpenSession, cause.trim_end());
            match status.is_server_error() {
                true => error.transient(),
                false => error,
            }
        }
    }
}

/// Which token the server needs and where it comes from.
fn token_hint(target: &Target) -> &'static str {
    match target {
        Target::ExecServer(url) if url.is_harness() => {
            "set REX_TOKEN, or tokenFile in the target, to a token of that hub: `rexhub token add NAME --kind harness`"
        }
        Target::ExecServer(_) => {
            "set REX_TOKEN, or tokenFile in the target, to the token of that exec-server: the content of its --ws-token-file"
        }
        Target::Hub(_) => "sign in again with `rex login URL`",
        _ => "set REX_TOKEN, or tokenFile in the target, to a token of that daemon",
    }
}

/// The message in the body of an error response, which may be JSON.
pub(crate) fn error_message(body: &str) -> String {
    let Ok(json) = serde_json::from_str::<serde_json::Value>(body) else { return body.to_owned() };
    let candidates = [&json["error"]["message"], &json["message"], &json["error"]];
    candidates.into_iter().find_map(serde_json::Value::as_str).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rejection_has_the_servers_message_and_a_hint_for_the_token() {
        let body = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"a token is needed"}}"#;
        for (url, hint) in [
            ("ws://h/cloud/executor/e/rendezvous?role=harness", "rexhub token add NAME --kind harness"),
            ("ws://h/", "the token of that exec-server"),
        ] {
            let target: Target = format!("codex:{url}").parse().unwrap();
            let error = rejected(StatusCode::UNAUTHORIZED, body, &target);
            assert_eq!(error.cause, "the server answered 401 Unauthorized a token is needed");
            assert!(error.hint.as_ref().unwrap().contains(hint), "{error:?}");
        }
        for (body, message) in
            [("gone", "gone"), (r#"{"error":"no"}"#, "no"), (r#"{"message":"x"}"#, "x"), ("[1]", "")]
        {
            assert_eq!(error_message(body), message);
        }
    }
}
