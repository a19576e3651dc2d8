//! The SQLite store: one file in the data directory, shared by the server and the command line.

use std::borrow::Cow;
use std::fs;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::time::Duration;

use sqlx::migrate::{Migration, MigrationType, Migrator};
use sqlx::sqlite::{
    SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteRow, SqliteSynchronous,
};
use sqlx::{ConnectOptions as _, Connection as _, Row as _, SqlSafeStr as _, SqliteConnection, SqlitePool};
use tokio::sync::Mutex;

use super::{ExecutorClaim, NewToken, Store, StoreError, StoreFuture, Token, TokenId, TokenKind};
use crate::auth::TokenDigest;

const FILE: &str = "hub.db";
/// Locked during migration, so that two processes do not create the tables at once.
const LOCK: &str = "hub.lock";
/// The time for which a writer waits for another.
const BUSY: Duration = Duration::from_secs(10);
/// Connections to the file; each uses a thread.
const CONNECTIONS: u32 = 4;

const MIGRATIONS: &[(i64, &str, &str)] = &[(1, "tokens", include_str!("migrations/0001_tokens.sql"))];

/// The store in an SQLite file.
#[derive(Debug)]
pub struct Sqlite {
    pool: SqlitePool,
    /// Not part of the pool: SQLite's `data_version` shows a connection the writes of others.
    watcher: Mutex<SqliteConnection>,
}

impl Sqlite {
    /// Opens the store in this directory, and creates both if they do not exist, accessible to their owner only.
    pub async fn open(directory: &Path) -> Result<Sqlite, StoreError> {
        let file = directory.join(FILE);
        let lock = prepare(directory, &file)
            .map_err(|source| StoreError::DataDir { directory: directory.to_owned(), source })?;
        let options = SqliteConnectOptions::new()
            .filename(&file)
            .journal_mode(SqliteJournalMode::Wal)
            // A removed token must stay removed, also after a power failure.
            .synchronous(SqliteSynchronous::Full)
            .foreign_keys(true)
            .busy_timeout(BUSY)
            .disable_statement_logging();
        let pool =
            SqlitePoolOptions::new().max_connections(CONNECTIONS).connect_with(options.clone()).await?;
        migrator().run(&pool).await?;
        let watcher = Mutex::new(SqliteConnection::connect_with(&options).await?);
        drop(lock);
        Ok(Sqlite { pool, watcher })
    }
}

/// Creates the missing files for their owner only, and waits for other processes that do so.
fn prepare(directory: &Path, file: &Path) -> std::io::Result<fs::File> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    let mut open = fs::OpenOptions::new();
    open.read(true).write(true).create(true).truncate(false).mode(0o600);
    let lock = open.open(directory.join(LOCK))?;
    lock.lock()?;
    // SQLite creates its other files with the mode of this one.
    let database = open.open(file)?;
    database.set_permissions(fs::Permissions::from_mode(0o600))?;
    Ok(lock)
}

fn migrator() -> Migrator {
    let migration = |(version, name, sql): &(i64, &'static str, &'static str)| {
        Migration::new(*version, Cow::Borrowed(*name), MigrationType::Simple, (*sql).into_sql_str(), false)
    };
    Migrator::with_migrations(MIGRATIONS.iter().map(migration).collect())
}

impl Store for Sqlite {
    fn add_token(&self, token: NewToken) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            let added = sqlx::query("INSERT INTO tokens (name, kind, hash, created) VALUES (?, ?, ?, ?)")
                .bind(&token.name)
                .bind(token.kind.word())
                .bind(token.digest.bytes())
                .bind(token.created)
                .execute(&self.pool)
                .await;
            match added {
                Err(sqlx::Error::Database(error)) if error.is_unique_violation() => {
                    Err(StoreError::NameTaken(token.name))
                }
                added => Ok(added.map(drop)?),
            }
        })
    }

    fn token_of(&self, digest: TokenDigest) -> StoreFuture<'_, Option<Token>> {
        Box::pin(async move {
            let row = sqlx::query("SELECT id, name, kind, created, last_used FROM tokens WHERE hash = ?")
                .bind(digest.bytes())
                .fetch_optional(&self.pool)
                .await?;
            row.as_ref().map(token).transpose()
        })
    }

    fn has_token(&self, token: TokenId) -> StoreFuture<'_, bool> {
        Box::pin(async move {
            let found = sqlx::query("SELECT 1 FROM tokens WHERE id = ?").bind(token.0);
            Ok(found.fetch_optional(&self.pool).await?.is_some())
        })
    }

    fn tokens(&self) -> StoreFuture<'_, Vec<Token>> {
        Box::pin(async move {
            let rows = sqlx::query("SELECT id, name, kind, created, last_used FROM tokens ORDER BY name")
                .fetch_all(&self.pool)
                .await?;
            rows.iter().map(token).collect()
        })
    }

    fn remove_token<'a>(&'a self, name: &'a str) -> StoreFuture<'a, bool> {
        Box::pin(async move {
            let removed =
                sqlx::query("DELETE FROM tokens WHERE name = ?").bind(name).execute(&self.pool).await?;
            Ok(removed.rows_affected() > 0)
        })
    }

    fn token_used(&self, token: TokenId, now: i64) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            let used = sqlx::query("UPDATE tokens SET last_used = ? WHERE id = ?").bind(now).bind(token.0);
            used.execute(&self.pool).await?;
            Ok(())
        })
    }

    fn claim_executor<'a>(
        &'a self,
        executor: &'a str,
        claim: ExecutorClaim,
    ) -> StoreFuture<'a, Option<TokenId>> {
        Box::pin(async move {
            sqlx::query(
                "INSERT INTO executors (id, token, created) SELECT ?1, ?2, ?3 \
                 WHERE (SELECT count(*) FROM executors WHERE token = ?2) < ?4 ON CONFLICT DO NOTHING",
            )
            .bind(executor)
            .bind(claim.token.0)
            .bind(claim.now)
            .bind(claim.limit)
            .execute(&self.pool)
            .await?;
            let row = sqlx::query("SELECT token FROM executors WHERE id = ?").bind(executor);
            let row = row.fetch_optional(&self.pool).await?;
            Ok(row.map(|row| row.try_get("token")).transpose()?.map(TokenId))
        })
    }

    fn revision(&self) -> StoreFuture<'_, i64> {
        Box::pin(async move {
            let mut watcher = self.watcher.lock().await;
            Ok(sqlx::query_scalar("PRAGMA data_version").fetch_one(&mut *watcher).await?)
        })
    }
}

fn token(row: &SqliteRow) -> Result<Token, StoreError> {
    let (name, kind): (String, String) = (row.try_get("name")?, row.try_get("kind")?);
    Ok(Token {
        id: TokenId(row.try_get("id")?),
        kind: TokenKind::parse(&kind).ok_or(StoreError::UnknownKind { name: name.clone(), kind })?,
        name,
        created: row.try_get("created")?,
        last_used: row.try_get("last_used")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new(name: &str, secret: &str) -> NewToken {
        NewToken {
            name: name.to_owned(),
            kind: TokenKind::Executor,
            digest: TokenDigest::of(secret),
            created: 1,
        }
    }

    #[tokio::test]
    async fn a_removed_token_loses_its_executors() {
        let directory = tempfile::tempdir().unwrap();
        let (one, other) =
            (Sqlite::open(directory.path()).await.unwrap(), Sqlite::open(directory.path()).await.unwrap());
        let before = one.revision().await.unwrap();
        other.add_token(new("a", "secret a")).await.unwrap();
        other.add_token(new("b", "secret b")).await.unwrap();
        assert_ne!(one.revision().await.unwrap(), before, "a change by another connection is detected");
        assert!(matches!(one.add_token(new("a", "else")).await, Err(StoreError::NameTaken(_))));
        let a = one.token_of(TokenDigest::of("secret a")).await.unwrap().unwrap();
        let b = one.token_of(TokenDigest::of("secret b")).await.unwrap().unwrap();
        assert_eq!((a.name.as_str(), a.last_used), ("a", None));
        assert_eq!(one.token_of(TokenDigest::of("a")).await.unwrap(), None);

        let claim = |token| ExecutorClaim { token, limit: 1, now: 1 };
        assert_eq!(one.claim_executor("e", claim(a.id)).await.unwrap(), Some(a.id));
        assert_eq!(
            one.claim_executor("f", claim(a.id)).await.unwrap(),
            None,
            "the token has reached its limit"
        );
        assert_eq!(
            other.claim_executor("e", claim(b.id)).await.unwrap(),
            Some(a.id),
            "the first one keeps it"
        );
        one.token_used(a.id, 1000).await.unwrap();
        assert_eq!(other.tokens().await.unwrap()[0].last_used, Some(1000));

        assert!(other.remove_token("a").await.unwrap() && !other.remove_token("a").await.unwrap());
        assert!(!one.has_token(a.id).await.unwrap() && one.has_token(b.id).await.unwrap());
        assert_eq!(
            one.claim_executor("e", claim(b.id)).await.unwrap(),
            Some(b.id),
            "the executor has no owner"
        );
        one.add_token(new("a", "again")).await.unwrap();
        assert_ne!(one.token_of(TokenDigest::of("again")).await.unwrap().unwrap().id, a.id);
    }

    #[tokio::test]
    async fn other_users_cannot_read_the_store() {
        let directory = tempfile::tempdir().unwrap();
        let inside = directory.path().join("made");
        let store = Sqlite::open(&inside).await.unwrap();
        store.add_token(new("a", "secret a")).await.unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&inside), 0o700);
        let files: Vec<_> = fs::read_dir(&inside).unwrap().map(|file| file.unwrap().path()).collect();
        assert!(files.len() > 2, "the write-ahead log is there too: {files:?}");
        for file in files {
            assert_eq!(mode(&file), 0o600, "{}", file.display());
        }
    }
}
