//! Authentication: callers, their credentials, and the scopes and roots they are limited to.
//!
//! An [`Authenticator`] checks every request that arrives over a network: `Host` and `Origin` with
//! [`link::listen::OriginCheck`], then the credentials with [`Auth`]. The result is a [`Caller`] or an [`AuthRejection`].

mod authenticator;
mod caller;
mod certificate;
mod header;
mod own;
mod rejection;
mod rejection_log;
mod sources;
mod table;
mod token_file;

pub use authenticator::Authenticator;
pub use caller::{Caller, Scope, Scopes};
pub use header::{BEARER_PROTOCOL, token as token_of};
pub(crate) use link::listen::{Host, WebOrigin, is_loopback_address};
pub use link::listen::{Network, Secret, TokenDigest};
pub use own::own_token_file;
pub use rejection::AuthRejection;
pub use rejection_log::RejectionLog;
pub use sources::{TokenReport, report};
pub(crate) use table::{FROM_VARIABLE, FROM_VARIABLE_FILE, OWN};
pub use token_file::TokenFileError;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use link::listen::ClientCertificate;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::config::{Config, Paths};
use caller::Proof;
use table::CredentialTable;
use token_file::TokenFile;

/// How often [`Auth::watch_files`] checks the token files.
pub const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Why the credentials cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum AuthError {
    /// A token file that cannot be used.
    #[error("token file {}: {cause}", path.display())]
    File {
        /// The path of the file.
        path: PathBuf,
        /// The reason.
        cause: TokenFileError,
    },
    /// A variable that is not a token.
    #[error("$REXD_TOKEN must be 1 to 4096 visible ASCII characters")]
    Variable,
    /// The same token under two names.
    #[error("{one} and {other} are the same token; replace one of them")]
    Duplicate {
        /// The first name.
        one: String,
        /// The second name.
        other: String,
    },
    /// No token is configured, and no state directory exists to create one in.
    #[error(
        "no token is configured, and there is no state directory to create one in: set REXD_TOKEN_FILE or HOME"
    )]
    NoStateDir,
    /// The daemon's own token file could not be created.
    #[error("creating the token file {} failed: {}", path.display(), engine::error::errno_text(source))]
    Unwritable {
        /// The path of the file.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
}

/// The accepted tokens and certificates. Cheap to clone; a reload applies to all clones.
#[derive(Debug, Clone)]
pub struct Auth {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    table: RwLock<Arc<CredentialTable>>,
    /// The tokens of the environment, and the directory of the token that is created when none is configured.
    paths: Paths,
    /// The number of changes so far.
    changes: watch::Sender<u64>,
    /// True if a listener needs a token, so that one must always exist.
    needs_token: AtomicBool,
}

impl Auth {
    /// Reads the tokens of the environment and of the configuration.
    pub fn new(config: &Config, paths: &Paths) -> Result<Self, AuthError> {
        if paths.token.as_ref().is_some_and(|token| !token_file::is_token(token.expose())) {
            return Err(AuthError::Variable);
        }
        let table = RwLock::new(Arc::new(CredentialTable::read(&config.auth, paths)?));
        let (changes, needs_token) = (watch::Sender::new(0), AtomicBool::new(false));
        Ok(Self { inner: Arc::new(Inner { table, paths: paths.clone(), changes, needs_token }) })
    }

    /// For listeners that need a token: if none is configured, opens or creates the one in the state directory. Returns
    /// its path, to show it to the operator.
    pub fn ensure_token(&self) -> Result<Option<PathBuf>, AuthError> {
        self.inner.needs_token.store(true, Ordering::Release);
        if !self.table().has_no_token() {
            return Ok(None);
        }
        let (path, file) = self.own_token()?;
        self.replace(self.table().with_own(file));
        Ok(Some(path))
    }

    /// Replaces all credentials by those of a new configuration. An error changes nothing.
    pub fn reload(&self, config: &Config) -> Result<(), AuthError> {
        let mut table = CredentialTable::read(&config.auth, &self.inner.paths)?;
        if table.has_no_token() && self.inner.needs_token.load(Ordering::Acquire) {
            table = table.with_own(self.own_token()?.1);
        }
        self.replace(table);
        Ok(())
    }

    /// The caller of a token.
    pub fn bearer(&self, token: &str) -> Result<Caller, AuthRejection> {
        if token.is_empty() {
            return Err(header::missing());
        }
        if !token_file::is_token(token) {
            return Err(header::malformed("a token consists of visible ASCII characters"));
        }
        let caller = self.refreshed().token_caller(&TokenDigest::of(token));
        let unknown = || AuthRejection::unauthenticated("wrong_token", "unknown or revoked token");
        with_scopes(caller.ok_or_else(unknown)?)
    }

    /// The caller of a client certificate, whose chain was verified in the handshake.
    pub fn certificate(&self, certificate: &ClientCertificate) -> Result<Caller, AuthRejection> {
        if !certificate.is_accepted() {
            let message = "the CA of the client certificate was removed";
            return Err(AuthRejection::unauthenticated("revoked", message));
        }
        let names = certificate::names(certificate.der()).ok_or_else(|| {
            AuthRejection::unauthenticated("bad_certificate", "the client certificate has no usable name")
        })?;
        let caller = self.table().certificate_caller(certificate, &names).ok_or_else(|| {
            let message = format!(
                "the client certificate {:?} is not listed; add it to [[auth.certificates]]",
                names.first().map_or("", String::as_str)
            );
            AuthRejection::forbidden("unknown_certificate", message)
        })?;
        with_scopes(caller)
    }

    /// True if an authenticated caller would be authenticated again with the same name, scopes and roots.
    pub fn is_valid(&self, caller: &Caller) -> bool {
        let now = match &caller.proof {
            Proof::System => return true,
            Proof::Token(digest) => self.refreshed().token_caller(digest),
            Proof::Certificate(certificate, _) if !certificate.is_accepted() => None,
            Proof::Certificate(certificate, names) => self.table().certificate_caller(certificate, names),
        };
        now.is_some_and(|now| {
            now.name == caller.name && now.scopes == caller.scopes && now.roots == caller.roots
        })
    }

    /// Rejects a caller that is not [valid](Auth::is_valid) any more.
    pub fn check(&self, caller: &Caller) -> Result<(), AuthRejection> {
        let revoked = || AuthRejection::unauthenticated("revoked", "access was revoked during the request");
        self.is_valid(caller).then_some(()).ok_or_else(revoked)
    }

    /// Changes whenever the credentials may have changed; check [`Auth::is_valid`] then.
    pub fn changed(&self) -> watch::Receiver<u64> {
        self.inner.changes.subscribe()
    }

    /// Makes open connections check their credentials again, after the client CA was reloaded.
    pub fn recheck(&self) {
        self.notify();
    }

    /// Checks the token files every second until `stop`, so that removing one ends idle connections too.
    pub async fn watch_files(&self, stop: CancellationToken) {
        let mut ticks = tokio::time::interval(CHECK_INTERVAL);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        while stop.run_until_cancelled(ticks.tick()).await.is_some() {
            self.refreshed();
        }
    }

    fn own_token(&self) -> Result<(PathBuf, TokenFile), AuthError> {
        let path = own_token_file(&self.inner.paths).ok_or(AuthError::NoStateDir)?;
        let file = own::open_or_create(&path)?;
        Ok((path, file))
    }

    fn table(&self) -> Arc<CredentialTable> {
        Arc::clone(&self.inner.table.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The table after a check of its files.
    fn refreshed(&self) -> Arc<CredentialTable> {
        let table = self.table();
        if table.refresh() {
            self.notify();
        }
        table
    }

    fn replace(&self, table: CredentialTable) {
        *self.inner.table.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(table);
        self.notify();
    }

    fn notify(&self) {
        self.inner.changes.send_modify(|changes| *changes = changes.wrapping_add(1));
    }
}

/// Rejects a caller without any scope.
fn with_scopes(caller: Caller) -> Result<Caller, AuthRejection> {
    if caller.scopes.is_empty() {
        return Err(AuthRejection::forbidden("scope", format!("{} has no scopes", caller.name)));
    }
    Ok(caller)
}

#[cfg(test)]
mod authenticator_tests;
#[cfg(test)]
mod tests;
