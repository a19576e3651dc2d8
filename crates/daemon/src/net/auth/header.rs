//! Tokens in headers: `Authorization: Bearer`, and the subprotocol with which a browser opens a WebSocket.

use http::HeaderMap;
use http::header::{AUTHORIZATION, SEC_WEBSOCKET_PROTOCOL};

use super::refusal::Refusal;

/// A WebSocket subprotocol that starts so carries a token: a browser cannot send any other header.
pub const BEARER_PROTOCOL: &str = "rexd.bearer.";

/// The token a request carries, if any. Two different ones are refused: nobody can know which was meant.
pub fn token(headers: &HeaderMap) -> Result<Option<&str>, Refusal> {
    match (from_authorization(headers)?, from_protocols(headers)?) {
        (Some(one), Some(other)) if one != other => {
            Err(malformed("the request carries two different tokens"))
        }
        (one, other) => Ok(one.or(other)),
    }
}

pub(super) fn missing() -> Refusal {
    Refusal::unproven("no_token", "a token is needed: send it as `Authorization: Bearer TOKEN`")
}

pub(super) fn malformed(why: &str) -> Refusal {
    Refusal::unproven("malformed_token", format!("{why}; send it as `Authorization: Bearer TOKEN`"))
}

fn from_authorization(headers: &HeaderMap) -> Result<Option<&str>, Refusal> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(malformed("there is more than one Authorization header"));
    }
    let text = value.to_str().map_err(|_| malformed("the Authorization header is not ASCII"))?;
    let (scheme, token) = text.split_once(' ').unwrap_or((text, ""));
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Err(malformed("the Authorization header is not a Bearer token"));
    }
    match token.trim_matches(' ') {
        "" => Err(malformed("the Bearer token is empty")),
        token => Ok(Some(token)),
    }
}

fn from_protocols(headers: &HeaderMap) -> Result<Option<&str>, Refusal> {
    let mut found = None;
    for value in headers.get_all(SEC_WEBSOCKET_PROTOCOL) {
        let text = value.to_str().map_err(|_| malformed("the WebSocket protocols are not ASCII"))?;
        for token in text.split(',').filter_map(|name| name.trim().strip_prefix(BEARER_PROTOCOL)) {
            if token.is_empty() || found.replace(token).is_some() {
                return Err(malformed("the WebSocket protocols must name one token"));
            }
        }
    }
    Ok(found)
}
