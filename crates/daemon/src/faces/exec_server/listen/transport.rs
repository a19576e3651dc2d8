//! The URL to listen on: `ws://IP:PORT`, `stdio` or `stdio://`.

use std::net::SocketAddr;
use std::str::FromStr;

/// Where exec-server listens unless told otherwise: a free port of this machine.
pub const DEFAULT_LISTEN_URL: &str = "ws://127.0.0.1:0";

/// What exec-server is served over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExecServerTransport {
    /// Standard input and output.
    Stdio,
    /// WebSockets on this address.
    WebSocket {
        /// The address; port 0 for a free one.
        bind_address: SocketAddr,
    },
}

/// A URL that cannot be listened on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExecServerListenUrlParseError {
    /// Neither `ws://` nor stdio.
    #[error("cannot listen on {0:?}: expected `ws://IP:PORT`, `stdio` or `stdio://`")]
    UnsupportedListenUrl(String),
    /// No literal address.
    #[error(
        "cannot listen on {0:?}: expected `ws://IP:PORT` with a literal address, such as ws://127.0.0.1:0"
    )]
    InvalidWebSocketListenUrl(String),
}

impl FromStr for ExecServerTransport {
    type Err = ExecServerListenUrlParseError;

    fn from_str(url: &str) -> Result<Self, Self::Err> {
        if matches!(url, "stdio" | "stdio://") {
            return Ok(Self::Stdio);
        }
        let Some(address) = url.strip_prefix("ws://") else {
            return Err(ExecServerListenUrlParseError::UnsupportedListenUrl(url.to_owned()));
        };
        let address = address.strip_suffix('/').unwrap_or(address).parse();
        let bind_address =
            address.map_err(|_| ExecServerListenUrlParseError::InvalidWebSocketListenUrl(url.to_owned()))?;
        Ok(Self::WebSocket { bind_address })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_literal_addresses_and_standard_streams_are_taken() {
        let parse = |url: &str| url.parse::<ExecServerTransport>();
        assert_eq!(parse("stdio"), Ok(ExecServerTransport::Stdio));
        assert_eq!(parse("stdio://"), Ok(ExecServerTransport::Stdio));
        for url in [DEFAULT_LISTEN_URL, "ws://[::1]:8080", "ws://0.0.0.0:1/"] {
            assert!(matches!(parse(url), Ok(ExecServerTransport::WebSocket { .. })), "{url}");
        }
        for url in ["ws://localhost:1", "ws://127.0.0.1", "ws://127.0.0.1:99999", "ws://127.0.0.1:1/x"] {
            let expected = ExecServerListenUrlParseError::InvalidWebSocketListenUrl(url.to_owned());
            assert_eq!(parse(url), Err(expected));
        }
        for url in ["", "wss://127.0.0.1:1", "http://127.0.0.1:1", "127.0.0.1:1"] {
            assert_eq!(parse(url), Err(ExecServerListenUrlParseError::UnsupportedListenUrl(url.to_owned())));
        }
    }
}
