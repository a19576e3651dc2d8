//! The schema: migrations in SQLite's dialect, and their translation for PostgreSQL.

use std::borrow::Cow;

use sqlx::migrate::{MigrateError, Migration, MigrationType, Migrator};
use sqlx::{AnyPool, AssertSqlSafe, SqlSafeStr as _};

use super::{Dialect, StoreError};

/// Every migration that was ever released; only appended to.
const MIGRATIONS: &[(i64, &str, &str)] = &[
    (1, "tokens", include_str!("migrations/0001_tokens.sql")),
    (2, "hub", include_str!("migrations/0002_hub.sql")),
    (3, "tickets", include_str!("migrations/0003_tickets.sql")),
    (4, "web", include_str!("migrations/0004_web.sql")),
];

/// Words of SQLite's dialect and what PostgreSQL writes instead, in this order.
const POSTGRES_WORDS: &[(&str, &str)] = &[
    ("INTEGER PRIMARY KEY AUTOINCREMENT", "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY"),
    (" INTEGER", " BIGINT"),
    (" BLOB", " BYTEA"),
    (") STRICT;", ");"),
];

/// Applies the missing migrations. A schema of a newer version is refused.
pub(super) async fn migrate(pool: &AnyPool, dialect: Dialect) -> Result<(), StoreError> {
    let migration = |(version, name, sql): &(i64, &'static str, &'static str)| {
        let sql = AssertSqlSafe(in_dialect(sql, dialect)).into_sql_str();
        Migration::new(*version, Cow::Borrowed(*name), MigrationType::Simple, sql, false)
    };
    let migrator = Migrator::with_migrations(MIGRATIONS.iter().map(migration).collect());
    match migrator.run(pool).await {
        Err(MigrateError::VersionMissing(found)) => Err(StoreError::NewerSchema {
            found,
            known: MIGRATIONS.last().map_or(0, |(version, ..)| *version),
        }),
        migrated => Ok(migrated?),
    }
}

fn in_dialect(sql: &str, dialect: Dialect) -> String {
    match dialect {
        Dialect::Sqlite => sql.to_owned(),
        Dialect::Postgres => {
            POSTGRES_WORDS.iter().fold(sql.to_owned(), |sql, (from, to)| sql.replace(from, to))
        }
    }
}
