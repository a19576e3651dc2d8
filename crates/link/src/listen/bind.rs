//! Binding a TCP listener to an address as it is written in flags and configuration.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use tokio::net::TcpListener;

/// Why an address cannot be bound.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// The text is not an address.
    #[error("invalid listen address {address:?}: {reason} (examples: 127.0.0.1:8080, [::1]:8080, :8080)")]
    Malformed {
        /// The address as it was written.
        address: String,
        /// The part that is invalid.
        reason: &'static str,
    },
    /// The operating system rejects it.
    #[error("cannot listen on {address}")]
    Refused {
        /// The address as it was written.
        address: String,
        /// The error of the system.
        source: io::Error,
    },
}

/// Listens on `HOST:PORT`; on the loopback interface for a bare port; on all interfaces for `:PORT`.
pub async fn bind(address: &str) -> Result<TcpListener, BindError> {
    let (host, port) = parts(address)?;
    let refused = |source| BindError::Refused { address: address.to_owned(), source };
    match host {
        BindHost::Host(host) => TcpListener::bind((host, port)).await.map_err(refused),
        BindHost::Loopback => TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await.map_err(refused),
        BindHost::All => match TcpListener::bind((IpAddr::V6(Ipv6Addr::UNSPECIFIED), port)).await {
            // The machine has no IPv6.
            Err(error) if is_unsupported(&error) => {
                TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).await.map_err(refused)
            }
            bound => bound.map_err(refused),
        },
    }
}

fn is_unsupported(error: &io::Error) -> bool {
    let unsupported = [rustix::io::Errno::AFNOSUPPORT, rustix::io::Errno::ADDRNOTAVAIL];
    unsupported.iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

#[derive(Debug, PartialEq, Eq)]
enum BindHost<'a> {
    Host(&'a str),
    Loopback,
    All,
}

fn parts(address: &str) -> Result<(BindHost<'_>, u16), BindError> {
    let bad = |reason| BindError::Malformed { address: address.to_owned(), reason };
    let (host, port) = match address.rsplit_once(':') {
        None => (BindHost::Loopback, address),
        Some(("", port)) => (BindHost::All, port),
        Some((host, port)) => {
            let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
            if inner.is_none() && host.contains([':', '[', ']', '/']) {
                return Err(bad("write an IPv6 address in brackets, and no scheme"));
            }
            (BindHost::Host(inner.unwrap_or(host)), port)
        }
    };
    let port = port.parse().map_err(|_| bad("the port is not a number from 0 to 65535"))?;
    Ok((host, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_hosts_and_brackets_are_parsed() {
        for (text, expected) in [
            ("8080", (BindHost::Loopback, 8080)),
            (":8080", (BindHost::All, 8080)),
            ("127.0.0.1:0", (BindHost::Host("127.0.0.1"), 0)),
            ("[::1]:80", (BindHost::Host("::1"), 80)),
            ("build-host:80", (BindHost::Host("build-host"), 80)),
        ] {
            assert_eq!(parts(text).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn an_invalid_address_is_an_error() {
        for text in ["", "host", "host:", "host:99999", "::1:80", "http://host:80", "127.0.0.1"] {
            assert!(parts(text).is_err(), "{text}");
        }
    }
}
