//! Users, their sign-ins, and one-time links to sign in.

use sqlx::Row as _;
use sqlx::any::AnyRow;

use super::{Store, StoreError, increment_revision, name_taken};
use crate::auth::{TokenDigest, UserRole};

/// The number of a user. Numbers of removed users are not reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct UserId(pub i64);

/// The number of a sign-in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SignInId(pub i64);

/// A person who may use the hub.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// The number of the user.
    pub id: UserId,
    /// The unique name.
    pub name: String,
    /// What the user may do.
    pub role: UserRole,
    /// The argon2id hash of the password, if one is set.
    pub password: Option<String>,
    /// The creation time in seconds since 1970.
    pub created: i64,
}

/// A user's authenticated use of one client, from signing in to signing out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignIn {
    /// The number of the sign-in.
    pub id: SignInId,
    /// Who signed in.
    pub user: User,
    /// When the access token ends, in seconds since 1970.
    pub access_ends: i64,
    /// When the sign-in ends, in seconds since 1970.
    pub ends: i64,
}

/// A sign-in to store, with the digests of its tokens.
#[derive(Debug, Clone, Copy)]
pub struct NewSignIn {
    /// Who signs in.
    pub user: UserId,
    /// The digest of the access token.
    pub access: TokenDigest,
    /// When the access token ends.
    pub access_ends: i64,
    /// The digest of the refresh token, for clients that refresh.
    pub refresh: Option<TokenDigest>,
    /// When the sign-in ends.
    pub ends: i64,
    /// The current time in seconds since 1970.
    pub now: i64,
}

const SIGN_IN: &str = "SELECT s.id AS sign_in, s.access_ends, s.ends, u.id, u.name, u.role, u.password, u.created \
                       FROM sign_ins s JOIN users u ON u.id = s.user_id";

impl Store {
    /// Stores a new user.
    pub async fn add_user(
        &self,
        name: &str,
        role: UserRole,
        password: Option<&str>,
        now: i64,
    ) -> Result<(), StoreError> {
        sqlx::query("INSERT INTO users (name, role, password, created) VALUES ($1, $2, $3, $4)")
            .bind(name)
            .bind(role.word())
            .bind(password)
            .bind(now)
            .execute(&self.write)
            .await
            .map_err(|error| name_taken(error, "user", name))?;
        Ok(())
    }

    /// The user with this name.
    pub async fn user(&self, name: &str) -> Result<Option<User>, StoreError> {
        let row = sqlx::query("SELECT id, name, role, password, created FROM users WHERE name = $1")
            .bind(name)
            .fetch_optional(&self.read)
            .await?;
        row.as_ref().map(user).transpose()
    }

    /// All users, by name.
    pub async fn users(&self) -> Result<Vec<User>, StoreError> {
        let rows = sqlx::query("SELECT id, name, role, password, created FROM users ORDER BY name");
        rows.fetch_all(&self.read).await?.iter().map(user).collect()
    }

    /// Removes a user with all sign-ins. False if there is no such user.
    pub async fn remove_user(&self, name: &str) -> Result<bool, StoreError> {
        let mut transaction = self.begin().await?;
        let removed = sqlx::query("DELETE FROM users WHERE name = $1").bind(name);
        let removed = removed.execute(&mut *transaction).await?.rows_affected() > 0;
        let shares = sqlx::query("DELETE FROM shares WHERE created_by = $1").bind(format!("user:{name}"));
        shares.execute(&mut *transaction).await?;
        increment_revision(&mut transaction).await?;
        transaction.commit().await?;
        Ok(removed)
    }

    /// Stores a sign-in, and removes those of the user that have ended.
    pub async fn add_sign_in(&self, new: NewSignIn) -> Result<(), StoreError> {
        let mut transaction = self.begin().await?;
        sqlx::query("DELETE FROM sign_ins WHERE user_id = $1 AND ends <= $2")
            .bind(new.user.0)
            .bind(new.now)
            .execute(&mut *transaction)
            .await?;
        sqlx::query(
            "INSERT INTO sign_ins (user_id, access, access_ends, refresh, ends, created) VALUES ($1, $2, $3, $4, $5, $6)",
        )
        .bind(new.user.0)
        .bind(new.access.bytes())
        .bind(new.access_ends)
        .bind(new.refresh.map(|refresh| refresh.bytes().to_vec()))
        .bind(new.ends)
        .bind(new.now)
        .execute(&mut *transaction)
        .await?;
        Ok(transaction.commit().await?)
    }

    /// The sign-in with this access token, if neither has ended.
    pub async fn sign_in_of(&self, access: TokenDigest, now: i64) -> Result<Option<SignIn>, StoreError> {
        let sql = sqlx::AssertSqlSafe(format!("{SIGN_IN} WHERE s.access = $1 AND s.access_ends > $2"));
        let row = sqlx::query(sql).bind(access.bytes()).bind(now).fetch_optional(&self.read).await?;
        row.as_ref().map(sign_in).transpose()
    }

    /// The sign-in with this number, if it has not ended.
    pub async fn sign_in(&self, id: SignInId, now: i64) -> Result<Option<SignIn>, StoreError> {
        let sql = sqlx::AssertSqlSafe(format!("{SIGN_IN} WHERE s.id = $1 AND s.ends > $2"));
        let row = sqlx::query(sql).bind(id.0).bind(now).fetch_optional(&self.read).await?;
        row.as_ref().map(sign_in).transpose()
    }

    /// Replaces the access token of the sign-in with this refresh token. False if there is none or it has ended.
    pub async fn refresh_sign_in(
        &self,
        refresh: TokenDigest,
        (access, access_ends): (TokenDigest, i64),
        (now, ends): (i64, i64),
    ) -> Result<bool, StoreError> {
        let refreshed = sqlx::query(
            "UPDATE sign_ins SET access = $1, access_ends = $2, ends = $3 WHERE refresh = $4 AND ends > $5",
        )
        .bind(access.bytes())
        .bind(access_ends)
        .bind(ends)
        .bind(refresh.bytes())
        .bind(now)
        .execute(&self.write)
        .await?;
        Ok(refreshed.rows_affected() > 0)
    }

    /// Moves the end of a sign-in that has no refresh token.
    pub async fn prolong_sign_in(&self, id: SignInId, ends: i64) -> Result<(), StoreError> {
        let query =
            sqlx::query("UPDATE sign_ins SET access_ends = $1, ends = $1 WHERE id = $2 AND refresh IS NULL");
        query.bind(ends).bind(id.0).execute(&self.write).await?;
        Ok(())
    }

    /// Ends the sign-in with this number.
    pub async fn sign_out(&self, id: SignInId) -> Result<(), StoreError> {
        let mut transaction = self.begin().await?;
        sqlx::query("DELETE FROM sign_ins WHERE id = $1").bind(id.0).execute(&mut *transaction).await?;
        increment_revision(&mut transaction).await?;
        Ok(transaction.commit().await?)
    }

    /// Ends all sign-ins of a user, and the notices to its browsers.
    pub async fn sign_out_everywhere(&self, user: UserId) -> Result<(), StoreError> {
        let mut transaction = self.begin().await?;
        for delete in
            ["DELETE FROM sign_ins WHERE user_id = $1", "DELETE FROM push_subscriptions WHERE user_id = $1"]
        {
            sqlx::query(delete).bind(user.0).execute(&mut *transaction).await?;
        }
        increment_revision(&mut transaction).await?;
        Ok(transaction.commit().await?)
    }

    /// Stores a one-time link of a user.
    pub async fn add_sign_in_link(
        &self,
        user: UserId,
        digest: TokenDigest,
        ends: i64,
    ) -> Result<(), StoreError> {
        sqlx::query("INSERT INTO sign_in_links (digest, user_id, ends) VALUES ($1, $2, $3)")
            .bind(digest.bytes())
            .bind(user.0)
            .bind(ends)
            .execute(&self.write)
            .await?;
        Ok(())
    }

    /// Uses up a link. Its user, if it was there and has not expired.
    pub async fn redeem_sign_in_link(
        &self,
        digest: TokenDigest,
        now: i64,
    ) -> Result<Option<User>, StoreError> {
        let mut transaction = self.begin().await?;
        sqlx::query("DELETE FROM sign_in_links WHERE ends <= $1")
            .bind(now)
            .execute(&mut *transaction)
            .await?;
        let row = sqlx::query("SELECT user_id FROM sign_in_links WHERE digest = $1")
            .bind(digest.bytes())
            .fetch_optional(&mut *transaction)
            .await?;
        let removed = sqlx::query("DELETE FROM sign_in_links WHERE digest = $1")
            .bind(digest.bytes())
            .execute(&mut *transaction)
            .await?;
        let found = match row {
            // Another node may have used it between the two statements.
            Some(row) if removed.rows_affected() > 0 => {
                let id: i64 = row.try_get("user_id")?;
                sqlx::query("SELECT id, name, role, password, created FROM users WHERE id = $1")
                    .bind(id)
                    .fetch_optional(&mut *transaction)
                    .await?
            }
            _ => None,
        };
        transaction.commit().await?;
        found.as_ref().map(user).transpose()
    }
}

fn user(row: &AnyRow) -> Result<User, StoreError> {
    Ok(User {
        id: UserId(row.try_get("id")?),
        name: row.try_get("name")?,
        role: UserRole::stored(row.try_get("role")?)?,
        password: row.try_get("password")?,
        created: row.try_get("created")?,
    })
}

fn sign_in(row: &AnyRow) -> Result<SignIn, StoreError> {
    Ok(SignIn {
        id: SignInId(row.try_get("sign_in")?),
        user: user(row)?,
        access_ends: row.try_get("access_ends")?,
        ends: row.try_get("ends")?,
    })
}
