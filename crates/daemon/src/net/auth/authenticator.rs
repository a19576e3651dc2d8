//! The authenticator: from the headers, peer address and certificate of a request to its caller.

use std::net::SocketAddr;
use std::sync::Arc;

use http::HeaderMap;
use link::listen::{ClientCertificate, Host, OriginCheck, OriginError, WebOrigin};

use super::caller::Caller;
use super::rejection::AuthRejection;
use super::{Auth, header};
use crate::config::ServerConfig;

/// Checks every request of a listener: first `Host` and `Origin`, then the credentials. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Authenticator {
    /// The tokens and certificates that are accepted.
    pub auth: Auth,
    /// The names of this server, and the trusted proxies.
    origins: Arc<OriginCheck>,
}

impl Authenticator {
    /// Uses the names and proxies of `server`.
    pub fn new(auth: Auth, server: &ServerConfig) -> Authenticator {
        let public = server.public_url.as_ref().and_then(|url| WebOrigin::parse(url));
        let listed = server.public_names.iter().filter_map(|name| Host::parse(name));
        let names = listed.chain(public.iter().map(|public| public.host.clone())).collect();
        let secure = public.filter(|public| public.secure).map(|public| public.host);
        let origins = OriginCheck::named(names, secure, server.trusted_proxies.clone());
        Authenticator { auth, origins: Arc::new(origins) }
    }

    /// The caller of a request. A token decides if there is one, even a wrong one; otherwise the client certificate,
    /// whose chain is verified already.
    pub fn authenticate(
        &self,
        headers: &HeaderMap,
        authority: Option<&str>,
        peer: Option<SocketAddr>,
        certificate: Option<&ClientCertificate>,
    ) -> Result<Caller, AuthRejection> {
        let address = self.check_origin(headers, authority, peer)?;
        let caller = match (header::token(headers)?, certificate) {
            (Some(token), _) => self.auth.bearer(token)?,
            (None, Some(certificate)) => self.auth.certificate(certificate)?,
            (None, None) => return Err(header::missing()),
        };
        Ok(Caller { address, ..caller })
    }

    /// Checks `Host` and `Origin` only, for routes without authentication. Returns the client's address if it is another
    /// machine.
    pub fn check_origin(
        &self,
        headers: &HeaderMap,
        authority: Option<&str>,
        peer: Option<SocketAddr>,
    ) -> Result<Option<Arc<str>>, AuthRejection> {
        self.origins.check(headers, authority, peer).map_err(|error| match &error {
            OriginError::NoHost | OriginError::SeveralHosts | OriginError::MalformedHost => {
                AuthRejection::malformed("bad_host", error.to_string())
            }
            OriginError::ForeignHost(_) => {
                let message = format!("{error}; add it to public_names in [server]");
                AuthRejection::forbidden("foreign_host", message)
            }
            OriginError::ForeignOrigin(_) => {
                let message = format!(
                    "{error}; if the page is this server's, add its name to public_names in [server]"
                );
                AuthRejection::forbidden("foreign_origin", message)
            }
        })
    }
}
