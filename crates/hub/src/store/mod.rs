//! The hub's stored state, behind a trait that hides the database.

mod sqlite;

use std::fmt;
use std::path::PathBuf;

use futures_util::future::BoxFuture;
use serde::Serialize;

use crate::auth::TokenDigest;

pub use sqlite::Sqlite;

/// The number of a token. Numbers of removed tokens are not reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TokenId(pub i64);

/// The use of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum TokenKind {
    /// Registers an executor and serves it.
    Executor,
    /// Connects to executors: a Codex client.
    Harness,
    /// Uses the hub's API.
    Client,
}

impl TokenKind {
    /// Every kind of token.
    pub const ALL: [TokenKind; 3] = [TokenKind::Executor, TokenKind::Harness, TokenKind::Client];

    /// The name in the database and in output.
    pub fn word(self) -> &'static str {
        match self {
            TokenKind::Executor => "executor",
            TokenKind::Harness => "harness",
            TokenKind::Client => "client",
        }
    }

    fn parse(word: &str) -> Option<TokenKind> {
        TokenKind::ALL.into_iter().find(|kind| kind.word() == word)
    }
}

impl fmt::Display for TokenKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

/// A stored token, without its secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// The number of the token.
    pub id: TokenId,
    /// The unique name.
    pub name: String,
    /// The use of the token.
    pub kind: TokenKind,
    /// The creation time in seconds since 1970.
    pub created: i64,
    /// The last use in seconds since 1970, exact to a minute.
    pub last_used: Option<i64>,
}

/// A token to store.
#[derive(Debug, Clone)]
pub struct NewToken {
    /// The unique name.
    pub name: String,
    /// The use of the token.
    pub kind: TokenKind,
    /// The digest of the secret.
    pub digest: TokenDigest,
    /// The current time in seconds since 1970.
    pub created: i64,
}

/// The request of a token to own an executor.
#[derive(Debug, Clone, Copy)]
pub struct ExecutorClaim {
    /// The claiming token.
    pub token: TokenId,
    /// The limit on executors of this token.
    pub limit: i64,
    /// The current time in seconds since 1970.
    pub now: i64,
}

/// Why an operation of the store failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A token with this name exists.
    #[error("a token named {0:?} exists: choose another name, or remove it first")]
    NameTaken(String),
    /// The data directory cannot be created or used.
    #[error("cannot use the data directory {}", directory.display())]
    DataDir {
        /// The path of the directory.
        directory: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// The schema cannot be migrated.
    #[error("migrating the database failed: was it written by a newer rexhub?")]
    Migrate(#[from] sqlx::migrate::MigrateError),
    /// A query failed.
    #[error("the database failed")]
    Database(#[from] sqlx::Error),
    /// A row of a newer version.
    #[error("token {name:?} has the unknown kind {kind:?}")]
    UnknownKind {
        /// The name of the token.
        name: String,
        /// The kind as it is stored.
        kind: String,
    },
}

/// The future of a store operation.
pub type StoreFuture<'a, T> = BoxFuture<'a, Result<T, StoreError>>;

/// The operations of the store. Every call sees the writes of all processes before it.
pub trait Store: fmt::Debug + Send + Sync {
    /// Stores a new token.
    fn add_token(&self, token: NewToken) -> StoreFuture<'_, ()>;
    /// The token with this digest.
    fn token_of(&self, digest: TokenDigest) -> StoreFuture<'_, Option<Token>>;
    /// True if a token with this number exists.
    fn has_token(&self, token: TokenId) -> StoreFuture<'_, bool>;
    /// All tokens, by name.
    fn tokens(&self) -> StoreFuture<'_, Vec<Token>>;
    /// Removes a token and its executors. False if there is no such token.
    fn remove_token<'a>(&'a self, name: &'a str) -> StoreFuture<'a, bool>;
    /// Stores the time of a token's last use.
    fn token_used(&self, token: TokenId, now: i64) -> StoreFuture<'_, ()>;
    /// The owner of an executor: the claimant from now on if it had none. `None` if the claimant is at its limit.
    fn claim_executor<'a>(
        &'a self,
        executor: &'a str,
        claim: ExecutorClaim,
    ) -> StoreFuture<'a, Option<TokenId>>;
    /// A number that changes with every write of any process.
    fn revision(&self) -> StoreFuture<'_, i64>;
}
