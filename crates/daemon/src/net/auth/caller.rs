//! The caller: the authenticated identity of a connection or request, with its scopes and roots.

use std::path::PathBuf;
use std::sync::Arc;

use link::listen::ClientCertificate;

use super::TokenDigest;
use super::rejection::AuthRejection;

/// A right that a method requires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Read and search files, list and watch processes.
    Read,
    /// Run commands, write to and end processes, change files. Includes `Read`.
    Exec,
    /// Answer approvals of other callers. Includes `Exec`.
    Admin,
}

/// The scopes of a caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Scopes {
    /// Has [`Scope::Read`].
    pub read: bool,
    /// Has [`Scope::Exec`].
    pub exec: bool,
    /// Has [`Scope::Admin`].
    pub admin: bool,
}

impl Scopes {
    /// All three scopes.
    pub const ALL: Scopes = Scopes { read: true, exec: true, admin: true };
    /// The scopes of a token or certificate without configured ones.
    pub const DEFAULT: Scopes = Scopes { read: true, exec: true, admin: false };

    /// True if no scope is granted.
    pub fn is_empty(self) -> bool {
        self == Scopes::default()
    }

    /// The names of the granted scopes, as in a configuration.
    pub fn names(self) -> Vec<&'static str> {
        let each = [(self.read, Scope::Read), (self.exec, Scope::Exec), (self.admin, Scope::Admin)];
        each.iter().filter(|(has, _)| *has).map(|(_, scope)| scope.name()).collect()
    }

    /// True if these scopes include `scope`: a larger one includes the smaller.
    pub fn allow(self, scope: Scope) -> bool {
        match scope {
            Scope::Read => self.read || self.exec || self.admin,
            Scope::Exec => self.exec || self.admin,
            Scope::Admin => self.admin,
        }
    }
}

impl Scope {
    /// The name in configurations and errors.
    pub fn name(self) -> &'static str {
        match self {
            Scope::Read => "read",
            Scope::Exec => "exec",
            Scope::Admin => "admin",
        }
    }
}

/// An authenticated identity with its scopes and roots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// The kind of credential and its name, as in `token:ci`, `cert:laptop`, `uid:1000`, `stdio`. Connections with the same
    /// name share one identity.
    pub name: Arc<str>,
    /// The granted scopes.
    pub scopes: Scopes,
    /// The subset of the operator's roots, or `None` for all.
    pub roots: Option<Vec<PathBuf>>,
    /// The client's address, if it is another machine or reported by a trusted proxy.
    pub address: Option<Arc<str>>,
    /// The credential, to check later whether it is still valid.
    pub(super) proof: Proof,
}

/// The credential of a caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Proof {
    /// Authenticated by the operating system for as long as the connection lasts.
    System,
    /// The digest of a token.
    Token(TokenDigest),
    /// A certificate and its names.
    Certificate(ClientCertificate, Arc<[String]>),
}

impl Caller {
    /// Rejects a request for which the caller lacks `scope`.
    pub fn require(&self, scope: Scope) -> Result<(), AuthRejection> {
        if self.scopes.allow(scope) { Ok(()) } else { Err(AuthRejection::scope(self, scope)) }
    }

    fn of_system(name: String) -> Caller {
        let name = Arc::from(name);
        Caller { name, scopes: Scopes::ALL, roots: None, address: None, proof: Proof::System }
    }

    /// The process at the other end of the standard streams.
    pub fn on_stdio() -> Caller {
        Caller::of_system("stdio".to_owned())
    }

    /// A caller that another daemon of this user has authenticated.
    pub(crate) fn forwarded(name: &str, scopes: Scopes, roots: Option<Vec<PathBuf>>) -> Caller {
        Caller { scopes, roots, ..Caller::of_system(name.to_owned()) }
    }

    /// Whether it is the user of this daemon, or root: on standard streams or on a unix socket.
    pub fn is_user(&self) -> bool {
        &*self.name == "stdio" || self.name.starts_with("uid:")
    }

    /// A client that the rendezvous authenticated.
    pub fn through_rendezvous() -> Caller {
        Caller::of_system("rendezvous".to_owned())
    }

    /// A user of a hub, with the scopes of its role there. A hub that does not name its users is one caller.
    pub fn of_hub(user: Option<&str>, scopes: Scopes) -> Caller {
        let name = user.map_or_else(|| "hub".to_owned(), |user| format!("user:{user}"));
        Caller { scopes, ..Caller::of_system(name) }
    }

    /// A client on the loopback interface, for a face without authentication there.
    pub fn on_loopback() -> Caller {
        Caller::of_system("loopback".to_owned())
    }

    /// A client with the one token of an exec-server listener.
    pub fn with_capability() -> Caller {
        Caller::of_system("token:exec-server".to_owned())
    }

    /// A user of this machine, from the credentials of a unix socket.
    pub fn user(uid: u32) -> Caller {
        Caller::of_system(format!("uid:{uid}"))
    }
}
