//! Authentication: tokens of programs, sign-ins of users, their roles, and notification when one is removed.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use link::listen::bearer_token;
use serde::Serialize;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, watch};
use tokio_util::sync::CancellationToken;

use crate::api_error::ApiError;
use crate::store::{ShareId, SignInId, Store, StoreError, Token, TokenId, TokenKind, UserId};
use crate::wakeups::{NodeWakeups, Topic, Wakeup};

pub use link::listen::{Secret, TokenDigest};

/// How often the store is checked for changes of processes that send no wake-up, such as `rexhub token remove`.
const CHECK_INTERVAL: Duration = Duration::from_millis(250);
/// A token's last use is stored at most once in this time, in seconds.
const LAST_USED_INTERVAL: i64 = 60;

/// The current time in seconds since 1970.
pub fn now() -> i64 {
    jiff::Timestamp::now().as_second()
}

/// The current time in milliseconds since 1970.
pub fn now_ms() -> i64 {
    jiff::Timestamp::now().as_millisecond()
}

/// What a user or a client token may do. Each role includes the ones before it.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, serde::Deserialize, clap::ValueEnum,
)]
#[serde(rename_all = "lowercase")]
pub enum UserRole {
    /// Watches runs.
    Viewer,
    /// Also starts runs, types and approves.
    Operator,
    /// Also manages users, hosts and tokens.
    Admin,
}

impl UserRole {
    /// The name in the database and in output.
    pub fn word(self) -> &'static str {
        match self {
            UserRole::Viewer => "viewer",
            UserRole::Operator => "operator",
            UserRole::Admin => "admin",
        }
    }

    /// The role with this stored name.
    pub(crate) fn stored(word: &str) -> Result<UserRole, StoreError> {
        let found = [UserRole::Viewer, UserRole::Operator, UserRole::Admin]
            .into_iter()
            .find(|role| role.word() == word);
        found.ok_or_else(|| StoreError::UnknownValue { column: "role", value: word.to_owned() })
    }
}

impl fmt::Display for UserRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

/// What a connection was authenticated with. The connection ends when it is removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Credential {
    /// A token of a program.
    Token(TokenId),
    /// A sign-in of a user.
    SignIn(SignInId, UserId),
    /// A host with its own token.
    Host(String),
    /// A read-only link to this run.
    Share(ShareId, Arc<str>),
}

/// An authenticated client of the API: a user, or a program with a client token.
#[derive(Debug, Clone)]
pub struct Principal {
    /// The name of the user or token.
    pub name: Arc<str>,
    /// What it may do.
    pub role: UserRole,
    /// What it was authenticated with.
    pub credential: Credential,
}

impl Principal {
    /// The name in the audit.
    pub fn actor(&self) -> String {
        let kind = match self.credential {
            Credential::Token(_) => "token",
            Credential::Share(..) => "share",
            Credential::SignIn(..) | Credential::Host(_) => "user",
        };
        format!("{kind}:{}", self.name)
    }

    /// The run to which it is confined.
    pub fn only_run(&self) -> Option<&Arc<str>> {
        match &self.credential {
            Credential::Share(_, run) => Some(run),
            Credential::Token(_) | Credential::SignIn(..) | Credential::Host(_) => None,
        }
    }
}

/// The token in `Authorization: Bearer TOKEN`, if there is such a header.
pub(crate) fn bearer(headers: &HeaderMap) -> Result<Option<&str>, ApiError> {
    bearer_token(headers).map_err(|error| {
        let message = format!("{error}; send one header `Authorization: Bearer TOKEN`");
        ApiError::unauthenticated("malformed_token", message)
    })
}

/// The tokens and sign-ins of a running hub.
#[derive(Debug, Clone)]
pub struct Tokens {
    store: Store,
    revision: watch::Receiver<i64>,
    wakeups: NodeWakeups,
}

impl Tokens {
    /// Reads the state. The future publishes changes until `stop`; run it on a task.
    pub async fn watch(
        store: Store,
        wakeups: NodeWakeups,
        stop: CancellationToken,
    ) -> Result<(Tokens, impl Future<Output = ()> + Send + 'static), StoreError> {
        let received = wakeups.subscribe();
        let (sender, revision) = watch::channel(store.revision().await?);
        let publishing = publish_changes(store.clone(), sender, received);
        let until = async move {
            stop.run_until_cancelled(publishing).await;
        };
        Ok((Tokens { store, revision, wakeups }, until))
    }

    /// The store of the tokens.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Applies a change of this node on all nodes at once, instead of at the next check.
    pub fn changed(&self) {
        self.wakeups.publish(Topic::Revision);
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
        self.record_use(&token).await?;
        Ok(token)
    }

    /// The user or client with this access token or client token; `None` if it is neither.
    pub(crate) async fn principal(&self, secret: &str) -> Result<Option<Principal>, StoreError> {
        let digest = TokenDigest::of(secret);
        if let Some(sign_in) = self.store.sign_in_of(digest, now()).await? {
            let credential = Credential::SignIn(sign_in.id, sign_in.user.id);
            return Ok(Some(Principal {
                name: sign_in.user.name.into(),
                role: sign_in.user.role,
                credential,
            }));
        }
        let token = self.store.token_of(digest).await?.filter(|token| token.kind == TokenKind::Client);
        let Some(token) = token else { return Ok(None) };
        self.record_use(&token).await?;
        // Client tokens of earlier versions have no role, and permitted nothing.
        let role = token.role.unwrap_or(UserRole::Viewer);
        Ok(Some(Principal { name: token.name.into(), role, credential: Credential::Token(token.id) }))
    }

    /// The viewer of one run with the token of this link. Callers confine it to [`Principal::only_run`].
    pub(crate) async fn share(&self, secret: &str) -> Result<Option<Principal>, StoreError> {
        let share = self.store.share_of(TokenDigest::of(secret), now()).await?;
        Ok(share.map(|share| Principal {
            name: share.id.0.to_string().into(),
            role: UserRole::Viewer,
            credential: Credential::Share(share.id, share.run_id),
        }))
    }

    async fn record_use(&self, token: &Token) -> Result<(), StoreError> {
        let now = now();
        match token.last_used.is_none_or(|used| now >= used.saturating_add(LAST_USED_INTERVAL)) {
            true => self.store.token_used(token.id, now).await,
            false => Ok(()),
        }
    }

    /// Waits until the credential is removed or has ended.
    pub(crate) async fn removed(&self, credential: &Credential) {
        let mut revision = self.revision.clone();
        loop {
            revision.mark_unchanged();
            let ends = match self.valid_until(credential).await {
                Ok(Some(ends)) => ends,
                Ok(None) => return,
                // `publish_changes` logs the error; no change may follow, so try again.
                Err(_logged) => {
                    tokio::time::sleep(CHECK_INTERVAL).await;
                    continue;
                }
            };
            let left = u64::try_from(ends.saturating_sub(now()).clamp(1, 3600)).unwrap_or(1);
            tokio::select! {
                changed = revision.changed() => if changed.is_err() {
                    return std::future::pending().await;
                },
                () = tokio::time::sleep(Duration::from_secs(left)) => {}
            }
        }
    }

    /// When the credential ends, in seconds since 1970; `None` if it has ended or was removed.
    async fn valid_until(&self, credential: &Credential) -> Result<Option<i64>, StoreError> {
        Ok(match credential {
            Credential::Token(id) => self.store.has_token(*id).await?.then_some(i64::MAX),
            Credential::SignIn(id, _) => self.store.sign_in(*id, now()).await?.map(|sign_in| sign_in.ends),
            Credential::Share(id, _) => self.store.share(*id, now()).await?.map(|share| share.ends),
            Credential::Host(id) => self.store.host(id, 0).await?.map(|_| i64::MAX),
        })
    }
}

/// Publishes the revision of the store whenever it has changed.
async fn publish_changes(
    store: Store,
    revision: watch::Sender<i64>,
    mut wakeups: broadcast::Receiver<Wakeup>,
) {
    let mut is_failing = false;
    loop {
        tokio::select! {
            () = tokio::time::sleep(CHECK_INTERVAL) => {}
            () = revision_wakeup(&mut wakeups) => {}
        }
        match store.revision().await {
            Ok(now) => {
                is_failing = false;
                revision.send_if_modified(|known| std::mem::replace(known, now) != now);
            }
            Err(error) if !std::mem::replace(&mut is_failing, true) => {
                let error = &error as &dyn std::error::Error;
                tracing::error!(error, "checking the tokens for changes failed");
            }
            Err(_logged_before) => {}
        }
    }
}

/// Waits for a wake-up about the revision; one that was missed counts too.
async fn revision_wakeup(wakeups: &mut broadcast::Receiver<Wakeup>) {
    loop {
        match wakeups.recv().await {
            Ok(Wakeup { topic: Topic::Revision, .. }) | Err(RecvError::Lagged(_)) => return,
            Ok(_other) => {}
            // Then only the interval counts.
            Err(RecvError::Closed) => return std::future::pending().await,
        }
    }
}
