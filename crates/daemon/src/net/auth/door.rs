//! The door: whether a request comes to us by a name of ours and from a page of ours, and from where.
//!
//! A browser sends requests for pages of other sites, and a name server may point any name at this machine. Both
//! are told by the headers `Host` and `Origin`, which no page can forge.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use http::HeaderMap;
use http::header::{HOST, ORIGIN};

use super::host::{Host, WebOrigin};
use super::proxies::{self, Network};
use super::refusal::Refusal;
use crate::config::ServerConfig;

/// Somebody before they have shown who they are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Visitor {
    /// Where they come from, if that is another machine or a trusted proxy said so.
    pub address: Option<Arc<str>>,
}

/// Which names are ours, and whose word is taken.
#[derive(Debug, Clone, Default)]
pub struct Door {
    names: Vec<Host>,
    /// The name of `public_url`, if that is an `https` one: a page of this name that came without TLS could have
    /// been written by anybody on the way.
    secure_name: Option<Host>,
    proxies: Vec<Network>,
}

impl Door {
    /// The door that the configuration describes.
    pub fn new(server: &ServerConfig) -> Self {
        let public = server.public_url.as_ref().and_then(|url| WebOrigin::parse(url));
        let listed = server.public_names.iter().filter_map(|name| Host::parse(name));
        let names = listed.chain(public.iter().map(|public| public.host.clone())).collect();
        let secure_name = public.filter(|public| public.secure).map(|public| public.host);
        Self { names, secure_name, proxies: server.trusted_proxies.clone() }
    }

    /// Looks at where a request comes from: `authority` is the one of its target, if it names one; `peer` is the
    /// other end of its connection, if that has an address.
    pub fn visit(
        &self,
        headers: &HeaderMap,
        authority: Option<&str>,
        peer: Option<SocketAddr>,
    ) -> Result<Visitor, Refusal> {
        let peer = peer.map(|peer| peer.ip().to_canonical());
        let proxy = peer.filter(|peer| proxies::is_trusted(&self.proxies, *peer));
        self.check_host(headers, authority, proxy.is_some())?;
        self.check_origin(headers)?;
        Ok(Visitor { address: self.address(headers, peer, proxy) })
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
    ) -> Result<(), Refusal> {
        let mut hosts = headers.get_all(HOST).iter();
        let host = hosts.next().map(|host| host.to_str().unwrap_or_default());
        if hosts.next().is_some() {
            return Err(Refusal::malformed("bad_host", "there is more than one Host header"));
        }
        if host.is_none() && authority.is_none() {
            return Err(Refusal::malformed("bad_host", "there is no Host header"));
        }
        let forwarded = headers.get_all("x-forwarded-host");
        if is_proxied && forwarded.iter().next().is_some() {
            // The proxy's own name for us does not matter; every name it was called by does.
            let names = forwarded.iter().flat_map(|value| value.to_str().unwrap_or_default().split(','));
            return names.map(str::trim).try_for_each(|name| self.check_name(name));
        }
        host.into_iter().chain(authority).try_for_each(|name| self.check_name(name))
    }

    /// An address is always ours, since it led here; a name only if it is known: any name can be pointed at us.
    fn check_name(&self, text: &str) -> Result<(), Refusal> {
        let Some(host) = Host::parse_authority(text) else {
            return Err(Refusal::malformed("bad_host", "the Host header is not HOST or HOST:PORT"));
        };
        match host {
            Host::Address(_) => Ok(()),
            host if host.is_loopback() || self.names.contains(&host) => Ok(()),
            Host::Name(name) => Err(Refusal::forbidden(
                "foreign_host",
                format!("{name:?} is not a name of this server; add it to public_names in [server]"),
            )),
        }
    }

    fn check_origin(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        for value in headers.get_all(ORIGIN) {
            let text = value.to_str().unwrap_or_default();
            if !WebOrigin::parse(text).is_some_and(|origin| self.is_own(&origin)) {
                let shown: String = text.chars().take(200).collect();
                return Err(Refusal::forbidden(
                    "foreign_origin",
                    format!(
                        "pages of {shown:?} may not use this server; \
                         if it is its own, add its name to public_names in [server]"
                    ),
                ));
            }
        }
        Ok(())
    }

    fn is_own(&self, origin: &WebOrigin) -> bool {
        let is_safe = origin.secure || self.secure_name.as_ref() != Some(&origin.host);
        origin.host.is_loopback() || (is_safe && self.names.contains(&origin.host))
    }
}
