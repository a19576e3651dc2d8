//! StoredSignIn: the access token of a stored sign-in, renewed when it expires.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use client::hub::{HubClient, HubError};
use client::target::{BearerToken, TokenFuture, TokenProvider, UrlTarget};
use client::{ConnectError, ConnectStep};

use super::logins::{Login, Logins};
use crate::route::registry::lock_file;

/// A token that expires within so many seconds is renewed before it is used.
const RENEW_BEFORE_SECONDS: i64 = 20;

/// The sign-in to one hub. Several processes may use and renew it.
#[derive(Debug)]
pub(super) struct StoredSignIn {
    file: PathBuf,
    url: UrlTarget,
    login: Mutex<Login>,
}

impl StoredSignIn {
    pub(super) fn new(file: PathBuf, url: UrlTarget, login: Login) -> StoredSignIn {
        StoredSignIn { file, url, login: Mutex::new(login) }
    }

    fn login(&self) -> Login {
        self.login.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn remember(&self, login: &Login) {
        *self.login.lock().unwrap_or_else(PoisonError::into_inner) = login.clone();
    }

    /// Renews the token that was rejected or has expired, unless another process has renewed it already.
    async fn renew(&self, old: &Login) -> Result<BearerToken, ConnectError> {
        let failed = |problem: String| ConnectError::new(&self.url, ConnectStep::Authenticate, problem);
        let path = self.file.clone();
        let lock = tokio::task::spawn_blocking(move || lock_file(&path)).await;
        let lock = lock.map_err(|error| failed(error.to_string()))?;
        let _lock = lock.map_err(|error| failed(format!("cannot lock the sign-in: {error}")))?;
        let mut logins = Logins::load(&self.file).map_err(|error| failed(error.message))?;
        let Some(stored) = logins.find(Some(&old.url)).cloned() else { return Err(self.ended()) };
        if stored.access_token != old.access_token && !expires_soon(&stored) {
            self.remember(&stored);
            return Ok(BearerToken(stored.access_token));
        }
        let Some(refresh) = stored.refresh_token.clone() else { return Err(self.ended()) };
        let fresh = match HubClient::anonymous(self.url.clone()).refresh(&refresh).await {
            Ok(tokens) => stored.with(tokens),
            Err(HubError::Connect(error)) => return Err(*error),
            Err(error) if error.is_transient() => return Err(failed(error.to_string()).transient()),
            Err(HubError::Refused { status, .. }) if status.is_client_error() => return Err(self.ended()),
            Err(error) => return Err(failed(error.to_string())),
        };
        logins.update(fresh.clone());
        logins.store(&self.file).map_err(|error| failed(error.message))?;
        self.remember(&fresh);
        Ok(BearerToken(fresh.access_token))
    }

    fn ended(&self) -> ConnectError {
        ConnectError::new(&self.url, ConnectStep::Authenticate, "the sign-in has expired or was revoked")
            .hint(format!("sign in again with `rex login {}`", self.url))
    }
}

impl TokenProvider for StoredSignIn {
    fn token<'a>(&'a self, rejected: Option<&'a BearerToken>) -> TokenFuture<'a> {
        let login = self.login();
        let is_rejected = rejected.is_some_and(|token| token.0 == login.access_token);
        match is_rejected || expires_soon(&login) {
            true => Box::pin(async move { self.renew(&login).await }),
            false => Box::pin(std::future::ready(Ok(BearerToken(login.access_token)))),
        }
    }
}

fn expires_soon(login: &Login) -> bool {
    let renew_at = login.expires_at.map(|at| at.saturating_sub(RENEW_BEFORE_SECONDS));
    renew_at.is_some_and(|at| jiff::Timestamp::now().as_second() >= at)
}
