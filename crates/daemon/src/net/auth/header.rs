//! Tokens in headers: `Authorization: Bearer`, and the subprotocol with which a browser opens a WebSocket.

use http::HeaderMap;
use http::header::SEC_WEBSOCKET_PROTOCOL;
use link::listen::bearer_token;

use super::rejection::AuthRejection;

/// The prefix of a WebSocket subprotocol that carries a token: a browser cannot set any other header.
pub const BEARER_PROTOCOL: &str = "rexd.bearer.";

/// The token of a request, if any. Two different ones are rejected, because it is unclear which one counts.
pub fn token(headers: &HeaderMap) -> Result<Option<&str>, AuthRejection> {
    let authorization = bearer_token(headers).map_err(|error| malformed(&error.to_string()))?;
    match (authorization, from_protocols(headers)?) {
        (Some(one), Some(other)) if one != other => {
            Err(malformed("the request contains two different tokens"))
        }
        (one, other) => Ok(one.or(other)),
    }
}

pub(super) fn missing() -> AuthRejection {
    AuthRejection::unauthenticated("no_token", "no token; send it as `Authorization: Bearer TOKEN`")
}

pub(super) fn malformed(why: &str) -> AuthRejection {
    let message = format!("{why}; send it as `Authorization: Bearer TOKEN`");
    AuthRejection::unauthenticated("malformed_token", message)
}

fn from_protocols(headers: &HeaderMap) -> Result<Option<&str>, AuthRejection> {
    let mut found = None;
    for value in headers.get_all(SEC_WEBSOCKET_PROTOCOL) {
        let text = value.to_str().map_err(|_| malformed("the WebSocket subprotocols are not ASCII"))?;
        for token in text.split(',').filter_map(|name| name.trim().strip_prefix(BEARER_PROTOCOL)) {
            if token.is_empty() || found.replace(token).is_some() {
                return Err(malformed("the WebSocket subprotocols must contain one token"));
            }
        }
    }
    Ok(found)
}
