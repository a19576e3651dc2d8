//! Authentication: the tokens of the hub, their kinds, and notification when one is removed.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use link::listen::bearer_token;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::api_error::ApiError;
use crate::store::{Store, StoreError, Token, TokenId, TokenKind};

pub use link::listen::{Secret, TokenDigest};

/// How often the store is checked for changes of other processes, such as `rexhub token remove`.
const CHECK_INTERVAL: Duration = Duration::from_millis(250);
/// A token's last use is stored at most once in this time, in seconds.
const LAST_USED_INTERVAL: i64 = 60;

/// The current time in seconds since 1970.
pub fn now() -> i64 {
    jiff::Timestamp::now().as_second()
}

/// The token in `Authorization: Bearer TOKEN`, if there is such a header.
pub(crate) fn bearer(headers: &HeaderMap) -> Result<Option<&str>, ApiError> {
    bearer_token(headers).map_err(|error| {
        let message = format!("{error}; send one header `Authorization: Bearer TOKEN`");
        ApiError::unauthenticated("malformed_token", message)
    })
}

/// The tokens of a running hub.
#[derive(Debug, Clone)]
pub struct Tokens {
    store: Arc<dyn Store>,
    known: watch::Receiver<HashSet<TokenId>>,
}

impl Tokens {
    /// Reads all tokens. The future publishes changes until `stop`; run it on a task.
    pub async fn watch(
        store: Arc<dyn Store>,
        stop: CancellationToken,
    ) -> Result<(Tokens, impl Future<Output = ()> + Send + 'static), StoreError> {
        let revision = store.revision().await?;
        let (sender, known) = watch::channel(ids(&*store).await?);
        let publishing = publish_changes(store.clone(), sender, revision);
        let until = async move {
            stop.run_until_cancelled(publishing).await;
        };
        Ok((Tokens { store, known }, until))
    }

    /// The store of the tokens.
    pub fn store(&self) -> &dyn Store {
        &*self.store
    }

    /// The token with this secret, if it is of this kind.
    pub(crate) async fn check(&self, secret: Option<&str>, kind: TokenKind) -> Result<Token, ApiError> {
        let Some(secret) = secret else {
            let message =
                format!("a token of the kind {kind} is required: send `Authorization: Bearer TOKEN`");
            return Err(ApiError::unauthenticated("no_token", message));
        };
        let Some(token) = self.store.token_of(TokenDigest::of(secret)).await? else {
            let message = "unknown or removed token; create one with `rexhub token add`";
            return Err(ApiError::unauthenticated("unknown_token", message));
        };
        if token.kind != kind {
            let message = format!("the token {:?} is of the kind {}, not {kind}", token.name, token.kind);
            return Err(ApiError::forbidden("wrong_kind", message));
        }
        let now = now();
        if token.last_used.is_none_or(|used| now >= used.saturating_add(LAST_USED_INTERVAL)) {
            self.store.token_used(token.id, now).await?;
        }
        Ok(token)
    }

    /// Waits until the token is removed.
    pub(crate) async fn removed(&self, token: TokenId) {
        let mut known = self.known.clone();
        loop {
            // A token newer than the last check is looked up.
            let is_known = known.borrow_and_update().contains(&token);
            let is_there = match is_known {
                true => Ok(true),
                false => self.store.has_token(token).await,
            };
            match is_there {
                Ok(true) => {}
                Ok(false) => return,
                // `publish_changes` logs the error; no change may follow, so try again.
                Err(_logged) => {
                    tokio::time::sleep(CHECK_INTERVAL).await;
                    continue;
                }
            }
            if known.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }
}

/// Publishes the set of tokens whenever it may have changed.
async fn publish_changes(store: Arc<dyn Store>, known: watch::Sender<HashSet<TokenId>>, mut revision: i64) {
    let mut is_failing = false;
    loop {
        tokio::time::sleep(CHECK_INTERVAL).await;
        let checked = async {
            let now = store.revision().await?;
            if now != revision {
                known.send_replace(ids(&*store).await?);
                revision = now;
            }
            Ok::<_, StoreError>(())
        };
        match checked.await {
            Ok(()) => is_failing = false,
            Err(error) if !std::mem::replace(&mut is_failing, true) => {
                tracing::error!(
                    error = &error as &dyn std::error::Error,
                    "checking the tokens for changes failed"
                );
            }
            Err(_logged_before) => {}
        }
    }
}

async fn ids(store: &dyn Store) -> Result<HashSet<TokenId>, StoreError> {
    Ok(store.tokens().await?.into_iter().map(|token| token.id).collect())
}
