//! The audit: who did what. Each row contains the hash of the one before, so that a changed or removed row shows.

use sha2::{Digest as _, Sha256};
use sqlx::Row as _;
use sqlx::any::AnyRow;

use super::{Store, StoreError};

/// One row of the audit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditEntry {
    /// The number of the row; 0 until it is stored.
    pub id: i64,
    /// When, RFC 3339.
    pub ts: String,
    /// Who: `user:NAME`, `token:NAME`, `host:ID`, `cli`.
    pub actor: String,
    /// The action: `run.stop`, `user.add`, …
    pub action: String,
    /// The object of the action.
    pub target: String,
    /// Further facts, without secrets.
    pub detail: String,
}

/// Which rows of the audit to read.
#[derive(Debug, Clone, Default)]
pub struct AuditQuery {
    /// Only rows before this one.
    pub before: Option<i64>,
    /// The number of rows.
    pub limit: i64,
    /// Only rows whose actor contains this text.
    pub actor: String,
    /// Only rows whose action contains this text.
    pub action: String,
    /// Only rows whose target contains this text.
    pub target: String,
    /// Only rows from this second on.
    pub since: Option<jiff::Timestamp>,
    /// Only rows before this second.
    pub until: Option<jiff::Timestamp>,
}

/// A pattern that matches texts that contain this one.
pub(super) fn containing(text: &str) -> String {
    format!("%{}%", text.replace('\\', "\\\\").replace('%', "\\%").replace('_', "\\_"))
}

/// A time as the beginning of stored ones, which have fractions of different lengths.
fn second(time: Option<jiff::Timestamp>, missing: &str) -> String {
    time.map_or_else(|| missing.to_owned(), |time| time.strftime("%Y-%m-%dT%H:%M:%S").to_string())
}

impl AuditEntry {
    /// An action of now.
    pub fn new(actor: impl Into<String>, action: impl Into<String>, target: impl Into<String>) -> AuditEntry {
        AuditEntry {
            id: 0,
            ts: jiff::Timestamp::now().to_string(),
            actor: actor.into(),
            action: action.into(),
            target: target.into(),
            detail: String::new(),
        }
    }

    /// The same with further facts.
    pub fn with_detail(self, detail: impl Into<String>) -> AuditEntry {
        AuditEntry { detail: detail.into(), ..self }
    }

    /// The hash of the row behind one with the hash `before`. Each part is preceded by its length, so that no two rows have
    /// the same bytes.
    fn hash(&self, before: &str) -> String {
        let mut hasher = Sha256::new();
        for part in [before, &self.ts, &self.actor, &self.action, &self.target, &self.detail] {
            hasher.update((part.len() as u64).to_be_bytes());
            hasher.update(part.as_bytes());
        }
        hex::encode(hasher.finalize())
    }

    /// The columns cannot hold the character NUL.
    fn clean(self) -> AuditEntry {
        let clean = |text: String| if text.contains('\0') { text.replace('\0', "\u{fffd}") } else { text };
        AuditEntry {
            target: clean(self.target),
            detail: clean(self.detail),
            action: clean(self.action),
            actor: clean(self.actor),
            ..self
        }
    }
}

impl Store {
    /// Appends a row to the audit.
    pub async fn audit(&self, entry: AuditEntry) -> Result<(), StoreError> {
        self.append_audit(vec![entry]).await
    }

    /// Appends rows to the audit, in this order, all or none.
    pub async fn append_audit(&self, entries: Vec<AuditEntry>) -> Result<(), StoreError> {
        if entries.is_empty() {
            return Ok(());
        }
        let mut transaction = self.begin().await?;
        // Locks the head, so that rows of several nodes have one order.
        let head = sqlx::query("UPDATE audit_head SET hash = hash WHERE id = 1 RETURNING hash");
        let mut hash: String = head.fetch_one(&mut *transaction).await?.try_get("hash")?;
        for entry in entries {
            let entry = entry.clean();
            hash = entry.hash(&hash);
            sqlx::query(
                "INSERT INTO audit (ts, actor, action, target, detail, hash) VALUES ($1, $2, $3, $4, $5, $6)",
            )
            .bind(entry.ts)
            .bind(entry.actor)
            .bind(entry.action)
            .bind(entry.target)
            .bind(entry.detail)
            .bind(&hash)
            .execute(&mut *transaction)
            .await?;
        }
        sqlx::query("UPDATE audit_head SET hash = $1 WHERE id = 1")
            .bind(&hash)
            .execute(&mut *transaction)
            .await?;
        Ok(transaction.commit().await?)
    }

    /// Rows of the audit, newest first.
    pub async fn audit_entries(&self, query: &AuditQuery) -> Result<Vec<AuditEntry>, StoreError> {
        let rows = sqlx::query(
            "SELECT id, ts, actor, action, target, detail FROM audit WHERE id < $1 AND actor LIKE $3 ESCAPE '\\' \
             AND action LIKE $4 ESCAPE '\\' AND target LIKE $5 ESCAPE '\\' AND ts >= $6 AND ts < $7 \
             ORDER BY id DESC LIMIT $2",
        )
        .bind(query.before.unwrap_or(i64::MAX))
        .bind(query.limit)
        .bind(containing(&query.actor))
        .bind(containing(&query.action))
        .bind(containing(&query.target))
        .bind(second(query.since, ""))
        .bind(second(query.until, "9999"))
        .fetch_all(&self.read)
        .await?;
        rows.iter().map(entry).collect()
    }

    /// The first row whose hash does not continue the one before it; `None` if the audit is whole.
    pub async fn verify_audit(&self) -> Result<Option<i64>, StoreError> {
        let (mut before, mut last) = (String::new(), 0);
        loop {
            let rows = sqlx::query(
                "SELECT id, ts, actor, action, target, detail, hash FROM audit WHERE id > $1 ORDER BY id LIMIT 1000",
            )
            .bind(last)
            .fetch_all(&self.read)
            .await?;
            if rows.is_empty() {
                let head = sqlx::query_scalar::<_, String>("SELECT hash FROM audit_head WHERE id = 1");
                let is_whole = head.fetch_one(&self.read).await? == before;
                return Ok((!is_whole).then_some(last + 1));
            }
            for row in &rows {
                let (entry, hash) = (entry(row)?, row.try_get::<String, _>("hash")?);
                if entry.hash(&before) != hash {
                    return Ok(Some(entry.id));
                }
                (before, last) = (hash, entry.id);
            }
        }
    }
}

fn entry(row: &AnyRow) -> Result<AuditEntry, StoreError> {
    Ok(AuditEntry {
        id: row.try_get("id")?,
        ts: row.try_get("ts")?,
        actor: row.try_get("actor")?,
        action: row.try_get("action")?,
        target: row.try_get("target")?,
        detail: row.try_get("detail")?,
    })
}
