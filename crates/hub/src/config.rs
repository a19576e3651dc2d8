//! The configuration of the hub: address, data directory and limits.

use std::path::{Path, PathBuf};
use std::time::Duration;

use http::Uri;

/// The configuration of the hub.
#[derive(Debug, Clone)]
pub struct Config {
    /// `HOST:PORT`; port 0 selects a free one.
    pub listen: String,
    /// The data directory.
    pub data: PathBuf,
    /// The certificate and key; plain HTTP without them.
    pub tls: Option<TlsFiles>,
    /// The URL of the hub for executors, if it is behind a proxy.
    pub public_url: Option<PublicUrl>,
    /// The limits.
    pub limits: Limits,
}

pub use link::listen::TlsFiles;

/// Every limit of the hub, and what happens beyond it.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Connections at a time; further ones are accepted when a slot is free.
    pub connections: usize,
    /// The time for the TLS handshake, the headers of a request, and the WebSocket handshake; then the connection ends.
    pub handshake: Duration,
    /// The time for open connections to end when the hub stops.
    pub drain: Duration,
    /// The size of a relay frame; a larger one ends its connection.
    pub frame_bytes: usize,
    /// Executors of one token; further registrations are rejected.
    pub executors_per_token: usize,
    /// The lifetime of a ticket.
    pub ticket: Duration,
    /// Unused tickets of one executor; a further one removes the oldest.
    pub tickets_per_executor: usize,
    /// Harnesses that are connected to one executor or wait for it; further ones are rejected.
    pub harnesses_per_executor: usize,
    /// Streams of one harness; further ones are reset.
    pub streams_per_harness: usize,
    /// Streams of all harnesses of one executor; further ones are reset.
    pub streams_per_executor: usize,
    /// Bytes queued for one harness; beyond it, the harness is disconnected.
    pub queued_bytes: usize,
    /// Bytes of all frames that are received or queued, except 64 KiB of each connection. A connection that needs more waits,
    /// then it is closed.
    pub buffered_bytes: usize,
    /// Bytes of one connection on their way to another; beyond it, reading from the connection pauses.
    pub in_flight_bytes: usize,
    /// The time that a harness waits for a disconnected executor; then it is rejected. Less than the ten seconds of Codex's
    /// own deadline, so that Codex receives the reason.
    pub executor_away: Duration,
    /// The time between pings.
    pub ping: Duration,
    /// A connection without data from its peer for this long is closed.
    pub silence: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connections: 4096,
            handshake: Duration::from_secs(10),
            drain: Duration::from_secs(5),
            // A released executor sends a response of any size as one frame, and rejecting a frame ends its connection
            // and those of its harnesses.
            frame_bytes: wire::limits::MAX_LINE_BYTES + (64 << 10),
            executors_per_token: 1024,
            ticket: Duration::from_secs(60),
            tickets_per_executor: 8,
            harnesses_per_executor: 256,
            streams_per_harness: 1024,
            streams_per_executor: 16 * 1024,
            queued_bytes: 96 << 20,
            buffered_bytes: 256 << 20,
            in_flight_bytes: 1 << 20,
            executor_away: Duration::from_secs(8),
            ping: Duration::from_secs(30),
            silence: Duration::from_secs(60),
        }
    }
}

/// The public URL of the hub.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicUrl {
    /// True for `https` and `wss`.
    pub secure: bool,
    /// `HOST[:PORT]`.
    pub authority: String,
    /// The prefix of every path, without a trailing slash.
    pub prefix: String,
}

impl std::str::FromStr for PublicUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<PublicUrl, String> {
        let invalid = |why: &str| format!("{why} (example: https://hub.example.com)");
        let uri: Uri = text.parse().map_err(|error| invalid(&format!("not a URL: {error}")))?;
        let secure = match uri.scheme_str() {
            Some("https" | "wss") => true,
            Some("http" | "ws") => false,
            _ => return Err(invalid("expected http:// or https://")),
        };
        let authority = uri.authority().map(|authority| authority.as_str().to_owned()).unwrap_or_default();
        if authority.is_empty() || authority.contains('@') || uri.query().is_some() {
            return Err(invalid("expected a host, an optional port and an optional path"));
        }
        Ok(PublicUrl { secure, authority, prefix: uri.path().trim_end_matches('/').to_owned() })
    }
}

/// `$XDG_DATA_HOME/rexhub` or `~/.local/share/rexhub`; `None` without a home directory.
pub fn default_data() -> Option<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let data = absolute("XDG_DATA_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(Path::new(".local/share"))))?;
    Some(data.join("rexhub"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_public_url_is_a_host_with_an_optional_prefix() {
        let parsed: PublicUrl = "https://hub.example.com:8443/rex/".parse().unwrap();
        let expected = ("hub.example.com:8443", "/rex", true);
        assert_eq!((parsed.authority.as_str(), parsed.prefix.as_str(), parsed.secure), expected);
        let parsed: PublicUrl = "ws://[::1]:80".parse().unwrap();
        assert_eq!(
            (parsed.authority.as_str(), parsed.prefix.as_str(), parsed.secure),
            ("[::1]:80", "", false)
        );
        for wrong in ["", "hub", "ftp://hub", "http://a@hub", "http://hub/?x", "https:///x"] {
            assert!(wrong.parse::<PublicUrl>().is_err(), "{wrong}");
        }
    }
}
