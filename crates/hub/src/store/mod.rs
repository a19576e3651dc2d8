//! What the hub remembers, and the seam behind which a database keeps it.

mod sqlite;

use std::fmt;
use std::path::PathBuf;

use futures_util::future::BoxFuture;
use serde::Serialize;

use crate::auth::Digest;

pub use sqlite::Sqlite;

/// The number of a token. A removed one's never comes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TokenId(pub i64);

/// What a token is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Registers an executor and serves it.
    Executor,
    /// Reaches executors: a Codex client.
    Harness,
    /// Uses the hub's API.
    Client,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Kind; 3] = [Kind::Executor, Kind::Harness, Kind::Client];

    /// As it is written.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Executor => "executor",
            Kind::Harness => "harness",
            Kind::Client => "client",
        }
    }

    fn parse(word: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.word() == word)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

/// A token as it is kept: never the secret itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// Its number.
    pub id: TokenId,
    /// Its name, for people.
    pub name: String,
    /// What it is for.
    pub kind: Kind,
    /// When it was made, in seconds since 1970.
    pub created: i64,
    /// When it was shown last, in seconds since 1970; exact to a minute.
    pub last_used: Option<i64>,
}

/// A token that is to be kept.
#[derive(Debug, Clone)]
pub struct NewToken {
    /// Its name, unlike every other's.
    pub name: String,
    /// What it is for.
    pub kind: Kind,
    /// What is kept of the secret.
    pub digest: Digest,
    /// Now, in seconds since 1970.
    pub created: i64,
}

/// Somebody who wants to have an executor.
#[derive(Debug, Clone, Copy)]
pub struct Claim {
    /// Who.
    pub token: TokenId,
    /// How many they may have.
    pub at_most: i64,
    /// Now, in seconds since 1970.
    pub now: i64,
}

/// Why something is not remembered, or cannot be recalled.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// There is a token of that name.
    #[error("there is a token called {0:?} already: choose another name, or remove that one first")]
    NameTaken(String),
    /// The folder cannot be made or used.
    #[error("cannot use the data folder {}", folder.display())]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The tables cannot be brought up to date.
    #[error("cannot bring the database up to date: was it written by a newer rexhub?")]
    Migrate(#[from] sqlx::migrate::MigrateError),
    /// The database fails.
    #[error("the database failed")]
    Database(#[from] sqlx::Error),
    /// A row holds what this version does not know.
    #[error("token {name:?} is of the kind {kind:?}, which this version does not know")]
    UnknownKind {
        /// Whose.
        name: String,
        /// As it stands there.
        kind: String,
    },
}

/// A promise of something from the store.
pub type Promise<'a, T> = BoxFuture<'a, Result<T, StoreError>>;

/// What the hub remembers. Every call sees what any process has written before.
pub trait Store: fmt::Debug + Send + Sync {
    /// Keeps a token.
    fn add_token(&self, token: NewToken) -> Promise<'_, ()>;
    /// The token with this digest.
    fn token_of(&self, digest: Digest) -> Promise<'_, Option<Token>>;
    /// Whether there is a token of this number.
    fn has_token(&self, token: TokenId) -> Promise<'_, bool>;
    /// All tokens, by name.
    fn tokens(&self) -> Promise<'_, Vec<Token>>;
    /// Forgets a token and what belongs to it. Tells whether there was one.
    fn remove_token<'a>(&'a self, name: &'a str) -> Promise<'a, bool>;
    /// Remembers that a token was shown.
    fn token_used(&self, token: TokenId, now: i64) -> Promise<'_, ()>;
    /// Who an executor belongs to: to the claimant from now on if it was nobody's. Still nobody's if they have as many
    /// as they may.
    fn claim_executor<'a>(&'a self, executor: &'a str, claim: Claim) -> Promise<'a, Option<TokenId>>;
    /// A number that is another one after somebody has changed something.
    fn revision(&self) -> Promise<'_, i64>;
}
