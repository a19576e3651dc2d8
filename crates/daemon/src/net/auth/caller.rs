//! Caller: somebody who has shown who they are, with what they may do. Every connection and every request has one.

use std::path::PathBuf;
use std::sync::Arc;

use super::refusal::Refusal;
use super::secret::Digest;

/// One kind of thing a caller may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Look: read and search files, list and watch processes.
    Read,
    /// Act: run commands, type into them, end them, change files. Includes looking.
    Exec,
    /// Administer: answer for others. Includes acting.
    Admin,
}

/// What a caller may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Scopes {
    /// May look.
    pub read: bool,
    /// May act.
    pub exec: bool,
    /// May administer.
    pub admin: bool,
}

impl Scopes {
    /// Everything.
    pub const ALL: Scopes = Scopes { read: true, exec: true, admin: true };
    /// What somebody has of whom the configuration says nothing else.
    pub const DEFAULT: Scopes = Scopes { read: true, exec: true, admin: false };

    /// Whether nothing at all is allowed.
    pub fn is_empty(self) -> bool {
        self == Scopes::default()
    }

    /// The words for them, as in a configuration.
    pub fn names(self) -> Vec<&'static str> {
        let each = [(self.read, Scope::Read), (self.exec, Scope::Exec), (self.admin, Scope::Admin)];
        each.iter().filter(|(has, _)| *has).map(|(_, scope)| scope.name()).collect()
    }

    /// Whether these scopes are enough for something that needs `scope`: a larger one includes the smaller.
    pub fn allow(self, scope: Scope) -> bool {
        match scope {
            Scope::Read => self.read || self.exec || self.admin,
            Scope::Exec => self.exec || self.admin,
            Scope::Admin => self.admin,
        }
    }
}

impl Scope {
    /// The word in configurations and in errors.
    pub fn name(self) -> &'static str {
        match self {
            Scope::Read => "read",
            Scope::Exec => "exec",
            Scope::Admin => "admin",
        }
    }
}

/// Somebody who has shown who they are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// What proved it and its name, as in `token:ci`, `cert:laptop`, `uid:1000`, `stdio`. Two connections with the
    /// same name are the same somebody.
    pub name: Arc<str>,
    /// What they may do.
    pub scopes: Scopes,
    /// Only these of the operator's directories, or all of them.
    pub roots: Option<Vec<PathBuf>>,
    /// Where they called from, if that is another machine or a proxy said so.
    pub address: Option<Arc<str>>,
    /// What they showed, so that it can be asked later whether it still counts.
    pub(super) proof: Proof,
}

/// What somebody showed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Proof {
    /// The operating system vouches for them, as long as the connection lasts.
    System,
    /// A token.
    Token(Digest),
    /// A certificate with these names.
    Certificate(Arc<[String]>),
}

impl Caller {
    /// Nothing, if they may do what needs this scope, and otherwise the refusal to answer with.
    pub fn require(&self, scope: Scope) -> Result<(), Refusal> {
        if self.scopes.allow(scope) { Ok(()) } else { Err(Refusal::scope(self, scope)) }
    }

    fn of_system(name: String) -> Caller {
        let name = Arc::from(name);
        Caller { name, scopes: Scopes::ALL, roots: None, address: None, proof: Proof::System }
    }

    /// Whoever started this program and holds its standard streams: the operating system has vouched for them.
    pub fn on_stdio() -> Caller {
        Caller::of_system("stdio".to_owned())
    }

    /// Somebody whom the rendezvous let in, where our own token registered us.
    pub fn through_rendezvous() -> Caller {
        Caller::of_system("rendezvous".to_owned())
    }

    /// Somebody of this machine who came over loopback, to a face that asks for nothing more there.
    pub fn on_loopback() -> Caller {
        Caller::of_system("loopback".to_owned())
    }

    /// Somebody who showed the one token of a listener.
    pub fn with_capability() -> Caller {
        Caller::of_system("token:exec-server".to_owned())
    }

    /// A user of this machine, as the kernel says.
    pub fn user(uid: u32) -> Caller {
        Caller::of_system(format!("uid:{uid}"))
    }
}
