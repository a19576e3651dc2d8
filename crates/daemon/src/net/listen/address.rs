//! Addresses to listen on, as people write them.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use tokio::net::TcpListener;

/// An address that cannot be listened on.
#[derive(Debug, thiserror::Error)]
pub enum BadAddress {
    /// It is no address.
    #[error(
        "{address:?} is not an address to listen on: {reason} (examples: 127.0.0.1:8080, [::1]:8080, :8080)"
    )]
    Malformed {
        /// As it was written.
        address: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The system refuses it.
    #[error("cannot listen on {address}")]
    Refused {
        /// As it was written.
        address: String,
        /// Why.
        source: io::Error,
    },
}

/// Listens on `HOST:PORT`; on the loopback interface for a bare port; on all interfaces for `:PORT`.
pub async fn bind(address: &str) -> Result<TcpListener, BadAddress> {
    let (host, port) = parts(address)?;
    let refused = |source| BadAddress::Refused { address: address.to_owned(), source };
    match host {
        Place::Host(host) => TcpListener::bind((host, port)).await.map_err(refused),
        Place::Loopback => TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await.map_err(refused),
        Place::All => match TcpListener::bind((IpAddr::V6(Ipv6Addr::UNSPECIFIED), port)).await {
            // A machine without IPv6.
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
enum Place<'a> {
    Host(&'a str),
    Loopback,
    All,
}

fn parts(address: &str) -> Result<(Place<'_>, u16), BadAddress> {
    let bad = |reason| BadAddress::Malformed { address: address.to_owned(), reason };
    let (host, port) = match address.rsplit_once(':') {
        None => (Place::Loopback, address),
        Some(("", port)) => (Place::All, port),
        Some((host, port)) => {
            let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
            if inner.is_none() && host.contains([':', '[', ']', '/']) {
                return Err(bad("an IPv6 address stands in brackets, and no scheme stands before it"));
            }
            (Place::Host(inner.unwrap_or(host)), port)
        }
    };
    let port = port.parse().map_err(|_| bad("its port is not a number from 0 to 65535"))?;
    Ok((host, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_hosts_and_brackets_are_understood() {
        for (text, expected) in [
            ("8080", (Place::Loopback, 8080)),
            (":8080", (Place::All, 8080)),
            ("127.0.0.1:0", (Place::Host("127.0.0.1"), 0)),
            ("[::1]:80", (Place::Host("::1"), 80)),
            ("build-host:80", (Place::Host("build-host"), 80)),
        ] {
            assert_eq!(parts(text).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_address_is_refused_with_the_reason() {
        for text in ["", "host", "host:", "host:99999", "::1:80", "http://host:80", "127.0.0.1"] {
            assert!(parts(text).is_err(), "{text}");
        }
    }
}
