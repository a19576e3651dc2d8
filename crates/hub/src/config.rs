//! The configuration of the hub: address, data directory and limits.

use std::path::{Path, PathBuf};
use std::time::Duration;

use http::Uri;

use crate::store::{DatabaseUrl, FailureLimits, Retention};

/// The configuration of the hub.
#[derive(Debug, Clone)]
pub struct Config {
    /// `HOST:PORT`; port 0 selects a free one.
    pub listen: String,
    /// Where the state is stored.
    pub storage: Storage,
    /// How new hosts are enrolled; by default, see [`Enrolment`].
    pub enrolment: Option<Enrolment>,
    /// What is kept of ended runs.
    pub retention: Retention,
    /// The certificate and key; plain HTTP without them.
    pub tls: Option<TlsFiles>,
    /// The URL of the hub for executors, if it is behind a proxy.
    pub public_url: Option<PublicUrl>,
    /// The certificate of the authority that signed the hub's own, to be served at `/ca.crt`.
    pub authority: Option<PathBuf>,
    /// Whether notices may be sent to private addresses and without TLS.
    pub push_allow_private: bool,
    /// The limits.
    pub limits: Limits,
}

pub use link::listen::TlsFiles;

/// Where the hub stores its state.
#[derive(Debug, Clone)]
pub enum Storage {
    /// An SQLite file in this directory.
    Directory(PathBuf),
    /// A PostgreSQL database.
    Database(DatabaseUrl),
}

/// How new hosts are enrolled. The default is `Tofu` for a listener on a loopback address without a public URL, otherwise
/// `Code`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Enrolment {
    /// The first host with an id keeps it (trust on first use)
    Tofu,
    /// A new host needs a code of `rexhub join-code`
    Code,
}

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
    /// The size of a message of a host; a larger one is skipped and answered with an error.
    pub host_message_bytes: usize,
    /// The size of a message of an app; a larger one is skipped and answered with an error.
    pub app_message_bytes: usize,
    /// The time for a closing handshake; then the connection is cut.
    pub closing: Duration,
    /// The time for which a node holds a host without renewal; then the host counts as offline.
    pub lease: Duration,
    /// The time between checks for old runs and overdue requests.
    pub cleanup: Duration,
    /// The time for which events behind a gap are held back from apps; then the gap is unlikely to be filled.
    pub gap: Duration,
    /// The time that the hub waits for a response of a host to its own requests.
    pub host_response: Duration,
    /// Failed sign-ins; beyond them, only users at an address they have used before can sign in.
    pub login_failures: FailureLimits,
    /// The lifetime of an access token of a client that does not refresh, in seconds.
    pub long_access: i64,
    /// The lifetime of an access token of a client that refreshes, in seconds.
    pub short_access: i64,
    /// The lifetime of an unused refresh token, in seconds.
    pub refresh: i64,
    /// The time for which a run waits for input before a notice is sent.
    pub prompt_notice: Duration,
    /// The time before the second attempt to deliver a notice; it grows with each further one.
    pub notice_retry: Duration,
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
            host_message_bytes: 16 << 20,
            app_message_bytes: 8 << 20,
            closing: Duration::from_secs(2),
            lease: Duration::from_secs(45),
            cleanup: Duration::from_secs(60),
            gap: Duration::from_secs(30),
            host_response: Duration::from_secs(10),
            login_failures: FailureLimits { of_user: 10, of_address: 30, window: 15 * 60 },
            long_access: 24 * 3600,
            short_access: 15 * 60,
            refresh: 30 * 24 * 3600,
            prompt_notice: Duration::from_secs(5),
            notice_retry: Duration::from_secs(2),
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
