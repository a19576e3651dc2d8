//! Tickets: an executor receives one for its registration and redeems it once, at any node.

use sqlx::Row as _;

use super::{Store, StoreError, TokenId};
use crate::auth::TokenDigest;

/// A ticket to store.
#[derive(Debug, Clone, Copy)]
pub struct NewTicket<'a> {
    /// The digest of the ticket.
    pub digest: TokenDigest,
    /// The executor that may redeem it.
    pub executor: &'a str,
    /// The token that registered the executor.
    pub token: TokenId,
    /// The current time in milliseconds since 1970.
    pub now_ms: i64,
    /// When it ends, in milliseconds since 1970.
    pub ends_ms: i64,
    /// Unused tickets of one executor; the oldest ones beyond it are removed.
    pub limit: i64,
}

impl Store {
    /// Stores a ticket, and removes those that have ended.
    pub async fn add_ticket(&self, new: NewTicket<'_>) -> Result<(), StoreError> {
        let mut transaction = self.begin().await?;
        sqlx::query("DELETE FROM tickets WHERE ends_ms <= $1")
            .bind(new.now_ms)
            .execute(&mut *transaction)
            .await?;
        sqlx::query("INSERT INTO tickets (digest, executor, token, ends_ms) VALUES ($1, $2, $3, $4)")
            .bind(new.digest.bytes())
            .bind(new.executor)
            .bind(new.token.0)
            .bind(new.ends_ms)
            .execute(&mut *transaction)
            .await?;
        sqlx::query(
            "DELETE FROM tickets WHERE executor = $1 AND id NOT IN \
             (SELECT id FROM tickets WHERE executor = $1 ORDER BY id DESC LIMIT $2)",
        )
        .bind(new.executor)
        .bind(new.limit)
        .execute(&mut *transaction)
        .await?;
        Ok(transaction.commit().await?)
    }

    /// Uses up a ticket. Its token, if the ticket was for this executor and has not ended.
    pub async fn redeem_ticket(
        &self,
        digest: TokenDigest,
        executor: &str,
        now_ms: i64,
    ) -> Result<Option<TokenId>, StoreError> {
        // See `connect_host`.
        let mut transaction = self.begin().await?;
        let row = sqlx::query(
            "DELETE FROM tickets WHERE digest = $1 AND executor = $2 AND ends_ms > $3 RETURNING token",
        )
        .bind(digest.bytes())
        .bind(executor)
        .bind(now_ms)
        .fetch_optional(&mut *transaction)
        .await?;
        transaction.commit().await?;
        Ok(row.map(|row| row.try_get("token")).transpose()?.map(TokenId))
    }
}
