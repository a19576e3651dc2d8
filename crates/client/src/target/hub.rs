//! Hosts of a hub as targets, and the source of the token that the hub accepts.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use super::{BearerToken, UrlTarget};
use crate::error::ConnectError;

/// A host of a hub, or all of its hosts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HubTarget {
    /// The id or name of the host; `None` means all hosts, on which no session can be opened.
    pub host: Option<String>,
    /// The address of the hub, with a fixed token if there is one; `None` until the login is known.
    pub hub: Option<UrlTarget>,
    /// Where the token comes from, if the address has no fixed one.
    pub sign_in: Option<SharedTokenProvider>,
}

/// Provides the access token of a sign-in, and replaces one that has expired.
pub trait TokenProvider: fmt::Debug + Send + Sync {
    /// The token to send. `rejected` is the token that the hub has just rejected.
    fn token<'a>(&'a self, rejected: Option<&'a BearerToken>) -> TokenFuture<'a>;
}

/// The token of a [`TokenProvider`], once it is known.
pub type TokenFuture<'a> = Pin<Box<dyn Future<Output = Result<BearerToken, ConnectError>> + Send + 'a>>;

/// A token provider that several connections share.
#[derive(Debug, Clone)]
pub struct SharedTokenProvider(pub Arc<dyn TokenProvider>);

impl PartialEq for SharedTokenProvider {
    fn eq(&self, other: &SharedTokenProvider) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for SharedTokenProvider {}

impl HubTarget {
    /// The target of `hub:HOST`, or of `hub:` if the text is empty.
    pub fn parse(host: &str) -> Result<HubTarget, &'static str> {
        let is_odd = |c: char| c.is_whitespace() || c.is_control() || "/?#".contains(c);
        match host.contains(is_odd) {
            true => Err("expected the id or name of a host after `hub:`, or nothing for all hosts"),
            false => Ok(HubTarget {
                host: Some(host.to_owned()).filter(|host| !host.is_empty()),
                hub: None,
                sign_in: None,
            }),
        }
    }
}

impl fmt::Display for HubTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "hub:{}", self.host.as_deref().unwrap_or_default())
    }
}
