//! A running daemon or exec-server over a WebSocket, encrypted or not.

use http::header::AUTHORIZATION;
use http::{HeaderMap, StatusCode};
use link::Link;
use link::dial::DialError;
use link::websocket::Settings;

use crate::error::{ConnectError, ConnectStep};
use crate::target::{Target, UrlTarget};

/// What goes over a WebSocket, and how large it may be.
pub(super) enum Content {
    /// Messages.
    Json(link::Limits),
    /// Relay frames.
    Frames(link::Limits),
}

/// Connects and upgrades, at `path` if the URL names none. `hint` is for whoever finds nobody there.
pub(super) async fn dial(
    url: &UrlTarget,
    (target, hint): (&Target, &str),
    (path, content): (&str, Content),
) -> Result<Link, ConnectError> {
    let wrong = |step, cause: &dyn std::fmt::Display| ConnectError::new(target, step, cause);
    let headers = headers(url).map_err(|error| wrong(ConnectStep::Find, &error))?;
    let socket = link::dial::websocket(&address(url, path), &headers, &url.tls).await;
    let socket = socket.map_err(|error| failure(error, (target, hint), &wrong))?;
    let (link, _closer) = match content {
        Content::Json(limits) => socket.json(&Settings::default(), &limits),
        Content::Frames(limits) => socket.binary(&Settings::default(), &limits),
    };
    Ok(link)
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
    // A query may follow the host at once; a request needs a path before it.
    let slash = if path.starts_with('/') { "" } else { "/" };
    format!("{scheme}://{}{slash}{path}", url.authority)
}

fn headers(url: &UrlTarget) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    if let Some(token) = &url.token {
        let value = format!("Bearer {}", token.0).parse();
        headers.insert(AUTHORIZATION, value.map_err(|_| "the token has characters no header may have")?);
    }
    for (name, value) in &url.headers {
        let name: http::HeaderName = name.parse().map_err(|_| format!("`{name}` is no header"))?;
        let value = value.parse().map_err(|_| format!("the value of {name} is none a header may have"))?;
        headers.insert(name, value);
    }
    Ok(headers)
}

fn failure(
    error: DialError,
    (target, hint): (&Target, &str),
    wrong: &dyn Fn(ConnectStep, &dyn std::fmt::Display) -> ConnectError,
) -> ConnectError {
    match error {
        DialError::Url { .. } | DialError::Header(_) => wrong(ConnectStep::Find, &error),
        DialError::Reach { source, .. } => wrong(ConnectStep::Connect, &source).hint(hint).transient(),
        DialError::Tls { source, .. } if source.kind() == std::io::ErrorKind::Unsupported => {
            wrong(ConnectStep::Authenticate, &source)
                .hint("ws:// or http:// in place of wss:// or https://, if that is meant")
        }
        DialError::Tls { source, .. } => wrong(ConnectStep::Authenticate, &source)
            .hint("name the authority of its certificate as the target's caFile"),
        DialError::Refused { status, said } => refused(status, &said, target, wrong),
        DialError::Broken(_) | DialError::Late(_) => wrong(ConnectStep::OpenSession, &error).transient(),
    }
}

fn refused(
    status: StatusCode,
    said: &str,
    target: &Target,
    wrong: &dyn Fn(ConnectStep, &dyn std::fmt::Display) -> ConnectError,
) -> ConnectError {
    let cause = format!("the server answers {status} {}", words(said));
    match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            wrong(ConnectStep::Authenticate, &cause.trim_end()).hint(token_hint(target))
        }
        StatusCode::NOT_FOUND => wrong(ConnectStep::OpenSession, &cause.trim_end()).hint(match target {
            Target::ExecServer(url) if url.is_harness() => "is there a rexhub at that address?",
            Target::ExecServer(_) => "is there an exec-server at that address?",
            _ => "is there a rexd at that address?",
        }),
        status => {
            let error = wrong(ConnectStep::OpenSession, &cause.trim_end());
            match status.is_server_error() {
                true => error.transient(),
                false => error,
            }
        }
    }
}

/// Which token is wanted, and who gives it.
fn token_hint(target: &Target) -> &'static str {
    match target {
        Target::ExecServer(url) if url.is_harness() => {
            "set REX_TOKEN, or tokenFile in the target, to a token of that hub: `rexhub token add NAME --kind harness`"
        }
        Target::ExecServer(_) => {
            "set REX_TOKEN, or tokenFile in the target, to the token of that exec-server: what is in its --ws-token-file"
        }
        _ => "set REX_TOKEN, or tokenFile in the target, to a token of that daemon",
    }
}

/// What a server says in words, out of the JSON it may have put them into.
fn words(said: &str) -> String {
    let Ok(json) = serde_json::from_str::<serde_json::Value>(said) else { return said.to_owned() };
    let places = [&json["error"]["message"], &json["message"], &json["error"]];
    places.into_iter().find_map(serde_json::Value::as_str).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_told_in_words_with_whose_token_is_wanted() {
        let said = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"a token is needed"}}"#;
        for (url, hint) in [
            ("ws://h/cloud/executor/e/rendezvous?role=harness", "rexhub token add NAME --kind harness"),
            ("ws://h/", "the token of that exec-server"),
        ] {
            let target: Target = format!("codex:{url}").parse().unwrap();
            let wrong = |step, cause: &dyn std::fmt::Display| ConnectError::new(&target, step, cause);
            let error = refused(StatusCode::UNAUTHORIZED, said, &target, &wrong);
            assert_eq!(error.cause, "the server answers 401 Unauthorized a token is needed");
            assert!(error.hint.as_ref().unwrap().contains(hint), "{error:?}");
        }
        for (said, plain) in
            [("gone", "gone"), (r#"{"error":"no"}"#, "no"), (r#"{"message":"x"}"#, "x"), ("[1]", "")]
        {
            assert_eq!(words(said), plain);
        }
    }
}
