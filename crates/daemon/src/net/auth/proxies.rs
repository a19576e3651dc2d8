//! Trusted proxies: whose word is taken for where a request comes from.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use http::HeaderMap;
use http::header::FORWARDED;

/// How many hops are looked at; more are nobody's real way.
const MAX_HOPS: usize = 32;

/// A range of addresses, as in `10.0.0.0/8`; a single address is a range of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    first: IpAddr,
    bits: u8,
}

/// A text that is no range of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it must be an address or a range such as 10.0.0.0/8 or fd00::/8")]
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
    /// Whether an address lies in it. `::ffff:10.0.0.1` is `10.0.0.1`.
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

/// Whether an address is one of a trusted proxy.
pub(super) fn is_trusted(networks: &[Network], address: IpAddr) -> bool {
    networks.iter().any(|network| network.contains(address))
}

/// Where a request that came from a trusted proxy started: the right-most hop that is not trusted. A proxy that
/// is told two different stories, one of which only a client can have made up, is not believed.
pub(super) fn origin(networks: &[Network], proxy: IpAddr, headers: &HeaderMap) -> IpAddr {
    let x_forwarded = walk(networks, proxy, hops(headers, "x-forwarded-for", |text| Some(text)));
    let forwarded = walk(networks, proxy, hops(headers, FORWARDED.as_str(), forwarded_for));
    match (x_forwarded, forwarded) {
        (Some(one), Some(other)) if one != other => proxy,
        (one, other) => one.or(other).unwrap_or(proxy),
    }
}

/// From the nearest hop outwards, as long as those who report are trusted and what they report is an address.
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

/// The hops of a header that may come several times and lists them from the outermost to the nearest; None when
/// there is no such header. A hop that is no address is None: nothing beyond it is believed.
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

/// The `for` of one element of a `Forwarded` header. Nothing that is an address holds a comma or a semicolon, so
/// quotes need no more than to be taken off.
fn forwarded_for(element: &str) -> Option<&str> {
    let mut pairs = element.split(';').filter_map(|pair| pair.trim().split_once('='));
    let (_, value) = pairs.find(|(name, _)| name.eq_ignore_ascii_case("for"))?;
    Some(value.trim_matches('"'))
}

/// `1.2.3.4`, `1.2.3.4:5`, `::1`, `[::1]`, `[::1]:5`.
fn address(text: &str) -> Option<IpAddr> {
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let parsed = bare.parse().or_else(|_| text.parse::<SocketAddr>().map(|address| address.ip()));
    parsed.ok().map(|address: IpAddr| address.to_canonical())
}
