//! The hub's stored state in SQLite or PostgreSQL. Both run the same statements through sqlx's `Any` driver.
//!
//! | module | contents |
//! |---|---|
//! | `tokens` | tokens and executors |
//! | `users` | users, sign-ins, sign-in links |
//! | `throttle` | failed sign-ins and known addresses |
//! | `hosts` | hosts, their generations and leases, join codes |
//! | `runs`, `events` | runs, and their events, read from a cursor |
//! | `event_writer` | events of many runs, written in one transaction |
//! | `counters` | the columns of a run that output changes |
//! | `approvals` | requests for permission |
//! | `tickets` | tickets of executors |
//! | `shares` | read-only links to runs |
//! | `notices` | push subscriptions, webhooks |
//! | `audit` | who did what, as a hash chain |

mod approvals;
mod audit;
mod counters;
mod event_writer;
mod events;
mod hosts;
mod notices;
mod open;
mod retention;
mod runs;
mod schema;
mod shares;
mod statements;
mod throttle;
mod tickets;
mod tokens;
mod users;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use sqlx::{Any, AnyPool, Transaction};

pub use approvals::{Approval, ApprovalStatus, UserDecision};
pub use audit::{AuditEntry, AuditQuery};
pub use events::{EventBatch, RejectedEvent, RunProgress, StoredEvent, WrittenBatch};
pub use hosts::{HostClaim, HostLease, StoredHost};
pub use notices::{NewSubscription, NoticeChoice, PushSubscription, SubscriptionId, Webhook, WebhookForm};
pub use open::DatabaseUrl;
pub use retention::Retention;
pub use runs::{RunFilter, RunQuery};
pub use shares::{NewShare, Share, ShareId};
pub use throttle::FailureLimits;
pub use tickets::NewTicket;
pub use tokens::{ExecutorClaim, NewToken, Token, TokenId, TokenKind};
pub use users::{NewSignIn, SignIn, SignInId, User, UserId};

type AnyTransaction<'a> = Transaction<'a, Any>;

/// The SQL dialect of the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Dialect {
    Sqlite,
    Postgres,
}

impl Dialect {
    /// So many marks of parameters, separated by commas, behind the ones before them. SQLite searches the name of a parameter
    /// in a list, for each one, and in long statements that is most of the work: its marks have no names.
    fn marks(self, before: usize, count: usize) -> String {
        match self {
            Dialect::Sqlite => vec!["?"; count].join(", "),
            Dialect::Postgres => {
                let marks = (before + 1..=before + count).map(|number| format!("${number}"));
                marks.collect::<Vec<_>>().join(", ")
            }
        }
    }
}

/// The store. Every call sees the writes of all processes before it. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Store {
    dialect: Dialect,
    read: AnyPool,
    /// SQLite has one writer: one connection, whose users queue in order of arrival.
    write: AnyPool,
    /// Whether events were stored since the last checkpoint.
    has_new_events: Arc<AtomicBool>,
}

/// Why an operation of the store failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A row with this name exists.
    #[error("a {what} named {name:?} exists: choose another name, or remove it first")]
    NameTaken {
        /// What has the name: `token`, `user`.
        what: &'static str,
        /// The name that is taken.
        name: String,
    },
    /// The data directory cannot be created or used.
    #[error("cannot use the data directory {}", directory.display())]
    DataDir {
        /// The path of the directory.
        directory: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// The URL is not one of a database that is supported.
    #[error("not a database URL: {0} (example: postgres://rexhub@localhost/rexhub)")]
    DatabaseUrl(String),
    /// The schema belongs to a newer version of the program.
    #[error(
        "the database has the schema {found}, and this rexhub knows schemas up to {known}: use the newer rexhub that wrote it"
    )]
    NewerSchema {
        /// The version in the database.
        found: i64,
        /// The newest version of this program.
        known: i64,
    },
    /// The schema cannot be migrated.
    #[error("migrating the database failed")]
    Migrate(#[from] sqlx::migrate::MigrateError),
    /// A query failed.
    #[error("the database failed")]
    Database(#[from] sqlx::Error),
    /// The operating system has no random bytes.
    #[error("no random bytes for a code")]
    Random(#[from] getrandom::Error),
    /// A value that only a newer version writes.
    #[error("the {column} {value:?} is unknown: was it written by a newer rexhub?")]
    UnknownValue {
        /// The column of the value.
        column: &'static str,
        /// The value as it is stored.
        value: String,
    },
}

impl StoreError {
    /// True if the same operation may succeed later, because only the connection failed.
    pub fn is_transient(&self) -> bool {
        match self {
            StoreError::Database(
                sqlx::Error::Io(_) | sqlx::Error::PoolTimedOut | sqlx::Error::WorkerCrashed,
            ) => true,
            // Class 08: connection, 57P: shutdown by the operator, 40: serialization, 53: resources; SQLite's 5: busy.
            StoreError::Database(sqlx::Error::Database(error)) => error.code().is_some_and(|code| {
                ["08", "57P", "40", "53"].iter().any(|class| code.starts_with(class)) || code == "5"
            }),
            _ => false,
        }
    }
}

impl Store {
    /// Begins a transaction that writes.
    async fn begin(&self) -> Result<AnyTransaction<'static>, StoreError> {
        let begin = match self.dialect {
            // Otherwise a read at the beginning could not be followed by a write while another process writes.
            Dialect::Sqlite => "BEGIN IMMEDIATE",
            Dialect::Postgres => "BEGIN",
        };
        match self.write.begin_with(begin).await {
            // SQLite itself ends a transaction that fails because of the disk, and then sqlx's ROLLBACK fails and its
            // connection counts as being in a transaction for good: another one replaces it.
            Err(sqlx::Error::InvalidSavePointStatement) => {
                self.write.acquire().await?.close().await.ok();
                Ok(self.write.begin_with(begin).await?)
            }
            begun => Ok(begun?),
        }
    }

    /// A number that changes with every change that can end a connection, by any process.
    pub async fn revision(&self) -> Result<i64, StoreError> {
        Ok(sqlx::query_scalar("SELECT revision FROM changes WHERE id = 1").fetch_one(&self.read).await?)
    }

    /// True if the database responds.
    pub async fn is_alive(&self) -> bool {
        self.revision().await.is_ok()
    }
}

/// A read whose connection failed is repeated after these times.
const READ_RETRIES: [Duration; 3] =
    [Duration::from_millis(20), Duration::from_millis(200), Duration::from_secs(1)];

/// Records a change that can end a connection.
async fn increment_revision(transaction: &mut AnyTransaction<'_>) -> Result<(), StoreError> {
    sqlx::query("UPDATE changes SET revision = revision + 1 WHERE id = 1")
        .execute(&mut **transaction)
        .await?;
    Ok(())
}

/// The error of an insertion whose name is taken.
fn name_taken(error: sqlx::Error, what: &'static str, name: &str) -> StoreError {
    match &error {
        sqlx::Error::Database(database) if database.is_unique_violation() => {
            StoreError::NameTaken { what, name: name.to_owned() }
        }
        _ => error.into(),
    }
}
