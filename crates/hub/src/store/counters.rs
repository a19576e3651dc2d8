//! Runs that receive nothing but output: few of their columns are read and written.

use std::fmt::Write as _;

use sqlx::any::AnyRow;
use sqlx::{AssertSqlSafe, Row as _};
use wire::hub::v1::kind;

use super::statements::filled;
use super::{AnyTransaction, Dialect, StoreError};
use crate::runs::{HostEvent, Run};

/// The columns that are read.
pub(super) const COLUMNS: &str = "id, host_id, last_seq, highest_seq, bytes";

/// Whether an event changes nothing but the counters of its run and the time of its last activity.
pub(super) fn only_counts(event: &HostEvent) -> bool {
    event.kind == kind::RUN_OUTPUT
}

/// A run of which only the counters are known.
pub(super) fn run(row: &AnyRow) -> Result<Run, StoreError> {
    let (id, host_id): (String, String) = (row.try_get("id")?, row.try_get("host_id")?);
    Ok(Run {
        last_seq: row.try_get("last_seq")?,
        highest_seq: row.try_get("highest_seq")?,
        bytes: row.try_get("bytes")?,
        ..Run::new(&id, &host_id, 0)
    })
}

/// Writes the counters of runs, which exist.
pub(super) async fn update(
    (transaction, dialect): (&mut AnyTransaction<'_>, Dialect),
    changed: &[&Run],
    now_ms: i64,
) -> Result<(), StoreError> {
    for chunk in filled(changed) {
        let query = sqlx::query(AssertSqlSafe(statement(dialect, chunk.size))).bind(now_ms);
        let bind = |query: sqlx::query::Query<'static, _, _>, run: &&Run| {
            query.bind(run.id.clone()).bind(run.last_seq).bind(run.highest_seq).bind(run.bytes)
        };
        chunk.iter().fold(query, bind).execute(&mut **transaction).await?;
    }
    Ok(())
}

/// The first parameter is the time; then four for each row.
fn statement(dialect: Dialect, rows: usize) -> String {
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
