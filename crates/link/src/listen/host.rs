//! Host names and addresses in `Host`, `Origin` and the configuration.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A DNS name in lower case without a trailing dot, or an IP address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Host {
    /// A name: its name server decides to which address it leads.
    Name(String),
    /// An address, which no name server can redirect.
    Address(IpAddr),
}

impl Host {
    /// Parses a host without a port, as in a list of names.
    pub fn parse(text: &str) -> Option<Self> {
        if let Some(inside) = text.strip_prefix('[') {
            let address: Ipv6Addr = inside.strip_suffix(']')?.parse().ok()?;
            return Some(Self::Address(IpAddr::V6(address).to_canonical()));
        }
        if let Ok(address) = text.parse::<Ipv4Addr>() {
            return Some(Self::Address(address.into()));
        }
        let name = text.strip_suffix('.').unwrap_or(text);
        let is_label = |label: &str| {
            (1..=63).contains(&label.len())
                && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
        };
        let is_name = name.len() <= 253 && name.split('.').all(is_label);
        is_name.then(|| Self::Name(name.to_ascii_lowercase()))
    }

    /// Parses `HOST` or `HOST:PORT`, and nothing else: no user, no path, no space.
    pub fn parse_authority(text: &str) -> Option<Self> {
        let (host, port) = match text.rfind(':') {
            // The last colon of a bare `[::1]` is inside the brackets.
            Some(at) if !text.ends_with(']') => (text.get(..at)?, text.get(at + 1..)?),
            _ => (text, ""),
        };
        let is_port = port.len() <= 5 && port.bytes().all(|byte| byte.is_ascii_digit());
        if is_port { Self::parse(host) } else { None }
    }

    /// True if it can only be this machine.
    pub fn is_loopback(&self) -> bool {
        match self {
            Self::Name(name) => name == "localhost" || name.ends_with(".localhost"),
            Self::Address(address) => address.is_loopback(),
        }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Host::Name(name) => f.write_str(name),
            Host::Address(address) => address.fmt(f),
        }
    }
}

/// True if a listener at this address (`HOST:PORT`) can only be reached from this machine.
pub fn is_loopback_address(listen: &str) -> bool {
    Host::parse_authority(listen).is_some_and(|host| host.is_loopback())
}

/// An origin as a browser sends it: `http(s)://HOST[:PORT]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebOrigin {
    /// True for `https`.
    pub secure: bool,
    /// The host, without its port.
    pub host: Host,
}

impl WebOrigin {
    /// Parses an origin; `None` for every other scheme and for `null`.
    pub fn parse(text: &str) -> Option<Self> {
        let (scheme, authority) = text.split_once("://")?;
        let secure = match scheme.to_ascii_lowercase().as_str() {
            "https" => true,
            "http" => false,
            _ => return None,
        };
        Some(Self { secure, host: Host::parse_authority(authority)? })
    }
}
