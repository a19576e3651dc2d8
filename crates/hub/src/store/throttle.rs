//! Failed sign-ins per user name and address, and the addresses from which users have signed in.

use sqlx::Row as _;

use super::{Store, StoreError, UserId};
use crate::auth::TokenDigest;

/// How many failures are accepted in which time.
#[derive(Debug, Clone, Copy)]
pub struct FailureLimits {
    /// Failures of one user name.
    pub of_user: i64,
    /// Failures from one address.
    pub of_address: i64,
    /// The length of the window in seconds.
    pub window: i64,
}

/// From an address where users sign in, this many times the failures of another address are accepted.
const KNOWN_FACTOR: i64 = 10;

impl FailureLimits {
    /// The limits for an address where users sign in: failures elsewhere do not count, so that others cannot lock them out.
    pub fn at_known_address(self) -> FailureLimits {
        let of_address = self.of_address.saturating_mul(KNOWN_FACTOR);
        FailureLimits { of_user: i64::MAX, of_address, ..self }
    }
}

/// The number of failures that are counted; more are not stored.
const COUNTED: i64 = 1_000_000;
/// The time for which an address that a user does not use is known, in seconds.
const KNOWN_FOR: i64 = 365 * 24 * 3600;

impl Store {
    /// True if this user name or this address has failed too often.
    pub async fn is_throttled(
        &self,
        user: &str,
        address: &str,
        limits: FailureLimits,
        now: i64,
    ) -> Result<bool, StoreError> {
        let rows = sqlx::query(
            "SELECT subject, failures FROM login_failures WHERE subject IN ($1, $2) AND since > $3",
        )
        .bind(user_key(user))
        .bind(address_key(address))
        .bind(now - limits.window)
        .fetch_all(&self.read)
        .await?;
        for row in rows {
            let (subject, failures): (String, i64) = (row.try_get("subject")?, row.try_get("failures")?);
            let limit = if subject.starts_with('u') { limits.of_user } else { limits.of_address };
            if failures >= limit {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Counts an attempt for the user name and the address as a failure, until it succeeds: so attempts at the same time are
    /// counted before their passwords are checked. True if there were too many failures before it.
    pub async fn login_attempted(
        &self,
        user: &str,
        address: &str,
        limits: FailureLimits,
        now: i64,
    ) -> Result<bool, StoreError> {
        let mut transaction = self.begin().await?;
        let mut is_throttled = false;
        // In this order on every node, so that two transactions cannot wait for each other.
        for (subject, limit) in [(address_key(address), limits.of_address), (user_key(user), limits.of_user)]
        {
            let row = sqlx::query(
                "INSERT INTO login_failures (subject, failures, since) VALUES ($1, 1, $2) \
                 ON CONFLICT (subject) DO UPDATE SET \
                 failures = CASE WHEN login_failures.since <= $3 THEN 1 \
                            WHEN login_failures.failures >= $4 THEN login_failures.failures \
                            ELSE login_failures.failures + 1 END, \
                 since = CASE WHEN login_failures.since <= $3 THEN $2 ELSE login_failures.since END \
                 RETURNING failures",
            )
            .bind(subject)
            .bind(now)
            .bind(now - limits.window)
            .bind(COUNTED)
            .fetch_one(&mut *transaction)
            .await?;
            is_throttled |= row.try_get::<i64, _>("failures")? > limit;
        }
        transaction.commit().await?;
        Ok(is_throttled)
    }

    /// Records a successful sign-in: the address is known, and the attempt was no failure if it was counted as one. The
    /// failures of others are kept: otherwise each sign-in of a user would permit new guesses.
    pub async fn login_succeeded(
        &self,
        user: (UserId, &str),
        address: &str,
        was_counted: bool,
        now: i64,
    ) -> Result<(), StoreError> {
        let mut transaction = self.begin().await?;
        if was_counted {
            for subject in [address_key(address), user_key(user.1)] {
                sqlx::query(
                    "UPDATE login_failures SET failures = failures - 1 WHERE subject = $1 AND failures > 0",
                )
                .bind(subject)
                .execute(&mut *transaction)
                .await?;
            }
        }
        sqlx::query(
            "INSERT INTO known_addresses (user_id, address, last_used) VALUES ($1, $2, $3) \
             ON CONFLICT (user_id, address) DO UPDATE SET last_used = $3",
        )
        .bind(user.0.0)
        .bind(address)
        .bind(now)
        .execute(&mut *transaction)
        .await?;
        Ok(transaction.commit().await?)
    }

    /// Whether any user has signed in from this address, and whether this one has.
    pub async fn address_is_known(&self, user: &str, address: &str) -> Result<(bool, bool), StoreError> {
        let rows = sqlx::query(
            "SELECT u.name FROM known_addresses k JOIN users u ON u.id = k.user_id WHERE k.address = $1",
        )
        .bind(address)
        .fetch_all(&self.read)
        .await?;
        let mut is_of_user = false;
        for row in &rows {
            is_of_user |= row.try_get::<&str, _>("name")? == user;
        }
        Ok((!rows.is_empty(), is_of_user))
    }

    /// Removes failures outside of the window, and addresses that were not used for a year.
    pub async fn forget_old_failures(&self, limits: FailureLimits, now: i64) -> Result<(), StoreError> {
        sqlx::query("DELETE FROM known_addresses WHERE last_used <= $1")
            .bind(now - KNOWN_FOR)
            .execute(&self.write)
            .await?;
        sqlx::query("DELETE FROM login_failures WHERE since <= $1")
            .bind(now - limits.window)
            .execute(&self.write)
            .await?;
        Ok(())
    }
}

/// User names are hashed: they are chosen by anyone, and may be a password in the wrong field.
fn user_key(user: &str) -> String {
    format!("u:{}", hex::encode(TokenDigest::of(user).bytes()))
}

fn address_key(address: &str) -> String {
    format!("a:{}", hex::encode(TokenDigest::of(address).bytes()))
}
