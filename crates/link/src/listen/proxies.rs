//! Trusted proxies: the client's address in `X-Forwarded-For` and `Forwarded` headers.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use http::HeaderMap;
use http::header::FORWARDED;

/// The limit on hops that are read from one header.
const MAX_HOPS: usize = 32;

/// A range of addresses, as in `10.0.0.0/8`; a single address is a range of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    first: IpAddr,
    bits: u8,
}

/// The error for a text that is no address range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected an address or a range such as 10.0.0.0/8 or fd00::/8")]
pub struct NotANetwork;

impl FromStr for Network {
    type Err = NotANetwork;

    fn from_str(text: &str) -> Result<Self, NotANetwork> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let first: IpAddr = address.parse().map_err(|_| NotANetwork)?;
        let width = if first.is_ipv4() { 32 } else { 128 };
        let is_number = |bits: &str| !bits.is_empty() && bits.bytes().all(|byte| byte.is_ascii_digit());
        let bits = match bits {
            None => width,
            Some(bits) if is_number(bits) => bits.parse().map_err(|_| NotANetwork)?,
            Some(_) => return Err(NotANetwork),
        };
        if bits > width { Err(NotANetwork) } else { Ok(Self { first, bits }) }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.first, self.bits)
    }
}

impl Network {
    /// True if the range contains the address. `::ffff:10.0.0.1` is `10.0.0.1`.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.first, address.to_canonical()) {
            (IpAddr::V4(first), IpAddr::V4(address)) => {
                let different = first.to_bits() ^ address.to_bits();
                different.checked_shr(32 - u32::from(self.bits)).unwrap_or(0) == 0
            }
            (IpAddr::V6(first), IpAddr::V6(address)) => {
                let different = first.to_bits() ^ address.to_bits();
                different.checked_shr(128 - u32::from(self.bits)).unwrap_or(0) == 0
            }
            _ => false,
        }
    }
}

/// True if the address belongs to a trusted proxy.
pub(super) fn is_trusted(networks: &[Network], address: IpAddr) -> bool {
    networks.iter().any(|network| network.contains(address))
}

/// The client's address behind a trusted proxy: the right-most hop that is not trusted. If the two headers disagree, a
/// client forged one of them, and the proxy's own address is used.
pub(super) fn origin(networks: &[Network], proxy: IpAddr, headers: &HeaderMap) -> IpAddr {
    let x_forwarded = walk(networks, proxy, hops(headers, "x-forwarded-for", |text| Some(text)));
    let forwarded = walk(networks, proxy, hops(headers, FORWARDED.as_str(), forwarded_for));
    match (x_forwarded, forwarded) {
        (Some(one), Some(other)) if one != other => proxy,
        (one, other) => one.or(other).unwrap_or(proxy),
    }
}

/// Walks from the nearest hop outwards, until a hop is not trusted or not an address.
fn walk(networks: &[Network], proxy: IpAddr, hops: Option<Vec<Option<IpAddr>>>) -> Option<IpAddr> {
    let mut last = proxy;
    for hop in hops?.into_iter().rev().take(MAX_HOPS) {
        let Some(hop) = hop else { break };
        last = hop;
        if !is_trusted(networks, hop) {
            break;
        }
    }
    Some(last)
}

/// The hops of a header that may occur several times, from the outermost to the nearest; `None` without the header. A hop
/// that is no address is `None`, and hops beyond it are ignored.
fn hops(
    headers: &HeaderMap,
    name: &str,
    address_of: impl Fn(&str) -> Option<&str>,
) -> Option<Vec<Option<IpAddr>>> {
    let mut found = None;
    for value in headers.get_all(name) {
        let hops: &mut Vec<_> = found.get_or_insert_default();
        let elements = value.to_str().unwrap_or("?").split(',');
        hops.extend(elements.map(|element| address(address_of(element.trim())?)));
    }
    found
}

/// The `for` parameter of one element of a `Forwarded` header. An address contains no comma or semicolon, so it is enough
/// to strip the quotes.
fn forwarded_for(element: &str) -> Option<&str> {
    let mut pairs = element.split(';').filter_map(|pair| pair.trim().split_once('='));
    let (_, value) = pairs.find(|(name, _)| name.eq_ignore_ascii_case("for"))?;
    Some(value.trim_matches('"'))
}

/// Parses `1.2.3.4`, `1.2.3.4:5`, `::1`, `[::1]` or `[::1]:5`.
fn address(text: &str) -> Option<IpAddr> {
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let parsed = bare.parse().or_else(|_| text.parse::<SocketAddr>().map(|address| address.ip()));
    parsed.ok().map(|address: IpAddr| address.to_canonical())
}
