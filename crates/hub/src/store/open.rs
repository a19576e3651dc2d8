//! Opening the store: an SQLite file in the data directory, or a PostgreSQL database.

use std::fs;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use sqlx::any::{AnyConnectOptions, AnyPoolOptions};
use sqlx::{AnyPool, ConnectOptions as _, Executor as _};

use super::{Dialect, Store, StoreError, schema};

const FILE: &str = "hub.db";
/// Locked during migration, so that two processes do not create the tables at once.
const LOCK: &str = "hub.lock";
/// Connections that read; each of SQLite's uses a thread.
const READERS: u32 = 4;
/// Connections to PostgreSQL.
const POSTGRES_CONNECTIONS: u32 = 12;
/// The time that an operation waits for a free connection; then it fails.
const ACQUIRE: Duration = Duration::from_secs(10);
/// FULL: what was acknowledged is kept, also after a power failure. A commit copies the write-ahead log into the file only if
/// it has 64 MiB: [`Store::checkpoint`] has copied most of it before, while no commit waits. In memory is what a statement of
/// many rows needs to undo its first ones; otherwise each statement would create a file.
const PRAGMAS: &str = "PRAGMA busy_timeout = 10000; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; \
                       PRAGMA foreign_keys = ON; PRAGMA wal_autocheckpoint = 16000; PRAGMA cache_size = -16000; \
                       PRAGMA temp_store = MEMORY";

/// The URL of a PostgreSQL database. It may contain a password, so it is never printed.
#[derive(Clone)]
pub struct DatabaseUrl(AnyConnectOptions);

impl std::fmt::Debug for DatabaseUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("DatabaseUrl")
    }
}

impl FromStr for DatabaseUrl {
    type Err = StoreError;

    fn from_str(url: &str) -> Result<DatabaseUrl, StoreError> {
        let scheme = url.split_once(':').map_or("", |(scheme, _)| scheme);
        if !matches!(scheme, "postgres" | "postgresql") {
            return Err(StoreError::DatabaseUrl("expected postgres://…".to_owned()));
        }
        let options = AnyConnectOptions::from_str(url).map_err(|error| match error {
            sqlx::Error::Configuration(why) => StoreError::DatabaseUrl(why.to_string()),
            error => StoreError::Database(error),
        })?;
        Ok(DatabaseUrl(options.disable_statement_logging()))
    }
}

impl Store {
    /// Opens the store in this directory, and creates both if they do not exist, accessible to their owner only.
    pub async fn open_sqlite(directory: &Path) -> Result<Store, StoreError> {
        sqlx::any::install_default_drivers();
        let file = directory.join(FILE);
        let in_directory = |source| StoreError::DataDir { directory: directory.to_owned(), source };
        let lock = prepare(directory, &file).map_err(in_directory)?;
        let file = file.canonicalize().map_err(in_directory)?;
        let options = AnyConnectOptions::from_str(&sqlite_url(&file))?.disable_statement_logging();
        let pool = |connections| {
            AnyPoolOptions::new()
                .max_connections(connections)
                .acquire_timeout(ACQUIRE)
                .test_before_acquire(false)
                .after_connect(|connection, _| {
                    Box::pin(async move { connection.execute(PRAGMAS).await.map(drop) })
                })
                .connect_with(options.clone())
        };
        let write = pool(1).await?;
        schema::migrate(&write, Dialect::Sqlite).await?;
        drop(lock);
        Ok(Store {
            dialect: Dialect::Sqlite,
            read: pool(READERS).await?,
            write,
            has_new_events: Arc::default(),
        })
    }

    /// Opens the store in a PostgreSQL database, and creates its tables if they do not exist.
    pub async fn open_postgres(url: &DatabaseUrl) -> Result<Store, StoreError> {
        sqlx::any::install_default_drivers();
        let pool: AnyPool = AnyPoolOptions::new()
            .max_connections(POSTGRES_CONNECTIONS)
            .acquire_timeout(ACQUIRE)
            .connect_with(url.0.clone())
            .await?;
        schema::migrate(&pool, Dialect::Postgres).await?;
        Ok(Store {
            dialect: Dialect::Postgres,
            read: pool.clone(),
            write: pool,
            has_new_events: Arc::default(),
        })
    }
}

impl Store {
    /// Copies SQLite's write-ahead log into the file, as far as no reader needs it, beside the writer. Does nothing if no event
    /// was stored since the last time.
    pub async fn checkpoint(&self) -> Result<(), StoreError> {
        if self.dialect == Dialect::Sqlite && self.has_new_events.swap(false, Ordering::Relaxed) {
            sqlx::query("PRAGMA wal_checkpoint(PASSIVE)").execute(&self.read).await?;
        }
        Ok(())
    }
}

/// The URL of a file: every byte that is not plain is percent-encoded.
fn sqlite_url(file: &Path) -> String {
    use std::os::unix::ffi::OsStrExt as _;
    let encode = |byte: &u8| match byte {
        b'/' | b'-' | b'_' | b'.' | b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' => char::from(*byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    let path: String = file.as_os_str().as_bytes().iter().map(encode).collect();
    format!("sqlite://{path}")
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
