//! Which servers the hub sends notices to: users choose the URLs, so that by default only public addresses over TLS are used.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use http::Uri;

/// Whether notices may be sent to private addresses and without TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AddressRules {
    pub(crate) allows_private: bool,
}

/// Why a notice is not sent to a URL.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AddressError {
    #[error("not a URL with a host")]
    NotAUrl,
    #[error("the URL must begin with https://")]
    NotHttps,
    #[error("{0} is not a public address; start the hub with --push-allow-private to allow it")]
    Private(String),
    #[error("cannot resolve {0}")]
    Unresolved(String),
}

impl AddressRules {
    /// Checks what can be checked without a name server. Returns the host and the port.
    pub(crate) fn check(self, url: &str) -> Result<(String, u16), AddressError> {
        let uri: Uri = url.parse().map_err(|_| AddressError::NotAUrl)?;
        let authority = uri.authority().ok_or(AddressError::NotAUrl)?;
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase();
        if host.is_empty() || authority.as_str().contains('@') {
            return Err(AddressError::NotAUrl);
        }
        let port = match uri.scheme_str() {
            Some("https") => 443,
            Some("http") if self.allows_private => 80,
            _ => return Err(AddressError::NotHttps),
        };
        let is_private = match host.parse::<IpAddr>() {
            Ok(address) => !is_public(address),
            Err(_name) => {
                let name = host.trim_end_matches('.');
                name == "localhost" || !name.contains('.') || name.ends_with(".localhost")
            }
        };
        match is_private && !self.allows_private {
            true => Err(AddressError::Private(host)),
            false => Ok((host, authority.port_u16().unwrap_or(port))),
        }
    }

    /// The address to connect to. Every address of the name is checked, and the caller connects to the returned one, so that
    /// a name server cannot return another one in between.
    pub(crate) async fn resolve(self, url: &str) -> Result<SocketAddr, AddressError> {
        let (host, port) = self.check(url)?;
        let found = tokio::net::lookup_host((host.as_str(), port)).await;
        let found: Vec<SocketAddr> = found.map_err(|_| AddressError::Unresolved(host.clone()))?.collect();
        if !self.allows_private
            && let Some(private) = found.iter().find(|address| !is_public(address.ip()))
        {
            return Err(AddressError::Private(format!("{host} ({})", private.ip())));
        }
        found.first().copied().ok_or(AddressError::Unresolved(host))
    }
}

/// Whether an address belongs to the public internet.
fn is_public(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let is_special = match (a, b, c) {
        // This network, shared addresses of providers, protocol assignments, benchmarks, reserved.
        (0, ..) | (100, 64..=127, _) | (192, 0, 0) | (198, 18..=19, _) | (240.., ..) => true,
        _ => false,
    };
    !(is_special
        || address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_multicast()
        || address.is_documentation())
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let parts = address.segments();
    let embedded = |high: u16, low: u16| Ipv4Addr::from((u32::from(high) << 16) | u32::from(low));
    match parts {
        // Translation to IPv4, in two forms.
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => is_public_v4(embedded(high, low)),
        [0x2002, high, low, ..] => is_public_v4(embedded(high, low)),
        // Only this range is assigned to the internet; the rest of it that is not is for documentation and tunnels.
        [0x2001, 0xdb8, ..] | [0x2001, 0..=0x1ff, ..] => false,
        [0x2000..=0x3fff, ..] => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_public_addresses_over_tls_are_accepted() {
        let strict = AddressRules { allows_private: false };
        for url in ["https://push.example/x", "https://8.8.8.8/x", "https://[2606:4700::1]:8443/"] {
            assert!(strict.check(url).is_ok(), "{url}");
        }
        for url in
            ["http://push.example/x", "ftp://push.example/", "push.example", "https://a@push.example/", ""]
        {
            assert!(
                matches!(strict.check(url), Err(AddressError::NotHttps | AddressError::NotAUrl)),
                "{url}"
            );
        }
        for host in [
            "127.0.0.1",
            "10.1.2.3",
            "172.16.0.1",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "0.0.0.0",
            "255.255.255.255",
            "224.0.0.1",
            "[::1]",
            "[::]",
            "[fe80::1]",
            "[fd00::1]",
            "[::ffff:127.0.0.1]",
            "[64:ff9b::7f00:1]",
            "[2002:7f00:1::]",
            "[2001:db8::1]",
            "localhost",
            "x.localhost",
            "LOCALHOST.",
            "intranet",
        ] {
            let url = format!("https://{host}/x");
            assert!(matches!(strict.check(&url), Err(AddressError::Private(_))), "{url}");
            assert!(AddressRules { allows_private: true }.check(&url).is_ok(), "{url}");
        }
    }

    #[tokio::test]
    async fn a_name_that_leads_to_a_private_address_is_rejected_when_it_is_resolved() {
        // Not rejected by its name alone.
        let rules = AddressRules { allows_private: false };
        let found = rules.resolve("https://127.0.0.1.nip.invalid/").await;
        assert!(matches!(found, Err(AddressError::Unresolved(_))), "{found:?}");
        let allowed = AddressRules { allows_private: true }.resolve("http://localhost:81/").await.unwrap();
        assert!(allowed.ip().is_loopback() && allowed.port() == 81);
    }
}
