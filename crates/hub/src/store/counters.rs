//! Runs that receive nothing but output: few of their columns are read and written.

use std::fmt::Write as _;

use sqlx::AssertSqlSafe;
use wire::hub::v1::kind;

use super::statements::filled;
use super::{AnyTransaction, Dialect, StoreError};
use crate::runs::{HostEvent, Run};

/// Whether an event changes nothing but the counters of its run and the time of its last activity.
pub(super) fn only_counts(event: &HostEvent) -> bool {
    event.kind == kind::RUN_OUTPUT
}

/// Reads the counters of runs, all in one row: the driver needs longer for a row than the database. The other columns are
/// those of a new run.
pub(super) async fn load(
    (transaction, dialect): (&mut AnyTransaction<'_>, Dialect),
    ids: &[&str],
) -> Result<Vec<Run>, StoreError> {
    let mut runs = Vec::with_capacity(ids.len());
    for chunk in filled(ids) {
        let query = sqlx::query_scalar(AssertSqlSafe(selection(dialect, chunk.size)));
        let query = chunk.iter().fold(query, |query, id| query.bind(*id));
        let found: String = query.fetch_one(&mut **transaction).await?;
        let found: Vec<(String, String, i64, i64, i64)> =
            serde_json::from_str(&found).map_err(|error| sqlx::Error::Decode(error.into()))?;
        for (id, host_id, last_seq, highest_seq, bytes) in found {
            runs.push(Run { last_seq, highest_seq, bytes, ..Run::new(&id, &host_id, 0) });
        }
    }
    Ok(runs)
}

/// One parameter for each row.
fn selection(dialect: Dialect, rows: usize) -> String {
    let (columns, marks) = ("id, host_id, last_seq, highest_seq, bytes", dialect.marks(0, rows));
    match dialect {
        Dialect::Sqlite => {
            format!("SELECT json_group_array(json_array({columns})) FROM runs WHERE id IN ({marks})")
        }
        Dialect::Postgres => format!(
            "SELECT COALESCE(CAST(json_agg(json_build_array({columns})) AS TEXT), '[]') FROM \
             (SELECT * FROM runs WHERE id IN ({marks}) ORDER BY id FOR UPDATE) AS locked"
        ),
    }
}

/// Writes the counters of runs, which exist.
pub(super) async fn update(
    (transaction, dialect): (&mut AnyTransaction<'_>, Dialect),
    changed: &[&Run],
    now_ms: i64,
) -> Result<(), StoreError> {
    for chunk in filled(changed) {
        let query = sqlx::query(AssertSqlSafe(updating(dialect, chunk.size))).bind(now_ms);
        let bind = |query: sqlx::query::Query<'static, _, _>, run: &&Run| {
            query.bind(run.id.clone()).bind(run.last_seq).bind(run.highest_seq).bind(run.bytes)
        };
        chunk.iter().fold(query, bind).execute(&mut **transaction).await?;
    }
    Ok(())
}

/// The first parameter is the time; then four for each row.
fn updating(dialect: Dialect, rows: usize) -> String {
    let time = dialect.marks(0, 1);
    let mut sql = format!(
        "UPDATE runs SET active_ms = {time}, last_seq = new.column2, highest_seq = new.column3, \
         bytes = new.column4 FROM (VALUES "
    );
    for row in 0..rows {
        let comma = if row == 0 { "" } else { ", " };
        // Writing to a string cannot fail.
        write!(sql, "{comma}({})", dialect.marks(1 + 4 * row, 4)).ok();
    }
    sql + ") AS new WHERE runs.id = new.column1"
}
