//! Reading runs.

use sqlx::Row as _;
use sqlx::any::AnyRow;

use super::{Store, StoreError};
use crate::runs::{PendingInput, Run, RunStatus};

/// The columns of a run, in the order in which they are written.
pub(super) const COLUMNS: [&str; 20] = [
    "id",
    "host_id",
    "tool",
    "cwd",
    "command",
    "status",
    "started_ms",
    "active_ms",
    "ended_ms",
    "exit_code",
    "pending_seq",
    "pending_request_id",
    "pending_reason",
    "pending_prompt",
    "pending_op_tool",
    "pending_op_args_summary",
    "last_seq",
    "highest_seq",
    "state_seq",
    "bytes",
];

impl Store {
    /// The run with this id.
    pub async fn run(&self, id: &str) -> Result<Option<Run>, StoreError> {
        let row = sqlx::query("SELECT * FROM runs WHERE id = $1").bind(id).fetch_optional(&self.read).await?;
        row.as_ref().map(run).transpose()
    }

    /// The most recently active runs.
    pub async fn runs(&self, limit: i64) -> Result<Vec<Run>, StoreError> {
        let rows = sqlx::query("SELECT * FROM runs ORDER BY active_ms DESC, id LIMIT $1").bind(limit);
        rows.fetch_all(&self.read).await?.iter().map(run).collect()
    }

    /// Runs that wait for a person.
    pub async fn waiting_runs(&self, limit: i64) -> Result<Vec<Run>, StoreError> {
        let rows = sqlx::query(
            "SELECT * FROM runs WHERE status IN ('awaiting_input', 'awaiting_approval') ORDER BY active_ms DESC LIMIT $1",
        );
        rows.bind(limit).fetch_all(&self.read).await?.iter().map(run).collect()
    }

    /// The host of a run.
    pub async fn host_of_run(&self, run: &str) -> Result<Option<String>, StoreError> {
        let row = sqlx::query_scalar("SELECT host_id FROM runs WHERE id = $1").bind(run);
        Ok(row.fetch_optional(&self.read).await?)
    }

    /// The last event before the first gap in each of these runs of a host.
    pub async fn last_seq(&self, run: &str, host: &str) -> Result<Option<i64>, StoreError> {
        let row = sqlx::query_scalar("SELECT last_seq FROM runs WHERE id = $1 AND host_id = $2");
        Ok(row.bind(run).bind(host).fetch_optional(&self.read).await?)
    }
}

pub(super) fn run(row: &AnyRow) -> Result<Run, StoreError> {
    let pending = match row.try_get::<Option<i64>, _>("pending_seq")? {
        None => None,
        Some(seq) => Some(PendingInput {
            seq,
            request_id: row.try_get("pending_request_id")?,
            reason: row.try_get("pending_reason")?,
            prompt: row.try_get("pending_prompt")?,
            op_tool: row.try_get("pending_op_tool")?,
            op_args_summary: row.try_get("pending_op_args_summary")?,
        }),
    };
    Ok(Run {
        id: row.try_get("id")?,
        host_id: row.try_get("host_id")?,
        tool: row.try_get("tool")?,
        cwd: row.try_get("cwd")?,
        command: row.try_get("command")?,
        status: RunStatus::stored(row.try_get("status")?)?,
        started_ms: row.try_get("started_ms")?,
        active_ms: row.try_get("active_ms")?,
        ended_ms: row.try_get("ended_ms")?,
        exit_code: row.try_get("exit_code")?,
        pending,
        last_seq: row.try_get("last_seq")?,
        highest_seq: row.try_get("highest_seq")?,
        state_seq: row.try_get("state_seq")?,
        bytes: row.try_get("bytes")?,
    })
}
