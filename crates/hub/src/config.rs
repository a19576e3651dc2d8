//! How the hub is set up: where it listens, where it keeps things, and every bound.

use std::path::{Path, PathBuf};
use std::time::Duration;

use http::Uri;

/// How the hub is set up.
#[derive(Debug, Clone)]
pub struct Config {
    /// `HOST:PORT`; port 0 takes any.
    pub listen: String,
    /// Where everything is kept.
    pub data: PathBuf,
    /// TLS, if it is spoken.
    pub tls: Option<TlsFiles>,
    /// Where others reach the hub, if that is not where it listens.
    pub public_url: Option<PublicUrl>,
    /// Every bound.
    pub limits: Limits,
}

pub use link::listen::TlsFiles;

/// Every bound of the hub. What happens past one stands beside it.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Connections at a time; the next ones wait to be accepted.
    pub connections: usize,
    /// For the handshake of TLS, the headers of a request, and the handshake of a WebSocket; then the connection ends.
    pub handshake: Duration,
    /// For what is under way when the hub is asked to end.
    pub drain: Duration,
    /// The largest relay frame; a longer one ends the connection it came on.
    pub frame_bytes: usize,
    /// Executors that one token may register; the next registration is refused.
    pub executors_per_token: usize,
    /// How long a ticket is good for.
    pub ticket: Duration,
    /// Tickets of one executor that wait to be used; the oldest makes room.
    pub tickets_per_executor: usize,
    /// Harnesses connected to one executor, or waiting for it; the next one is refused.
    pub harnesses_per_executor: usize,
    /// Streams of one harness; the next one is reset.
    pub streams_per_harness: usize,
    /// Streams of all harnesses of one executor; the next one is reset.
    pub streams_per_executor: usize,
    /// Bytes that wait for one harness to take them; past it, the harness is disconnected.
    pub queued_bytes: usize,
    /// Bytes of one connection on their way to another; past it, nothing more is read from the connection.
    pub in_flight_bytes: usize,
    /// How long a harness waits for an executor that is away; then it is refused. A little less than the ten seconds
    /// after which Codex itself gives up, so that it hears why.
    pub executor_away: Duration,
    /// Between pings.
    pub ping: Duration,
    /// A connection that gives no sign of life for so long has ended.
    pub silence: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connections: 4096,
            handshake: Duration::from_secs(10),
            drain: Duration::from_secs(5),
            // A released executor sends an answer as one frame, whatever its size, and a frame that is refused costs it
            // its connection and everybody theirs.
            frame_bytes: wire::limits::MAX_LINE_BYTES + (64 << 10),
            executors_per_token: 1024,
            ticket: Duration::from_secs(60),
            tickets_per_executor: 8,
            harnesses_per_executor: 256,
            streams_per_harness: 1024,
            streams_per_executor: 16 * 1024,
            queued_bytes: 96 << 20,
            in_flight_bytes: 1 << 20,
            executor_away: Duration::from_secs(8),
            ping: Duration::from_secs(30),
            silence: Duration::from_secs(60),
        }
    }
}

/// A URL at which others reach the hub.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicUrl {
    /// Whether it is reached through TLS.
    pub secure: bool,
    /// `HOST[:PORT]`.
    pub authority: String,
    /// What stands before every path; without a slash at its end.
    pub prefix: String,
}

impl std::str::FromStr for PublicUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<PublicUrl, String> {
        let wrong = |why: &str| format!("{why} (an example: https://hub.example.com)");
        let uri: Uri = text.parse().map_err(|error| wrong(&format!("it is no URL: {error}")))?;
        let secure = match uri.scheme_str() {
            Some("https" | "wss") => true,
            Some("http" | "ws") => false,
            _ => return Err(wrong("it has to begin with http:// or https://")),
        };
        let authority = uri.authority().map(|authority| authority.as_str().to_owned()).unwrap_or_default();
        if authority.is_empty() || authority.contains('@') || uri.query().is_some() {
            return Err(wrong("it has to be a host, a port if need be, and a path at most"));
        }
        Ok(PublicUrl { secure, authority, prefix: uri.path().trim_end_matches('/').to_owned() })
    }
}

/// `$XDG_DATA_HOME/rexhub`, or what stands for it; nothing without a home.
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
    fn a_public_url_is_a_host_with_a_prefix_at_most() {
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
