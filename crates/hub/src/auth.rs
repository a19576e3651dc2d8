//! Who somebody is: secrets and their digests, tokens and what they are for, and word of those that were removed.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use sha2::{Digest as _, Sha256};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::refusal::Refusal;
use crate::store::{Kind, Store, StoreError, Token, TokenId};

/// Bytes of a SHA-256, and of every secret made here.
const BYTES: usize = 32;
/// How often is looked whether somebody else, such as `rexhub token remove`, has changed something.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// A token's last use is written down at most once in so many seconds.
const USED_EVERY: i64 = 60;

/// A token or ticket in clear. Nothing prints it.
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    /// A new one that cannot be guessed.
    pub fn random() -> Result<Secret, getrandom::Error> {
        let mut bytes = [0; BYTES];
        getrandom::fill(&mut bytes)?;
        Ok(Secret(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
    }

    /// The text, for whom it is made.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// The SHA-256 of a secret: all that is kept of it. Digests are looked up, never secrets, so how long that takes says
/// nothing about a secret.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest([u8; BYTES]);

impl Digest {
    /// The digest of a secret.
    pub fn of(secret: &str) -> Digest {
        Digest(Sha256::digest(secret.as_bytes()).into())
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Digest")
    }
}

/// Now, in seconds since 1970.
pub fn now() -> i64 {
    jiff::Timestamp::now().as_second()
}

/// The token in `Authorization: Bearer TOKEN`, if there is such a header.
pub(crate) fn bearer(headers: &HeaderMap) -> Result<Option<&str>, Refusal> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let Some(value) = values.next() else { return Ok(None) };
    let is_only = values.next().is_none();
    let text = value.to_str().unwrap_or_default();
    let (scheme, token) = text.split_once(' ').unwrap_or((text, ""));
    match token.trim_matches(' ') {
        token if is_only && scheme.eq_ignore_ascii_case("bearer") && !token.is_empty() => Ok(Some(token)),
        _ => Err(Refusal::unproven(
            "malformed_token",
            "the Authorization header cannot be read: send one, as `Authorization: Bearer TOKEN`",
        )),
    }
}

/// The tokens of a running hub.
#[derive(Debug, Clone)]
pub struct Tokens {
    store: Arc<dyn Store>,
    known: watch::Receiver<HashSet<TokenId>>,
}

impl Tokens {
    /// Reads all tokens. The future tells about changes until it is cancelled.
    pub async fn watch(
        store: Arc<dyn Store>,
        stop: CancellationToken,
    ) -> Result<(Tokens, impl Future<Output = ()> + Send + 'static), StoreError> {
        let revision = store.revision().await?;
        let (sender, known) = watch::channel(ids(&*store).await?);
        let looking = look(store.clone(), sender, revision);
        let until = async move {
            stop.run_until_cancelled(looking).await;
        };
        Ok((Tokens { store, known }, until))
    }

    /// Where they are kept.
    pub fn store(&self) -> &dyn Store {
        &*self.store
    }

    /// Who shows this secret, if it is of a token of this kind.
    pub(crate) async fn check(&self, secret: Option<&str>, kind: Kind) -> Result<Token, Refusal> {
        let Some(secret) = secret else {
            let message = format!("a token of the kind {kind} is needed: send `Authorization: Bearer TOKEN`");
            return Err(Refusal::unproven("no_token", message));
        };
        let Some(token) = self.store.token_of(Digest::of(secret)).await? else {
            let message = "there is no such token, or no longer: `rexhub token add` makes one";
            return Err(Refusal::unproven("unknown_token", message));
        };
        if token.kind != kind {
            let message = format!("the token {:?} is of the kind {}, not {kind}", token.name, token.kind);
            return Err(Refusal::forbidden("wrong_kind", message));
        }
        let now = now();
        if token.last_used.is_none_or(|used| now >= used.saturating_add(USED_EVERY)) {
            self.store.token_used(token.id, now).await?;
        }
        Ok(token)
    }

    /// Waits until there is no such token any more.
    pub(crate) async fn removed(&self, token: TokenId) {
        let mut known = self.known.clone();
        loop {
            // One that is newer than what was read last is asked for by itself.
            let is_known = known.borrow_and_update().contains(&token);
            let is_there = match is_known {
                true => Ok(true),
                false => self.store.has_token(token).await,
            };
            match is_there {
                Ok(true) => {}
                Ok(false) => return,
                // Nothing may change that would have it looked for again.
                Err(_told_by_look) => {
                    tokio::time::sleep(LOOK_EVERY).await;
                    continue;
                }
            }
            if known.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }
}

/// Tells what tokens there are whenever that may have changed.
async fn look(store: Arc<dyn Store>, known: watch::Sender<HashSet<TokenId>>, mut revision: i64) {
    let mut fails = false;
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let looked = async {
            let now = store.revision().await?;
            if now != revision {
                known.send_replace(ids(&*store).await?);
                revision = now;
            }
            Ok::<_, StoreError>(())
        };
        match looked.await {
            Ok(()) => fails = false,
            Err(error) if !std::mem::replace(&mut fails, true) => {
                tracing::error!(error = &error as &dyn std::error::Error, "cannot see which tokens are left");
            }
            Err(_told) => {}
        }
    }
}

async fn ids(store: &dyn Store) -> Result<HashSet<TokenId>, StoreError> {
    Ok(store.tokens().await?.into_iter().map(|token| token.id).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_prints_a_secret_and_new_ones_differ() {
        let (one, two) = (Secret::random().unwrap(), Secret::random().unwrap());
        assert_ne!(one.expose(), two.expose());
        assert_eq!(one.expose().len(), 64);
        assert_eq!(format!("{one:?} {:?}", Digest::of(one.expose())), "Secret Digest");
    }

    #[test]
    fn a_bearer_token_is_one_whole_header() {
        let found = |values: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(AUTHORIZATION, http::HeaderValue::from_static(value));
            }
            bearer(&headers).map(|token| token.map(str::to_owned)).map_err(drop)
        };
        assert_eq!(found(&[]), Ok(None));
        assert_eq!(found(&["Bearer abc"]), Ok(Some("abc".to_owned())));
        assert_eq!(found(&["bearer  abc "]), Ok(Some("abc".to_owned())));
        for wrong in [&["Basic abc"][..], &["Bearer"], &["Bearer "], &["Bearer a", "Bearer a"]] {
            assert_eq!(found(wrong), Err(()), "{wrong:?}");
        }
    }
}
