//! Read-only links to one run.

use std::sync::Arc;

use sqlx::Row as _;
use sqlx::any::AnyRow;

use super::{Store, StoreError, increment_revision};
use crate::auth::TokenDigest;

/// The number of a share link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ShareId(pub i64);

/// A read-only link to one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Share {
    /// The number of the link.
    pub id: ShareId,
    /// The run that it shows.
    pub run_id: Arc<str>,
    /// Who created it, as in the audit.
    pub created_by: String,
    /// The creation time in seconds since 1970.
    pub created: i64,
    /// When it ends.
    pub ends: i64,
}

/// A link to store, with the digest of its token.
#[derive(Debug, Clone, Copy)]
pub struct NewShare<'a> {
    /// The digest of the token.
    pub digest: TokenDigest,
    /// The run.
    pub run_id: &'a str,
    /// Who creates it, as in the audit.
    pub created_by: &'a str,
    /// The current time in seconds since 1970.
    pub now: i64,
    /// When it ends.
    pub ends: i64,
}

impl Store {
    /// Stores a link. `None` if the run has `limit` links already; those that have ended are removed first.
    pub async fn add_share(&self, new: NewShare<'_>, limit: i64) -> Result<Option<ShareId>, StoreError> {
        let mut transaction = self.begin().await?;
        sqlx::query("DELETE FROM shares WHERE ends <= $1").bind(new.now).execute(&mut *transaction).await?;
        let row = sqlx::query(
            "INSERT INTO shares (digest, run_id, created_by, created, ends) SELECT $1, $2, $3, $4, $5 \
             WHERE (SELECT COUNT(*) FROM shares WHERE run_id = $2) < $6 RETURNING id",
        )
        .bind(new.digest.bytes())
        .bind(new.run_id)
        .bind(new.created_by)
        .bind(new.now)
        .bind(new.ends)
        .bind(limit)
        .fetch_optional(&mut *transaction)
        .await?;
        transaction.commit().await?;
        row.map(|row| Ok(ShareId(row.try_get("id")?))).transpose()
    }

    /// The link with this token, if it has not ended.
    pub async fn share_of(&self, digest: TokenDigest, now: i64) -> Result<Option<Share>, StoreError> {
        let row = sqlx::query("SELECT * FROM shares WHERE digest = $1 AND ends > $2");
        let row = row.bind(digest.bytes()).bind(now).fetch_optional(&self.read).await?;
        row.as_ref().map(share).transpose()
    }

    /// The link with this number, if it has not ended.
    pub async fn share(&self, id: ShareId, now: i64) -> Result<Option<Share>, StoreError> {
        let row = sqlx::query("SELECT * FROM shares WHERE id = $1 AND ends > $2");
        let row = row.bind(id.0).bind(now).fetch_optional(&self.read).await?;
        row.as_ref().map(share).transpose()
    }

    /// The links of a run that have not ended, newest first.
    pub async fn shares(&self, run: &str, now: i64) -> Result<Vec<Share>, StoreError> {
        let rows = sqlx::query("SELECT * FROM shares WHERE run_id = $1 AND ends > $2 ORDER BY id DESC");
        rows.bind(run).bind(now).fetch_all(&self.read).await?.iter().map(share).collect()
    }

    /// Removes a link. Its run, if there was one.
    pub async fn remove_share(&self, id: ShareId) -> Result<Option<String>, StoreError> {
        let mut transaction = self.begin().await?;
        let row = sqlx::query("DELETE FROM shares WHERE id = $1 RETURNING run_id").bind(id.0);
        let row = row.fetch_optional(&mut *transaction).await?;
        increment_revision(&mut transaction).await?;
        transaction.commit().await?;
        row.map(|row| Ok(row.try_get("run_id")?)).transpose()
    }
}

fn share(row: &AnyRow) -> Result<Share, StoreError> {
    Ok(Share {
        id: ShareId(row.try_get("id")?),
        run_id: row.try_get::<String, _>("run_id")?.into(),
        created_by: row.try_get("created_by")?,
        created: row.try_get("created")?,
        ends: row.try_get("ends")?,
    })
}
