//! Listeners: what is served where, of what flags and the file say together.

use std::net::SocketAddr;
use std::path::PathBuf;

use super::section::ConfigError;
use super::{Config, TlsFiles};
use crate::cli::args::ServeArgs;
use crate::net::auth::is_loopback_address;

/// Everything that is served on.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Listeners {
    /// Standard input and output.
    pub stdio: bool,
    /// HTTP and WebSocket on this address.
    pub http: Option<String>,
    /// A unix socket.
    pub unix: Option<PathBuf>,
    /// TLS for HTTP.
    pub tls: Option<TlsFiles>,
    /// Who signs the certificates of clients.
    pub client_ca: Option<PathBuf>,
    /// Codex's face, on this address.
    pub exec_server: Option<SocketAddr>,
    /// Codex's face, through a rendezvous.
    pub registers: bool,
}

impl Listeners {
    /// Flags win over the file, key by key. `--stdio` alone is stdio alone, since whoever starts `rexd` through ssh
    /// must not open ports; a call without anything follows the file. Standard streams are served beside others
    /// only if a flag says so: to a service manager they are nobody.
    pub fn new(flags: &ServeArgs, config: &Config) -> Result<Self, ConfigError> {
        let file = &config.server;
        let others = flags.exec_server.is_some() || flags.stringd.is_some() || flags.hub.is_some();
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
        let listens = http.is_some() || unix.is_some() || others || exec_server.is_some() || registers;
        let stdio = asks_stdio || (!listens && file.stdio);
        Ok(Self { stdio, http, unix, tls, client_ca, exec_server, registers })
    }

    /// Whether there is nothing to serve; a service manager may still hand over sockets.
    pub fn is_empty(&self) -> bool {
        *self == Self { tls: self.tls.clone(), client_ca: self.client_ca.clone(), ..Self::default() }
    }

    /// Whether standard streams are all there is to serve.
    pub fn is_stdio_alone(&self) -> bool {
        let exec_server = self.exec_server.is_some() || self.registers;
        self.stdio && self.http.is_none() && self.unix.is_none() && !exec_server
    }

    /// Whether the HTTP listener can be reached from elsewhere, and its tokens be read on the way.
    pub fn is_exposed(&self) -> bool {
        self.tls.is_none() && self.http.as_ref().is_some_and(|address| !is_loopback_address(address))
    }
}
