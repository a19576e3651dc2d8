//! Tokens of programs, and the executors that belong to them.

use std::fmt;

use serde::Serialize;
use sqlx::Row as _;
use sqlx::any::AnyRow;

use super::{Store, StoreError, increment_revision, name_taken};
use crate::auth::{TokenDigest, UserRole};

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

    /// The kind with this name.
    pub fn parse(word: &str) -> Option<TokenKind> {
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
    /// What a client token permits.
    pub role: Option<UserRole>,
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
    /// What a client token permits.
    pub role: Option<UserRole>,
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

impl Store {
    /// Stores a new token.
    pub async fn add_token(&self, token: NewToken) -> Result<(), StoreError> {
        sqlx::query("INSERT INTO tokens (name, kind, role, hash, created) VALUES ($1, $2, $3, $4, $5)")
            .bind(&token.name)
            .bind(token.kind.word())
            .bind(token.role.map(UserRole::word))
            .bind(token.digest.bytes())
            .bind(token.created)
            .execute(&self.write)
            .await
            .map_err(|error| name_taken(error, "token", &token.name))?;
        Ok(())
    }

    /// The token with this digest.
    pub async fn token_of(&self, digest: TokenDigest) -> Result<Option<Token>, StoreError> {
        let row = sqlx::query("SELECT id, name, kind, role, created, last_used FROM tokens WHERE hash = $1")
            .bind(digest.bytes())
            .fetch_optional(&self.read)
            .await?;
        row.as_ref().map(token).transpose()
    }

    /// True if a token with this number exists.
    pub async fn has_token(&self, token: TokenId) -> Result<bool, StoreError> {
        let found = sqlx::query("SELECT id FROM tokens WHERE id = $1").bind(token.0);
        Ok(found.fetch_optional(&self.read).await?.is_some())
    }

    /// All tokens, by name.
    pub async fn tokens(&self) -> Result<Vec<Token>, StoreError> {
        let rows = sqlx::query("SELECT id, name, kind, role, created, last_used FROM tokens ORDER BY name")
            .fetch_all(&self.read)
            .await?;
        rows.iter().map(token).collect()
    }

    /// Removes a token and its executors. False if there is no such token.
    pub async fn remove_token(&self, name: &str) -> Result<bool, StoreError> {
        let mut transaction = self.begin().await?;
        let removed =
            sqlx::query("DELETE FROM tokens WHERE name = $1").bind(name).execute(&mut *transaction).await?;
        increment_revision(&mut transaction).await?;
        transaction.commit().await?;
        Ok(removed.rows_affected() > 0)
    }

    /// Stores the time of a token's last use.
    pub async fn token_used(&self, token: TokenId, now: i64) -> Result<(), StoreError> {
        let used = sqlx::query("UPDATE tokens SET last_used = $1 WHERE id = $2").bind(now).bind(token.0);
        used.execute(&self.write).await?;
        Ok(())
    }

    /// The owner of an executor: the claimant from now on if it had none. `None` if the claimant is at its limit.
    pub async fn claim_executor(
        &self,
        executor: &str,
        claim: ExecutorClaim,
    ) -> Result<Option<TokenId>, StoreError> {
        sqlx::query(
            "INSERT INTO executors (id, token, created) SELECT $1, $2, $3 \
             WHERE (SELECT count(*) FROM executors WHERE token = $2) < $4 ON CONFLICT DO NOTHING",
        )
        .bind(executor)
        .bind(claim.token.0)
        .bind(claim.now)
        .bind(claim.limit)
        .execute(&self.write)
        .await?;
        let row = sqlx::query("SELECT token FROM executors WHERE id = $1").bind(executor);
        let row = row.fetch_optional(&self.read).await?;
        Ok(row.map(|row| row.try_get("token")).transpose()?.map(TokenId))
    }
}

fn token(row: &AnyRow) -> Result<Token, StoreError> {
    let (kind, role): (String, Option<String>) = (row.try_get("kind")?, row.try_get("role")?);
    Ok(Token {
        id: TokenId(row.try_get("id")?),
        name: row.try_get("name")?,
        kind: TokenKind::parse(&kind)
            .ok_or(StoreError::UnknownValue { column: "kind of token", value: kind })?,
        role: role.map(|role| UserRole::stored(&role)).transpose()?,
        created: row.try_get("created")?,
        last_used: row.try_get("last_used")?,
    })
}
