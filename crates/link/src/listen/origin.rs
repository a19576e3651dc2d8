//! The check of `Host` and `Origin`: a request must name this server, and must not come from a page of another site.
//!
//! A browser sends requests for pages of any site, and a name server can map any name to this machine. Neither can forge
//! these two headers.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use http::header::{HOST, ORIGIN};
use http::{HeaderMap, StatusCode, Uri};

use super::host::{Host, WebOrigin};
use super::proxies::{self, Network};

/// The longest part of a foreign origin that an error repeats, in characters.
const SHOWN_ORIGIN: usize = 200;

/// The rules of one front end for `Host` and `Origin`.
#[derive(Debug, Clone)]
pub struct OriginCheck {
    hosts: HostRule,
    origins: OriginRule,
    proxies: Vec<Network>,
}

/// Which `Host` is accepted.
#[derive(Debug, Clone)]
enum HostRule {
    /// Any, also none.
    Any,
    /// Exactly one, which can only be this machine.
    Loopback,
    /// Exactly one: an address, a loopback name, or one of these.
    Named(Vec<Host>),
}

/// Which `Origin` is accepted. No `Origin` always is: programs send none.
#[derive(Debug, Clone)]
enum OriginRule {
    /// No origin at all.
    None,
    /// The authority of the request's `Host`, or this one.
    SameAsHost(Option<String>),
    /// A loopback name or one of these; `secure` only over https, because another machine on the path can
    /// replace a page that is sent without TLS.
    Named { names: Vec<Host>, secure: Option<Host> },
}

/// Why a request is rejected for its `Host` or `Origin`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OriginError {
    /// No `Host`, and no authority in the request line.
    #[error("the request has no Host header")]
    NoHost,
    /// Several `Host` headers.
    #[error("the request has more than one Host header")]
    SeveralHosts,
    /// A `Host` that cannot be parsed.
    #[error("the Host header is not HOST or HOST:PORT")]
    MalformedHost,
    /// The name is not one of this server.
    #[error("{0:?} is not a name of this server")]
    ForeignHost(String),
    /// A page of another site sent the request.
    #[error("requests from pages of {0:?} are rejected")]
    ForeignOrigin(String),
}

impl OriginError {
    /// The status of the response.
    pub fn status(&self) -> StatusCode {
        match self {
            OriginError::NoHost | OriginError::SeveralHosts | OriginError::MalformedHost => {
                StatusCode::BAD_REQUEST
            }
            OriginError::ForeignHost(_) | OriginError::ForeignOrigin(_) => StatusCode::FORBIDDEN,
        }
    }
}

impl OriginCheck {
    /// Accepts this machine's addresses and loopback names as `Host`, and loopback pages as `Origin`.
    pub fn loopback_pages() -> OriginCheck {
        OriginCheck::named(Vec::new(), None, Vec::new())
    }

    /// Like [`OriginCheck::loopback_pages`], and also `names`; `secure` is the one of them whose pages must come over
    /// https. Addresses are taken from the forwarding headers of `proxies`.
    pub fn named(names: Vec<Host>, secure: Option<Host>, proxies: Vec<Network>) -> OriginCheck {
        let origins = OriginRule::Named { names: names.clone(), secure };
        OriginCheck { hosts: HostRule::Named(names), origins, proxies }
    }

    /// Rejects every `Origin`. With `only_loopback`, the `Host` must be a loopback name or address.
    pub fn no_pages(only_loopback: bool) -> OriginCheck {
        let hosts = if only_loopback { HostRule::Loopback } else { HostRule::Any };
        OriginCheck { hosts, origins: OriginRule::None, proxies: Vec::new() }
    }

    /// Accepts every `Host`, and as `Origin` the same authority or `public`.
    pub fn same_origin(public: Option<String>) -> OriginCheck {
        OriginCheck { hosts: HostRule::Any, origins: OriginRule::SameAsHost(public), proxies: Vec::new() }
    }

    /// Checks a request: `authority` is that of its request line, `peer` the other end of its connection. Returns the
    /// client's address if it is another machine, or if a trusted proxy reports it.
    pub fn check(
        &self,
        headers: &HeaderMap,
        authority: Option<&str>,
        peer: Option<SocketAddr>,
    ) -> Result<Option<Arc<str>>, OriginError> {
        let peer = peer.map(|peer| peer.ip().to_canonical());
        let proxy = peer.filter(|peer| proxies::is_trusted(&self.proxies, *peer));
        self.check_host(headers, authority, proxy.is_some())?;
        self.check_origin(headers)?;
        Ok(self.address(headers, peer, proxy))
    }

    fn address(&self, headers: &HeaderMap, peer: Option<IpAddr>, proxy: Option<IpAddr>) -> Option<Arc<str>> {
        let address = match proxy {
            Some(proxy) => Some(proxies::origin(&self.proxies, proxy, headers)),
            None => peer,
        };
        let is_elsewhere = |address: &IpAddr| !address.is_loopback() || Some(*address) != peer;
        address.filter(is_elsewhere).map(|address| Arc::from(address.to_string()))
    }

    fn check_host(
        &self,
        headers: &HeaderMap,
        authority: Option<&str>,
        is_proxied: bool,
    ) -> Result<(), OriginError> {
        if matches!(self.hosts, HostRule::Any) {
            return Ok(());
        }
        let mut hosts = headers.get_all(HOST).iter();
        let host = hosts.next().map(|host| host.to_str().unwrap_or_default());
        if hosts.next().is_some() {
            return Err(OriginError::SeveralHosts);
        }
        if host.is_none() && authority.is_none() {
            return Err(OriginError::NoHost);
        }
        let forwarded = headers.get_all("x-forwarded-host");
        if is_proxied && forwarded.iter().next().is_some() {
            // The proxy's own name for this server does not matter; every name that the client used does.
            let names = forwarded.iter().flat_map(|value| value.to_str().unwrap_or_default().split(','));
            return names.map(str::trim).try_for_each(|name| self.check_name(name));
        }
        host.into_iter().chain(authority).try_for_each(|name| self.check_name(name))
    }

    /// An address always leads to this server; a name only if it is known, because any name can be mapped here.
    fn check_name(&self, text: &str) -> Result<(), OriginError> {
        let Some(host) = Host::parse_authority(text) else { return Err(OriginError::MalformedHost) };
        let is_accepted = match (&self.hosts, &host) {
            (HostRule::Any, _) | (HostRule::Named(_), Host::Address(_)) => true,
            (HostRule::Named(names), Host::Name(_)) => host.is_loopback() || names.contains(&host),
            (HostRule::Loopback, _) => host.is_loopback(),
        };
        match is_accepted {
            true => Ok(()),
            false => Err(OriginError::ForeignHost(host.to_string())),
        }
    }

    fn check_origin(&self, headers: &HeaderMap) -> Result<(), OriginError> {
        for value in headers.get_all(ORIGIN) {
            let text = value.to_str().unwrap_or_default();
            if !self.is_own(text, headers) {
                return Err(OriginError::ForeignOrigin(text.chars().take(SHOWN_ORIGIN).collect()));
            }
        }
        Ok(())
    }

    fn is_own(&self, origin: &str, headers: &HeaderMap) -> bool {
        match &self.origins {
            OriginRule::None => false,
            OriginRule::SameAsHost(public) => {
                let origin: Option<Uri> = origin.parse().ok();
                let origin = origin.as_ref().and_then(Uri::authority).map(|origin| origin.as_str());
                let host = headers.get(HOST).and_then(|host| host.to_str().ok());
                let own = [host, public.as_deref()];
                origin.is_some_and(|origin| {
                    own.into_iter().flatten().any(|own| own.eq_ignore_ascii_case(origin))
                })
            }
            OriginRule::Named { names, secure } => WebOrigin::parse(origin).is_some_and(|origin| {
                let is_safe = origin.secure || secure.as_ref() != Some(&origin.host);
                origin.host.is_loopback() || (is_safe && names.contains(&origin.host))
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(check: &OriginCheck, headers: &[(&'static str, &str)]) -> Result<(), OriginError> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, value.parse().unwrap());
        }
        check.check(&map, None, None).map(drop)
    }

    #[test]
    fn a_server_without_pages_rejects_every_origin() {
        let (local, origin) = (("host", "127.0.0.1:99"), ("origin", "http://127.0.0.1:99"));
        let loopback = OriginCheck::no_pages(true);
        assert_eq!(check(&loopback, &[local]), Ok(()));
        assert_eq!(check(&loopback, &[]), Err(OriginError::NoHost));
        for foreign in ["evil.example:99", "10.0.0.1:99"] {
            assert!(matches!(check(&loopback, &[("host", foreign)]), Err(OriginError::ForeignHost(_))));
        }
        for rules in [loopback, OriginCheck::no_pages(false)] {
            assert!(matches!(check(&rules, &[local, origin]), Err(OriginError::ForeignOrigin(_))));
        }
        assert_eq!(check(&OriginCheck::no_pages(false), &[]), Ok(()));
    }

    #[test]
    fn the_same_origin_is_that_of_the_host_or_the_public_name() {
        let rules = OriginCheck::same_origin(Some("hub.example".to_owned()));
        let host = ("host", "10.0.0.1:80");
        for own in ["http://10.0.0.1:80", "https://HUB.example"] {
            assert_eq!(check(&rules, &[host, ("origin", own)]), Ok(()), "{own}");
        }
        for foreign in ["http://10.0.0.1", "null", "https://evil.example"] {
            assert!(check(&rules, &[host, ("origin", foreign)]).is_err(), "{foreign}");
        }
    }

    #[test]
    fn loopback_pages_and_addresses_are_accepted_and_other_names_are_not() {
        let rules = OriginCheck::loopback_pages();
        let host = ("host", "localhost");
        for origin in [
            "http://evil.example",
            "null",
            "https://localhost.evil.example",
            "http://10.0.0.1",
            "ftp://localhost",
        ] {
            assert!(check(&rules, &[host, ("origin", origin)]).is_err(), "{origin}");
        }
        for origin in ["http://localhost:5173", "http://127.0.0.1", "https://[::1]:8"] {
            assert_eq!(check(&rules, &[host, ("origin", origin)]), Ok(()), "{origin}");
        }
        for host in ["evil.example", "localhost.evil.example:80"] {
            assert_eq!(
                check(&rules, &[("host", host)]).map_err(|error| error.status()),
                Err(StatusCode::FORBIDDEN)
            );
        }
        assert_eq!(check(&rules, &[("host", "")]), Err(OriginError::MalformedHost));
        assert_eq!(check(&rules, &[host, host]), Err(OriginError::SeveralHosts));
        assert_eq!(check(&rules, &[("host", "[::1]:8080")]), Ok(()));
    }
}
