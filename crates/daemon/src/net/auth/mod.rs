//! Who may do what: callers, what proves them, where they may come from, and what they may reach.
//!
//! A [`Gate`] stands before every listener that is reached through a network: its [`Door`] looks where a request
//! comes from, its [`Auth`] who sends it. What comes out is a [`Caller`], or a [`Refusal`] with its reason.

mod caller;
mod certificate;
mod der;
mod door;
mod gate;
mod header;
mod host;
mod own;
mod proxies;
mod refusal;
mod refusals;
mod secret;
mod sources;
mod table;
mod token_file;

pub use caller::{Caller, Scope, Scopes};
pub use door::{Door, Visitor};
pub use gate::Gate;
pub use header::{BEARER_PROTOCOL, token as token_of};
pub(crate) use host::{Host, WebOrigin, is_loopback_address};
pub use own::own_token_file;
pub use proxies::Network;
pub use refusal::Refusal;
pub use refusals::Refusals;
pub use secret::{Digest, Secret};
pub use sources::{TokenReport, report};
pub(crate) use table::{FROM_VARIABLE, FROM_VARIABLE_FILE, OWN};
pub use token_file::Trouble;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::config::{Config, Paths};
use caller::Proof;
use table::{Given, Table};
use token_file::TokenFile;

/// How often [`Auth::keep_looking`] looks at the token files.
pub const LOOK: Duration = Duration::from_secs(1);

/// Why nobody can be let in.
#[derive(Debug, thiserror::Error)]
pub enum AuthError {
    /// A token file that is not fit to be believed.
    #[error("the token file {}: {trouble}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        trouble: Trouble,
    },
    /// A variable that holds no token.
    #[error("$REXD_TOKEN must be 1 to 4096 visible ASCII characters")]
    Variable,
    /// The same token under two names.
    #[error("{one} and {other} are the same token; make one of them anew")]
    Twins {
        /// One name.
        one: String,
        /// The other.
        other: String,
    },
    /// No token is configured, and there is no place to keep one.
    #[error(
        "no token is configured, and there is no state directory to make one in: set REXD_TOKEN_FILE or HOME"
    )]
    NoPlace,
    /// The token that the daemon makes for itself could not be made.
    #[error("the token file {} cannot be made: {}", path.display(), engine::error::errno_text(source))]
    Unwritable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

/// Who is known and by what. Cheap to clone; all clones see a reload.
#[derive(Debug, Clone)]
pub struct Auth {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    table: RwLock<Arc<Table>>,
    given: Given,
    /// Where the token lies that is made when none is configured.
    own_file: Option<PathBuf>,
    /// Counts the changes.
    changes: watch::Sender<u64>,
    /// Whether a listener needs a token, so that there is always one.
    needs_token: AtomicBool,
}

impl Auth {
    /// Reads the tokens of the environment and of the configuration.
    pub fn new(config: &Config, paths: &Paths) -> Result<Self, AuthError> {
        let given = Given { token: paths.token.clone(), file: paths.token_file.clone() };
        if given.token.as_ref().is_some_and(|token| !token_file::is_token(token.expose())) {
            return Err(AuthError::Variable);
        }
        let table = RwLock::new(Arc::new(Table::read(&config.auth, &given)?));
        let own_file = own_token_file(paths);
        let needs_token = AtomicBool::new(false);
        let changes = watch::Sender::new(0);
        Ok(Self { inner: Arc::new(Inner { table, given, own_file, changes, needs_token }) })
    }

    /// For listeners that need a token: with none configured, one is made in the state folder, or the one from
    /// the last time taken. Returns its file, for the operator to be told.
    pub fn ensure_token(&self) -> Result<Option<PathBuf>, AuthError> {
        self.inner.needs_token.store(true, Ordering::Release);
        if !self.table().has_no_token() {
            return Ok(None);
        }
        let (path, file) = self.own_token()?;
        self.replace(self.table().with_own(file));
        Ok(Some(path))
    }

    /// Puts the tokens of a new configuration in the place of the old ones, all at once. A bad one changes nothing.
    pub fn reload(&self, config: &Config) -> Result<(), AuthError> {
        let table = Table::read(&config.auth, &self.inner.given).and_then(|table| {
            let needs_own = table.has_no_token() && self.inner.needs_token.load(Ordering::Acquire);
            if needs_own { Ok(table.with_own(self.own_token()?.1)) } else { Ok(table) }
        });
        match table {
            Ok(table) => {
                self.replace(table);
                Ok(())
            }
            Err(error) => {
                tracing::error!("the tokens stay as they were: {error}");
                Err(error)
            }
        }
    }

    /// Who a token belongs to.
    pub fn bearer(&self, token: &str) -> Result<Caller, Refusal> {
        if token.is_empty() {
            return Err(header::missing());
        }
        if !token_file::is_token(token) {
            return Err(header::malformed("a token is made of visible ASCII characters"));
        }
        let table = self.looked_at();
        let caller = table.holder(&Digest::of(token));
        let caller = caller
            .ok_or_else(|| Refusal::unproven("wrong_token", "the token is not known, or not any more"))?;
        with_scopes(caller)
    }

    /// Who a certificate belongs to, given as DER. Whoever calls has verified its chain.
    pub fn certificate(&self, der: &[u8]) -> Result<Caller, Refusal> {
        let names = certificate::names(der).ok_or_else(|| {
            Refusal::unproven("bad_certificate", "the client certificate has no usable name")
        })?;
        let caller = self.table().bearer_of(&names).ok_or_else(|| {
            let message = format!(
                "the client certificate {:?} is not listed; add it to [[auth.certificates]]",
                names.first().map_or("", String::as_str)
            );
            Refusal::forbidden("unknown_certificate", message)
        })?;
        with_scopes(caller)
    }

    /// Whether somebody who was let in would be let in again, as the same and for the same.
    pub fn still_valid(&self, caller: &Caller) -> bool {
        let now = match &caller.proof {
            Proof::System => return true,
            Proof::Token(digest) => self.looked_at().holder(digest),
            Proof::Certificate(names) => self.table().bearer_of(names),
        };
        now.is_some_and(|now| {
            now.name == caller.name && now.scopes == caller.scopes && now.roots == caller.roots
        })
    }

    /// Nothing, if somebody who was let in is [still valid](Auth::still_valid), and otherwise the refusal.
    pub fn check(&self, caller: &Caller) -> Result<(), Refusal> {
        match self.still_valid(caller) {
            true => Ok(()),
            false => Err(Refusal::unproven("revoked", "access was revoked while the request came in")),
        }
    }

    /// Changes whenever somebody may have lost or gained something: ask [`Auth::still_valid`] then.
    pub fn changed(&self) -> watch::Receiver<u64> {
        self.inner.changes.subscribe()
    }

    /// Looks at the token files now and then, so that a removed one ends connections that ask nothing.
    pub async fn keep_looking(&self, stop: CancellationToken) {
        let mut ticks = tokio::time::interval(LOOK);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        while stop.run_until_cancelled(ticks.tick()).await.is_some() {
            self.looked_at();
        }
    }

    fn own_token(&self) -> Result<(PathBuf, TokenFile), AuthError> {
        let path = self.inner.own_file.clone().ok_or(AuthError::NoPlace)?;
        let file = own::make_or_take(&path)?;
        Ok((path, file))
    }

    fn table(&self) -> Arc<Table> {
        Arc::clone(&self.inner.table.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The table, after a look at the files behind it.
    fn looked_at(&self) -> Arc<Table> {
        let table = self.table();
        if table.look() {
            self.tell();
        }
        table
    }

    fn replace(&self, table: Table) {
        *self.inner.table.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(table);
        self.tell();
    }

    fn tell(&self) {
        self.inner.changes.send_modify(|changes| *changes = changes.wrapping_add(1));
    }
}

/// Somebody who may do nothing is known, and refused all the same.
fn with_scopes(caller: Caller) -> Result<Caller, Refusal> {
    if caller.scopes.is_empty() {
        return Err(Refusal::forbidden("scope", format!("{} has no scopes", caller.name)));
    }
    Ok(caller)
}

#[cfg(test)]
mod gate_tests;
#[cfg(test)]
mod tests;
