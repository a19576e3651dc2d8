//! Retention: ended runs are removed with their events, by age and by size; so are runs of hosts that are gone.

use sqlx::Row as _;

use super::{Store, StoreError};

/// Runs that are removed before the size of all is computed again.
const RUNS_PER_STEP: i64 = 100;
/// Events that are removed in one transaction: SQLite has one writer, and the events of hosts wait for it.
const EVENTS_PER_TRANSACTION: i64 = 1000;

/// How long and how much is kept.
#[derive(Debug, Clone, Copy)]
pub struct Retention {
    /// The age of an ended run, in milliseconds since its last event; older ones are removed.
    pub age_ms: i64,
    /// The size of the events of all runs; beyond it, the ended runs that were active least recently are removed.
    pub bytes: i64,
}

impl Store {
    /// Removes ended runs, with their events and approvals, that are too old or too large together. Returns how many.
    pub async fn remove_old_runs(&self, keep: Retention, now_ms: i64) -> Result<u64, StoreError> {
        let mut removed = 0;
        loop {
            let total: i64 = sqlx::query_scalar("SELECT CAST(COALESCE(SUM(bytes), 0) AS BIGINT) FROM runs")
                .fetch_one(&self.read)
                .await?;
            // A run of a host that is gone for good counts as ended, although no event says so.
            let rows = sqlx::query(
                "SELECT id, active_ms, bytes FROM runs WHERE status = 'exited' OR (active_ms < $1 AND NOT EXISTS \
                 (SELECT 1 FROM hosts h WHERE h.id = runs.host_id AND (h.lease_ms > $2 OR h.last_seen_ms >= $1))) \
                 ORDER BY active_ms LIMIT $3",
            )
            .bind(now_ms - keep.age_ms)
            .bind(now_ms)
            .bind(RUNS_PER_STEP)
            .fetch_all(&self.read)
            .await?;
            let (mut excess, mut step) = (total - keep.bytes, Vec::new());
            for row in &rows {
                let (active_ms, bytes): (i64, i64) = (row.try_get("active_ms")?, row.try_get("bytes")?);
                if active_ms >= now_ms - keep.age_ms && excess <= 0 {
                    break;
                }
                excess -= bytes;
                step.push(row.try_get::<String, _>("id")?);
            }
            if step.is_empty() {
                return Ok(removed);
            }
            removed += step.len() as u64;
            self.remove_runs(&step).await?;
        }
    }

    /// Removes runs, each with its row last: one that is removed in part is found again.
    async fn remove_runs(&self, runs: &[String]) -> Result<(), StoreError> {
        for run in runs {
            while self.remove_some_events(run).await? == EVENTS_PER_TRANSACTION.unsigned_abs() {}
            let mut transaction = self.begin().await?;
            for sql in [
                // Those that have arrived meanwhile.
                "DELETE FROM events WHERE run_id = $1",
                "DELETE FROM approvals WHERE run_id = $1",
                "DELETE FROM runs WHERE id = $1",
            ] {
                sqlx::query(sql).bind(run).execute(&mut *transaction).await?;
            }
            transaction.commit().await?;
        }
        Ok(())
    }

    /// Removes the oldest events of a run. Returns how many.
    async fn remove_some_events(&self, run: &str) -> Result<u64, StoreError> {
        let mut transaction = self.begin().await?;
        let removed = sqlx::query(
            "DELETE FROM events WHERE run_id = $1 AND seq IN (SELECT seq FROM events WHERE run_id = $1 ORDER BY seq LIMIT $2)",
        );
        let removed = removed.bind(run).bind(EVENTS_PER_TRANSACTION).execute(&mut *transaction).await?;
        transaction.commit().await?;
        Ok(removed.rows_affected())
    }
}
