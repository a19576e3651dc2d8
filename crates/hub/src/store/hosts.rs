//! Hosts: enrolment, generations of their connections, leases, and join codes.

use sqlx::Row as _;
use sqlx::any::AnyRow;

use super::{Dialect, Store, StoreError, increment_revision};
use crate::auth::TokenDigest;

/// A machine that dials the hub.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredHost {
    /// The id that the host chose.
    pub id: String,
    /// The name of the machine.
    pub name: Option<String>,
    /// The version of its program.
    pub version: Option<String>,
    /// The node that serves it, while its lease is valid.
    pub node: Option<String>,
    /// The number of its latest connection.
    pub generation: i64,
    /// When it was last connected, in milliseconds since 1970.
    pub last_seen_ms: i64,
}

/// The outcome of a host's authentication.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostClaim {
    /// The host is known and has its token.
    Known,
    /// The host is new and was stored.
    Enrolled,
    /// The host is known with another token.
    WrongToken,
    /// The host is new, and enrolment needs a valid join code.
    NotEnrolled,
}

/// The node that serves a connection of a host, and until when.
#[derive(Debug, Clone)]
pub struct HostLease<'a> {
    /// The node that serves the connection.
    pub node: &'a str,
    /// When the lease ends without renewal, in milliseconds since 1970.
    pub lease_ms: i64,
    /// The current time in milliseconds since 1970.
    pub now_ms: i64,
}

impl Store {
    /// Authenticates a host. A new one is stored if `may_enrol`, or with a join code, which is then used up.
    pub async fn claim_host(
        &self,
        id: &str,
        token: TokenDigest,
        (may_enrol, join_code): (bool, Option<TokenDigest>),
        now: i64,
    ) -> Result<HostClaim, StoreError> {
        if let Some(known) = self.host_token(id).await? {
            return Ok(if known.matches(&token) { HostClaim::Known } else { HostClaim::WrongToken });
        }
        let mut transaction = self.begin().await?;
        if let Some(code) = join_code {
            let used = sqlx::query("DELETE FROM join_codes WHERE digest = $1 AND ends > $2")
                .bind(code.bytes())
                .bind(now)
                .execute(&mut *transaction)
                .await?;
            if used.rows_affected() == 0 {
                return Ok(HostClaim::NotEnrolled);
            }
        } else if !may_enrol {
            return Ok(HostClaim::NotEnrolled);
        }
        let added = sqlx::query(
            "INSERT INTO hosts (id, token, generation, lease_ms, last_seen_ms, created) VALUES ($1, $2, 0, 0, $3, $4) \
             ON CONFLICT DO NOTHING",
        )
        .bind(id)
        .bind(token.bytes())
        .bind(now.saturating_mul(1000))
        .bind(now)
        .execute(&mut *transaction)
        .await?;
        // Another connection may have enrolled a host with this id at the same time; it was first.
        if added.rows_affected() == 0 {
            transaction.rollback().await?;
            let is_same = self.host_token(id).await?.is_some_and(|known| known.matches(&token));
            return Ok(if is_same { HostClaim::Known } else { HostClaim::WrongToken });
        }
        transaction.commit().await?;
        Ok(HostClaim::Enrolled)
    }

    async fn host_token(&self, id: &str) -> Result<Option<TokenDigest>, StoreError> {
        let row = sqlx::query("SELECT token FROM hosts WHERE id = $1").bind(id);
        let Some(row) = row.fetch_optional(&self.read).await? else { return Ok(None) };
        let bytes: Vec<u8> = row.try_get("token")?;
        Ok(TokenDigest::from_hex(&hex::encode(bytes)))
    }

    /// The generation of a new connection of this host, which this node now serves. `None` if the host was removed.
    pub async fn connect_host(&self, id: &str, lease: &HostLease<'_>) -> Result<Option<i64>, StoreError> {
        // Outside of a transaction, SQLite returns the row before it commits, and a failure to commit would not be seen.
        let mut transaction = self.begin().await?;
        let row = sqlx::query(
            "UPDATE hosts SET generation = generation + 1, node = $1, lease_ms = $2, last_seen_ms = $3 \
             WHERE id = $4 RETURNING generation",
        )
        .bind(lease.node)
        .bind(lease.lease_ms)
        .bind(lease.now_ms)
        .bind(id)
        .fetch_optional(&mut *transaction)
        .await?;
        transaction.commit().await?;
        Ok(row.map(|row| row.try_get("generation")).transpose()?)
    }

    /// Ends a connection. False if a newer one exists, which then stays.
    pub async fn disconnect_host(&self, id: &str, generation: i64, now_ms: i64) -> Result<bool, StoreError> {
        let ended = sqlx::query(
            "UPDATE hosts SET node = NULL, lease_ms = 0, last_seen_ms = $1 WHERE id = $2 AND generation = $3",
        )
        .bind(now_ms)
        .bind(id)
        .bind(generation)
        .execute(&self.write)
        .await?;
        Ok(ended.rows_affected() > 0)
    }

    /// Extends the leases of all connections of a node.
    pub async fn renew_leases(&self, lease: &HostLease<'_>) -> Result<(), StoreError> {
        sqlx::query("UPDATE hosts SET lease_ms = $1, last_seen_ms = $2 WHERE node = $3")
            .bind(lease.lease_ms)
            .bind(lease.now_ms)
            .bind(lease.node)
            .execute(&self.write)
            .await?;
        Ok(())
    }

    /// Ends the leases of nodes that are known to be gone: with SQLite, all of them when the hub starts.
    pub async fn release_leases_of_others(&self) -> Result<(), StoreError> {
        if self.dialect == Dialect::Sqlite {
            sqlx::query("UPDATE hosts SET node = NULL, lease_ms = 0").execute(&self.write).await?;
        }
        Ok(())
    }

    /// Stores what a host says about itself.
    pub async fn describe_host(&self, id: &str, name: &str, version: &str) -> Result<(), StoreError> {
        sqlx::query("UPDATE hosts SET name = $1, version = $2 WHERE id = $3")
            .bind(name)
            .bind(version)
            .bind(id)
            .execute(&self.write)
            .await?;
        Ok(())
    }

    /// The host with this id.
    pub async fn host(&self, id: &str, now_ms: i64) -> Result<Option<StoredHost>, StoreError> {
        let row = sqlx::query(
            "SELECT id, name, version, node, generation, lease_ms, last_seen_ms FROM hosts WHERE id = $1",
        )
        .bind(id)
        .fetch_optional(&self.read)
        .await?;
        row.map(|row| host(&row, now_ms)).transpose()
    }

    /// The first hosts by id.
    pub async fn hosts(&self, limit: i64, now_ms: i64) -> Result<Vec<StoredHost>, StoreError> {
        let rows = sqlx::query(
            "SELECT id, name, version, node, generation, lease_ms, last_seen_ms FROM hosts ORDER BY id LIMIT $1",
        )
        .bind(limit)
        .fetch_all(&self.read)
        .await?;
        rows.iter().map(|row| host(row, now_ms)).collect()
    }

    /// Removes a host, so that its id can be enrolled again. Its runs are kept. False if there is no such host.
    pub async fn remove_host(&self, id: &str) -> Result<bool, StoreError> {
        let mut transaction = self.begin().await?;
        let removed =
            sqlx::query("DELETE FROM hosts WHERE id = $1").bind(id).execute(&mut *transaction).await?;
        increment_revision(&mut transaction).await?;
        transaction.commit().await?;
        Ok(removed.rows_affected() > 0)
    }

    /// Stores a code for the enrolment of one host, and removes those that have ended.
    pub async fn add_join_code(
        &self,
        digest: TokenDigest,
        created_by: &str,
        (now, ends): (i64, i64),
    ) -> Result<(), StoreError> {
        let mut transaction = self.begin().await?;
        sqlx::query("DELETE FROM join_codes WHERE ends <= $1").bind(now).execute(&mut *transaction).await?;
        sqlx::query("INSERT INTO join_codes (digest, created_by, ends) VALUES ($1, $2, $3)")
            .bind(digest.bytes())
            .bind(created_by)
            .bind(ends)
            .execute(&mut *transaction)
            .await?;
        Ok(transaction.commit().await?)
    }
}

fn host(row: &AnyRow, now_ms: i64) -> Result<StoredHost, StoreError> {
    let lease_ms: i64 = row.try_get("lease_ms")?;
    let node: Option<String> = row.try_get("node")?;
    Ok(StoredHost {
        id: row.try_get("id")?,
        name: row.try_get("name")?,
        version: row.try_get("version")?,
        node: node.filter(|_| lease_ms > now_ms),
        generation: row.try_get("generation")?,
        last_seen_ms: row.try_get("last_seen_ms")?,
    })
}
