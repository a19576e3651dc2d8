//! The connection to one hub, again and again: dialed, served until it ends, and dialed after a longer wait each time.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use link::dial::{self, Backoff, DialError, Tls};
use link::websocket::{Closer, Settings};
use link::{Limits, Link};
use tokio::time::{Instant, sleep, timeout};

use super::Host;
use super::connection;
use super::identity::HostIdentity;
use crate::core::session::Face as _;
use crate::net::auth::Secret;

/// How long a hub may take to accept the connection.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(20);
/// The length of a message from a hub: a file to write in JSON.
const MAX_MESSAGE_BYTES: usize = 16 * 1024 * 1024;
/// Events that wait to be written to the socket.
const EVENT_SLOTS: usize = 32;
/// After this time a replaced connection is not one of two hosts that replace each other in turn.
const STABLE_AFTER: Duration = Duration::from_secs(120);
/// The close code for a connection that a newer one of the same host has replaced.
const REPLACED: u16 = 4409;
/// The header with the code of a host that enrols.
const JOIN_CODE: HeaderName = HeaderName::from_static("rexhub-join-code");

/// The address of a hub.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HubUrl {
    /// `ws://` or `wss://`, without a slash at the end.
    base: String,
}

/// A URL that is no hub's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid URL of a hub {0:?}: expected http://, https://, ws:// or wss://, without a query")]
pub struct HubUrlError(String);

impl HubUrl {
    /// Parses the URL of a hub: `http` means `ws`, and `https` means `wss`.
    pub fn parse(url: &str) -> Result<HubUrl, HubUrlError> {
        let trimmed = url.trim().trim_end_matches('/');
        let schemes =
            [("http://", "ws://"), ("https://", "wss://"), ("ws://", "ws://"), ("wss://", "wss://")];
        let found = schemes.iter().find_map(|(given, used)| Some((trimmed.strip_prefix(given)?, used)));
        match found {
            Some((rest, scheme)) if !rest.is_empty() && !rest.contains(['?', '#', '@', ' ']) => {
                Ok(HubUrl { base: format!("{scheme}{rest}") })
            }
            // A query may contain a secret, and so may what is before the host.
            _ => {
                let shown = url.split('?').next().unwrap_or_default();
                Err(HubUrlError(shown.rsplit('@').next().unwrap_or_default().to_owned()))
            }
        }
    }

    /// The hub in journals.
    pub(super) fn key(&self) -> &str {
        &self.base
    }

    /// The URL of an endpoint for this host.
    pub(super) fn endpoint(&self, path: &str, host_id: &str) -> String {
        format!("{}{path}?host_id={}", self.base, encode_segment(host_id))
    }
}

impl fmt::Display for HubUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.base)
    }
}

/// A value of a query: everything but letters, digits and a few signs is escaped.
fn encode_segment(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    text.bytes().fold(String::new(), |encoded, byte| match is_plain(byte) {
        true => encoded + &char::from(byte).to_string(),
        false => encoded + &format!("%{byte:02X}"),
    })
}

/// Where a host puts its token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TokenPlace {
    /// A header.
    Header,
    /// The query, for hubs that read no header.
    Query,
}

/// Connects to an endpoint of a hub.
pub(super) async fn connect(
    hub: &HubUrl,
    path: &str,
    (identity, join_code): (&HostIdentity, Option<&Secret>),
    place: TokenPlace,
) -> Result<dial::Socket, DialError> {
    let mut url = hub.endpoint(path, &identity.id);
    let mut headers = HeaderMap::new();
    let header = |text: String| {
        let value = HeaderValue::try_from(text);
        value.map_err(|_| DialError::Header("a token has characters that no header may have".to_owned()))
    };
    match place {
        TokenPlace::Header => {
            let bearer = header(format!("Bearer {}", identity.token.expose()))?;
            headers.insert(http::header::AUTHORIZATION, bearer);
        }
        TokenPlace::Query => {
            url.push_str(&format!("&host_token={}", encode_segment(identity.token.expose())))
        }
    }
    if let Some(code) = join_code {
        headers.insert(JOIN_CODE, header(code.expose().to_owned())?);
    }
    let tls = Tls::default();
    let connected = timeout(HANDSHAKE_TIMEOUT, dial::websocket(&url, &headers, &tls)).await;
    connected.map_err(|_late| DialError::Late(HANDSHAKE_TIMEOUT))?
}

/// Whether a hub rejected the connection because it expects the token in the query.
pub(super) fn wants_query(error: &DialError) -> bool {
    matches!(error, DialError::Refused { status: StatusCode::UNAUTHORIZED, body } if body.contains("query params"))
}

/// Keeps a connection to a hub until the daemon ends.
pub(super) async fn run(host: Arc<Host>, hub: HubUrl) {
    let stop = host.core().stop.clone();
    stop.run_until_cancelled(keep_connected(host, hub)).await;
}

async fn keep_connected(host: Arc<Host>, hub: HubUrl) {
    let (mut backoff, mut place) = (Backoff::default(), TokenPlace::Header);
    let mut join_code = host.settings.join_code.clone();
    loop {
        let identity = (&host.settings.identity, join_code.as_ref());
        match connect(&hub, "/ws/host", identity, place).await {
            Ok(socket) => {
                // A code is for one enrolment.
                join_code = None;
                let limits = Limits {
                    line_bytes: MAX_MESSAGE_BYTES,
                    event_slots: EVENT_SLOTS,
                    budget: host.core().budget.clone(),
                    ..Limits::default()
                };
                let (link, closer) = socket.json(&Settings::default(), &limits);
                tracing::info!(%hub, "connected");
                if serve(&host, &hub, link, &closer).await {
                    backoff.reset();
                }
            }
            Err(error) if place == TokenPlace::Header && wants_query(&error) => {
                place = TokenPlace::Query;
                continue;
            }
            Err(error @ DialError::Refused { .. }) => {
                tracing::error!(%hub, "the hub refuses this host: {error}")
            }
            Err(error) => tracing::warn!(%hub, "the hub cannot be reached: {error}"),
        }
        let wait = backoff.wait();
        tracing::info!(%hub, ?wait, "connecting again");
        sleep(wait).await;
    }
}

/// Serves one connection; returns whether the next one is attempted soon.
async fn serve(host: &Arc<Host>, hub: &HubUrl, link: Link, closer: &Closer) -> bool {
    let since = Instant::now();
    connection::serve(host, hub, link).await;
    let is_replaced = closer.peer_close().is_some_and(|close| close.code == REPLACED);
    if is_replaced {
        let id = &host.settings.identity.id;
        tracing::error!(%hub, "another host connected as {id:?} and took this one's place: give each its own --host-id");
    } else {
        tracing::warn!(%hub, "the connection is lost");
    }
    !is_replaced || since.elapsed() > STABLE_AFTER
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_of_hubs_become_websockets_and_others_are_refused_without_showing_a_query() {
        let hub = HubUrl::parse(" https://hub.example:8443/base/ ").unwrap();
        assert_eq!(hub.endpoint("/ws/host", "h 1"), "wss://hub.example:8443/base/ws/host?host_id=h%201");
        assert_eq!(HubUrl::parse("ws://[::1]:1").unwrap().key(), "ws://[::1]:1");
        for url in
            ["", "hub.example", "ftp://x", "http://", "http://user:word@hub/", "http://hub/?token=secret"]
        {
            let error = HubUrl::parse(url).unwrap_err().to_string();
            assert!(!error.contains("secret") && !error.contains("word"), "{error}");
        }
    }
}
