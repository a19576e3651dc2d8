//! Runs: read, and written with their events.

use std::collections::HashMap;

use sqlx::any::AnyRow;
use sqlx::{AssertSqlSafe, Row as _};

use super::audit::containing;
use super::statements::{AnyQuery, chunks, filled, insertion};
use super::{AnyTransaction, Dialect, Store, StoreError};
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

/// What runs do, as far as lists select by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RunFilter {
    /// The program runs.
    Running,
    /// The program waits for a person.
    Waiting,
    /// The program has ended.
    Exited,
}

/// Which runs to list.
#[derive(Debug, Clone, Default)]
pub struct RunQuery {
    /// The number of rows.
    pub limit: i64,
    /// Only runs of this host; of all if it is empty.
    pub host_id: String,
    /// Only runs in this state.
    pub status: Option<RunFilter>,
    /// Only runs whose command, directory or tool contains this text.
    pub text: String,
    /// Only runs that were active before this time, in milliseconds since 1970.
    pub before_ms: Option<i64>,
}

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

    /// The most recently active runs that match.
    pub async fn find_runs(&self, query: &RunQuery) -> Result<Vec<Run>, StoreError> {
        let states = match query.status {
            None => ["running", "awaiting_input", "awaiting_approval", "exited"],
            Some(RunFilter::Running) => ["running"; 4],
            Some(RunFilter::Waiting) => {
                ["awaiting_input", "awaiting_approval", "awaiting_input", "awaiting_input"]
            }
            Some(RunFilter::Exited) => ["exited"; 4],
        };
        let rows = sqlx::query(
            "SELECT * FROM runs WHERE active_ms < $1 AND ($2 = '' OR host_id = $2) AND status IN ($3, $4, $5, $6) \
             AND ($7 = '%%' OR COALESCE(command, '') LIKE $7 ESCAPE '\\' OR COALESCE(cwd, '') LIKE $7 ESCAPE '\\' \
             OR COALESCE(tool, '') LIKE $7 ESCAPE '\\') ORDER BY active_ms DESC, id LIMIT $8",
        );
        let mut rows = rows.bind(query.before_ms.unwrap_or(i64::MAX)).bind(&query.host_id);
        for state in states {
            rows = rows.bind(state);
        }
        let rows = rows.bind(containing(&query.text)).bind(query.limit);
        rows.fetch_all(&self.read).await?.iter().map(run).collect()
    }

    /// Directories of the runs of a host, the most recently used first.
    pub async fn recent_directories(&self, host: &str, limit: i64) -> Result<Vec<String>, StoreError> {
        let rows = sqlx::query_scalar(
            "SELECT cwd FROM runs WHERE host_id = $1 AND cwd <> '' GROUP BY cwd ORDER BY MAX(active_ms) DESC LIMIT $2",
        );
        Ok(rows.bind(host).bind(limit).fetch_all(&self.read).await?)
    }

    /// Runs that wait for a person.
    pub async fn waiting_runs(&self, limit: i64) -> Result<Vec<Run>, StoreError> {
        let rows = sqlx::query(
            "SELECT * FROM runs WHERE pending_seq IS NOT NULL AND status IN ('awaiting_input', 'awaiting_approval') \
             ORDER BY active_ms DESC LIMIT $1",
        );
        rows.bind(limit).fetch_all(&self.read).await?.iter().map(run).collect()
    }

    /// The host of a run.
    pub async fn host_of_run(&self, run: &str) -> Result<Option<String>, StoreError> {
        let row = sqlx::query_scalar("SELECT host_id FROM runs WHERE id = $1").bind(run);
        Ok(row.fetch_optional(&self.read).await?)
    }

    /// The last event before the first gap in each of these runs; only in those of one host, if it is given.
    pub async fn positions(
        &self,
        runs: &[&str],
        host: Option<&str>,
    ) -> Result<HashMap<String, i64>, StoreError> {
        let mut found = HashMap::with_capacity(runs.len());
        for chunk in filled(runs) {
            let marks = self.dialect.marks(0, chunk.size);
            let sql = format!("SELECT id, host_id, last_seq FROM runs WHERE id IN ({marks})");
            let query = chunk.iter().fold(sqlx::query(AssertSqlSafe(sql)), |query, id| query.bind(*id));
            for row in query.fetch_all(&self.read).await? {
                let owner: String = row.try_get("host_id")?;
                if host.is_none_or(|host| host == owner) {
                    found.insert(row.try_get("id")?, row.try_get("last_seq")?);
                }
            }
        }
        Ok(found)
    }
}

/// Reads runs to change them.
pub(super) async fn load(
    (transaction, dialect): (&mut AnyTransaction<'_>, Dialect),
    ids: &[&str],
) -> Result<Vec<Run>, StoreError> {
    let lock = match dialect {
        Dialect::Sqlite => "",
        Dialect::Postgres => " ORDER BY id FOR UPDATE",
    };
    let mut runs = Vec::with_capacity(ids.len());
    for chunk in filled(ids) {
        let sql = format!("SELECT * FROM runs WHERE id IN ({}){lock}", dialect.marks(0, chunk.size));
        let query = chunk.iter().fold(sqlx::query(AssertSqlSafe(sql)), |query, id| query.bind(*id));
        for row in query.fetch_all(&mut **transaction).await? {
            runs.push(run(&row)?);
        }
    }
    Ok(runs)
}

fn run(row: &AnyRow) -> Result<Run, StoreError> {
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

/// Writes runs with all their columns.
pub(super) async fn upsert(
    database: (&mut AnyTransaction<'_>, Dialect),
    changed: &[&Run],
) -> Result<(), StoreError> {
    let sets: Vec<String> =
        COLUMNS[2..].iter().map(|column| format!("{column} = excluded.{column}")).collect();
    insert(database, changed, &format!("(id) DO UPDATE SET {}", sets.join(", "))).await
}

/// Adds runs; `conflict` says what happens to one that exists.
pub(super) async fn insert(
    (transaction, dialect): (&mut AnyTransaction<'_>, Dialect),
    rows: &[&Run],
    conflict: &str,
) -> Result<(), StoreError> {
    for chunk in chunks(rows) {
        let sql = insertion(dialect, "runs", &COLUMNS, chunk.len(), conflict);
        let query = sqlx::query(AssertSqlSafe(sql));
        chunk.iter().fold(query, |query, run| bind_run(query, run)).execute(&mut **transaction).await?;
    }
    Ok(())
}

fn bind_run<'q>(query: AnyQuery<'q>, run: &Run) -> AnyQuery<'q> {
    let pending = run.pending.clone();
    let (seq, pending) = (pending.as_ref().map(|pending| pending.seq), pending.unwrap_or_default());
    query
        .bind(run.id.clone())
        .bind(run.host_id.clone())
        .bind(run.tool.clone())
        .bind(run.cwd.clone())
        .bind(run.command.clone())
        .bind(run.status.word())
        .bind(run.started_ms)
        .bind(run.active_ms)
        .bind(run.ended_ms)
        .bind(run.exit_code)
        .bind(seq)
        .bind(pending.request_id)
        .bind(pending.reason)
        .bind(pending.prompt)
        .bind(pending.op_tool)
        .bind(pending.op_args_summary)
        .bind(run.last_seq)
        .bind(run.highest_seq)
        .bind(run.state_seq)
        .bind(run.bytes)
}
