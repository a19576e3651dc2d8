//! The gate: the door and the list of who is known, asked in this order.

use std::net::SocketAddr;

use http::HeaderMap;

use super::caller::Caller;
use super::door::{Door, Visitor};
use super::refusal::Refusal;
use super::{Auth, header};

/// What stands before a listener. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Gate {
    /// Who is known.
    pub auth: Auth,
    /// Where requests may come from.
    pub door: std::sync::Arc<Door>,
}

impl Gate {
    /// A gate of these two.
    pub fn new(auth: Auth, door: Door) -> Self {
        Self { auth, door: std::sync::Arc::new(door) }
    }

    /// Lets a request in, or says why not. A token decides if there is one, even a wrong one; else the client
    /// certificate, which whoever calls has verified.
    pub fn admit(
        &self,
        headers: &HeaderMap,
        authority: Option<&str>,
        peer: Option<SocketAddr>,
        certificate: Option<&[u8]>,
    ) -> Result<Caller, Refusal> {
        let visitor = self.visit(headers, authority, peer)?;
        let caller = match (header::token(headers)?, certificate) {
            (Some(token), _) => self.auth.bearer(token)?,
            (None, Some(certificate)) => self.auth.certificate(certificate)?,
            (None, None) => return Err(header::missing()),
        };
        Ok(Caller { address: visitor.address, ..caller })
    }

    /// Looks only where a request comes from, for what everybody may ask.
    pub fn visit(
        &self,
        headers: &HeaderMap,
        authority: Option<&str>,
        peer: Option<SocketAddr>,
    ) -> Result<Visitor, Refusal> {
        self.door.visit(headers, authority, peer)
    }
}
