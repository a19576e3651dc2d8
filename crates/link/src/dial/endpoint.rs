//! The endpoint of a URL: host, port, path and encryption.

use std::net::SocketAddr;

use http::Uri;
use tokio::net::TcpStream;

use super::{DialError, Duplex, Tls, tls};
use crate::tcp;

/// The target of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Endpoint {
    pub(super) is_encrypted: bool,
    /// A name or an address; an IPv6 address without brackets.
    pub(super) host: String,
    pub(super) port: u16,
    /// Host and port as they were written.
    pub(super) authority: String,
    /// The path with its query.
    pub(super) path: String,
}

impl Endpoint {
    /// Parses a URL of one of two schemes: plain first, encrypted second.
    pub(super) fn parse(url: &str, (plain, encrypted): (&str, &str)) -> Result<Endpoint, DialError> {
        let shown = || url.split(['?', '#']).next().unwrap_or_default().to_owned();
        let wrong = |problem| DialError::Url { url: shown(), problem };
        let uri: Uri = url.parse().map_err(|_| wrong("it is no URL"))?;
        let is_encrypted = match uri.scheme_str() {
            Some(scheme) if scheme.eq_ignore_ascii_case(plain) => false,
            Some(scheme) if scheme.eq_ignore_ascii_case(encrypted) => true,
            _ if plain == "ws" => return Err(wrong("expected ws:// or wss://")),
            _ => return Err(wrong("expected http:// or https://")),
        };
        let authority = uri.authority().ok_or_else(|| wrong("it names no host"))?;
        if authority.as_str().contains('@') {
            return Err(wrong("a password does not belong into it"));
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        if host.is_empty() {
            return Err(wrong("it names no host"));
        }
        Ok(Endpoint {
            is_encrypted,
            host,
            port: authority.port_u16().unwrap_or(if is_encrypted { 443 } else { 80 }),
            authority: authority.as_str().to_owned(),
            path: uri.path_and_query().map_or("/", |path| path.as_str()).to_owned(),
        })
    }

    /// Host and port, an IPv6 address in brackets.
    pub(super) fn address(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }

    /// Connects, with TLS if the scheme requires it.
    pub(super) async fn connect(&self, tls: &Tls) -> Result<Box<dyn Duplex>, DialError> {
        self.connect_to(None, tls).await
    }

    /// Connects to this address instead of resolving the name.
    pub(super) async fn connect_to(
        &self,
        resolved: Option<SocketAddr>,
        tls: &Tls,
    ) -> Result<Box<dyn Duplex>, DialError> {
        let stream = self.connect_tcp(resolved).await;
        let stream = stream.map_err(|source| DialError::Reach { address: self.address(), source })?;
        if !self.is_encrypted {
            return Ok(Box::new(stream));
        }
        let encrypted = tls::wrap(stream, &self.host, tls).await;
        let encrypted = encrypted.map_err(|source| DialError::Tls { address: self.address(), source })?;
        Ok(Box::new(encrypted))
    }

    async fn connect_tcp(&self, resolved: Option<SocketAddr>) -> std::io::Result<TcpStream> {
        let stream = match resolved {
            Some(resolved) => TcpStream::connect(resolved).await?,
            None => TcpStream::connect((self.host.as_str(), self.port)).await?,
        };
        tcp::set_options(&stream)?;
        Ok(stream)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_parsed_into_host_port_and_scheme() {
        let found = Endpoint::parse("wss://[::1]:8443/a/b?ticket=1", ("ws", "wss")).unwrap();
        assert_eq!((found.is_encrypted, found.host.as_str(), found.port), (true, "::1", 8443));
        assert_eq!((found.authority.as_str(), found.path.as_str()), ("[::1]:8443", "/a/b?ticket=1"));
        let plain = Endpoint::parse("HTTP://example.org", ("http", "https")).unwrap();
        assert_eq!((plain.port, plain.path.as_str()), (80, "/"));
    }

    /// Without these, a dead peer would be noticed only after the kernel's own two hours.
    #[tokio::test]
    async fn a_dialled_socket_gives_up_on_a_dead_peer() {
        use rustix::net::sockopt;
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let endpoint = Endpoint::parse(&format!("ws://{address}"), ("ws", "wss")).unwrap();
        for resolved in [None, Some(address)] {
            let stream = endpoint.connect_tcp(resolved).await.unwrap();
            assert!(sockopt::socket_keepalive(&stream).unwrap());
            assert_eq!(sockopt::tcp_keepidle(&stream).unwrap().as_secs(), 30);
            assert_eq!(sockopt::tcp_user_timeout(&stream).unwrap(), 60_000);
        }
    }

    #[test]
    fn an_invalid_url_is_rejected_without_showing_its_query() {
        for url in
            ["ftp://host/x", "http:///x", "host:80", "http://user:word@host/", "ws://host?token=secret"]
        {
            let error = Endpoint::parse(url, ("http", "https")).unwrap_err().to_string();
            assert!(!error.contains("secret"), "{error}");
        }
    }
}
