//! The listeners to open, from flags and the configuration file.

use std::net::SocketAddr;
use std::path::PathBuf;

use super::section::ConfigError;
use super::{Config, TlsFiles};
use crate::cli::args::ServeArgs;
use crate::net::auth::is_loopback_address;

/// The listeners of a daemon.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Listeners {
    /// Whether REXD is served on stdin and stdout.
    pub stdio: bool,
    /// The address for HTTP and WebSocket.
    pub http: Option<String>,
    /// The path of the unix socket.
    pub unix: Option<PathBuf>,
    /// The certificate and key of the HTTP listener.
    pub tls: Option<TlsFiles>,
    /// The CA of client certificates.
    pub client_ca: Option<PathBuf>,
    /// The address of the exec-server face.
    pub exec_server: Option<SocketAddr>,
    /// Whether the exec-server face registers with a hub.
    pub registers: bool,
    /// The port of the stringd face.
    pub stringd: Option<u16>,
    /// Whether the daemon is the host of a hub.
    pub is_host: bool,
}

impl Listeners {
    /// Flags take precedence over the file, key by key. `--stdio` without another listener opens no socket, because
    /// `rexd` started through ssh must not open ports; a call without flags follows the file. Stdin and stdout are served
    /// beside sockets only if `--stdio` is given: under a service manager they have no client.
    pub fn new(flags: &ServeArgs, config: &Config) -> Result<Self, ConfigError> {
        let file = &config.server;
        let others = flags.exec_server.is_some() || flags.stringd.is_some() || !flags.hubs.is_empty();
        let names_socket = flags.http.is_some() || flags.unix.is_some();
        let asks_stdio = flags.stdio && !flags.bare;
        if (asks_stdio && !names_socket && !others) || (flags.bare && file.stdio) {
            return Ok(Self { stdio: true, ..Self::default() });
        }
        let http = flags.http.clone().or_else(|| file.http_listen.clone()).filter(|http| !http.is_empty());
        let unix = flags.unix.clone().or_else(|| file.unix.clone());
        let tls = flags.tls.clone().map(|(certificate, key)| TlsFiles { certificate, key });
        let tls = tls.or_else(|| file.tls.clone());
        let client_ca = flags.client_ca.clone().or_else(|| file.client_ca.clone());
        if client_ca.is_some() && tls.is_none() && http.is_some() {
            return Err(ConfigError::ClientCaWithoutTls);
        }
        let exec_server = flags.exec_server.or(config.exec_server.listen);
        let registers = config.exec_server.remote.is_some();
        let is_host = !flags.hubs.is_empty() || !config.host.hubs.is_empty();
        let stringd = flags.stringd.or(config.stringd.port);
        let others = others || exec_server.is_some() || registers || is_host || stringd.is_some();
        let listens = http.is_some() || unix.is_some() || others;
        let stdio = asks_stdio || (!listens && file.stdio);
        Ok(Self { stdio, http, unix, tls, client_ca, exec_server, registers, stringd, is_host })
    }

    /// Whether there is no listener. A service manager can still pass sockets.
    pub fn is_empty(&self) -> bool {
        *self == Self { tls: self.tls.clone(), client_ca: self.client_ca.clone(), ..Self::default() }
    }

    /// Whether stdin and stdout are the only listener.
    pub fn is_stdio_alone(&self) -> bool {
        let others = self.exec_server.is_some() || self.registers || self.is_host || self.stringd.is_some();
        self.stdio && self.http.is_none() && self.unix.is_none() && !others
    }

    /// Whether other machines can reach the HTTP listener without TLS, so that tokens can be intercepted.
    pub fn is_exposed(&self) -> bool {
        self.tls.is_none() && self.http.as_ref().is_some_and(|address| !is_loopback_address(address))
    }
}
