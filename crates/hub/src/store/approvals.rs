//! Requests for permission: pending, decided once by a user, confirmed by the host.

use sqlx::any::AnyRow;
use sqlx::{AssertSqlSafe, Row as _};

use super::{AnyTransaction, Store, StoreError};
use crate::runs::{ApprovalChange, PendingInput};

/// The state of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApprovalStatus {
    /// No user has decided.
    Pending,
    /// A user has decided; the host has not confirmed it yet.
    Sent,
    /// The host has settled it.
    Decided,
}

impl ApprovalStatus {
    /// The name in the database and in the API.
    pub fn word(self) -> &'static str {
        match self {
            ApprovalStatus::Pending => "pending",
            ApprovalStatus::Sent => "sent",
            ApprovalStatus::Decided => "decided",
        }
    }
}

/// One request for permission. Its text is in the event `seq` of its run, redacted; the true text is with the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Approval {
    /// The run that waits.
    pub run_id: String,
    /// The request.
    pub request_id: String,
    /// The host of the run.
    pub host_id: String,
    /// The event that asked.
    pub seq: i64,
    /// Whether it is decided.
    pub status: ApprovalStatus,
    /// When it was stored, in milliseconds since 1970.
    pub requested_ms: i64,
    /// When the host stops waiting.
    pub expires_ms: Option<i64>,
    /// `approve`, `deny`, `timeout`, …
    pub decision: Option<String>,
    /// Who decided.
    pub decided_by: Option<String>,
    /// Why, in the words of the user.
    pub reason: Option<String>,
    /// When it was decided.
    pub decided_ms: Option<i64>,
    /// The message that carries the decision to the host.
    pub command: Option<String>,
}

/// A user's decision about a request.
#[derive(Debug, Clone)]
pub struct UserDecision<'a> {
    /// `approve`, `approve_for_session`, `deny` or `abort`.
    pub decision: &'a str,
    /// The name of the user.
    pub user: &'a str,
    /// Why, in the words of the user.
    pub reason: Option<&'a str>,
    /// The message to the host, repeated until the host confirms it.
    pub command: &'a str,
    /// The current time in milliseconds since 1970.
    pub now_ms: i64,
}

impl Store {
    /// Records a decision. False if the request is not pending: only the first decision counts.
    pub async fn decide(
        &self,
        run: &str,
        request: &str,
        decision: &UserDecision<'_>,
    ) -> Result<bool, StoreError> {
        let decided = sqlx::query(
            "UPDATE approvals SET status = 'sent', decision = $1, decided_by = $2, reason = $3, command = $4, decided_ms = $5 \
             WHERE run_id = $6 AND request_id = $7 AND status = 'pending'",
        )
        .bind(decision.decision)
        .bind(decision.user)
        .bind(decision.reason)
        .bind(decision.command)
        .bind(decision.now_ms)
        .bind(run)
        .bind(request)
        .execute(&self.write)
        .await?;
        Ok(decided.rows_affected() > 0)
    }

    /// The request with this id in this run.
    pub async fn approval(&self, run: &str, request: &str) -> Result<Option<Approval>, StoreError> {
        let row = sqlx::query("SELECT * FROM approvals WHERE run_id = $1 AND request_id = $2");
        let row = row.bind(run).bind(request).fetch_optional(&self.read).await?;
        row.as_ref().map(approval).transpose()
    }

    /// The oldest requests with this status, of one host or of all.
    pub async fn approvals(
        &self,
        status: ApprovalStatus,
        host: Option<&str>,
        limit: i64,
    ) -> Result<Vec<Approval>, StoreError> {
        let of_host = if host.is_some() { "AND host_id = $3" } else { "" };
        let sql = format!(
            "SELECT * FROM approvals WHERE status = $1 {of_host} ORDER BY requested_ms, request_id LIMIT $2"
        );
        let query = sqlx::query(AssertSqlSafe(sql)).bind(status.word()).bind(limit);
        let query = match host {
            Some(host) => query.bind(host),
            None => query,
        };
        query.fetch_all(&self.read).await?.iter().map(approval).collect()
    }

    /// Settles requests that no user has decided and that the host stopped waiting for before `before_ms` without saying so.
    /// Returns how many. What became of a decision that was sent, only the host can say.
    pub async fn expire_approvals(&self, before_ms: i64) -> Result<u64, StoreError> {
        let mut transaction = self.begin().await?;
        // The run waits no longer either; its status changes with the next event in any case.
        let released: Vec<String> = sqlx::query_scalar(
            "UPDATE runs SET status = 'running', pending_seq = NULL, pending_request_id = NULL, pending_reason = NULL, \
             pending_prompt = NULL, pending_op_tool = NULL, pending_op_args_summary = NULL \
             WHERE status = 'awaiting_approval' AND EXISTS (SELECT 1 FROM approvals a WHERE a.run_id = runs.id \
             AND a.request_id = runs.pending_request_id AND a.status IN ('pending', 'sent') AND a.expires_ms < $1) \
             RETURNING id",
        )
        .bind(before_ms)
        .fetch_all(&mut *transaction)
        .await?;
        let expired = sqlx::query(
            "UPDATE approvals SET status = 'decided', decision = 'timeout', decided_ms = $1, command = NULL \
             WHERE status = 'pending' AND expires_ms < $1",
        );
        let expired = expired.bind(before_ms).execute(&mut *transaction).await?.rows_affected();
        for run in released {
            await_oldest(&mut transaction, &run).await?;
        }
        transaction.commit().await?;
        Ok(expired)
    }
}

/// Applies a change that an event of the run causes.
pub(super) async fn apply(
    transaction: &mut AnyTransaction<'_>,
    (run, host): (&str, &str),
    change: ApprovalChange,
    now_ms: i64,
) -> Result<(), StoreError> {
    let query = match change {
        ApprovalChange::Requested { request_id, seq, is_typed, expires_ms } => sqlx::query(
            "INSERT INTO approvals (run_id, request_id, host_id, seq, status, is_typed, requested_ms, expires_ms) \
             VALUES ($1, $2, $3, $4, 'pending', $5, $6, $7) ON CONFLICT DO NOTHING",
        )
        .bind(run)
        .bind(request_id)
        .bind(host)
        .bind(seq)
        .bind(i64::from(is_typed))
        .bind(now_ms)
        .bind(expires_ms),
        // The host has the last word, also about a request that this hub has settled as overdue. Its word is less exact than
        // the user's.
        ApprovalChange::Decided { request_id, decision, user, reason } => sqlx::query(
            "UPDATE approvals SET status = 'decided', decision = CASE WHEN ($3 = 'approve' AND decision = 'approve_for_session') \
             OR ($3 = 'deny' AND decision = 'abort') THEN decision ELSE $3 END, decided_by = COALESCE($4, decided_by), \
             reason = COALESCE($5, reason), decided_ms = COALESCE(decided_ms, $6), command = NULL \
             WHERE run_id = $1 AND request_id = $2",
        )
        .bind(run)
        .bind(request_id)
        .bind(decision)
        .bind(user)
        .bind(reason)
        .bind(now_ms),
        ApprovalChange::Done { request_id, decision } => sqlx::query(
            "UPDATE approvals SET status = 'decided', decision = COALESCE(decision, $3), \
             decided_ms = COALESCE(decided_ms, $4), command = NULL \
             WHERE run_id = $1 AND request_id = $2 AND status IN ('pending', 'sent')",
        )
        .bind(run)
        .bind(request_id)
        .bind(decision)
        .bind(now_ms),
        ApprovalChange::Typed => sqlx::query(
            "UPDATE approvals SET status = 'decided', decision = COALESCE(decision, 'input'), \
             decided_ms = COALESCE(decided_ms, $2), command = NULL \
             WHERE run_id = $1 AND is_typed = 1 AND status IN ('pending', 'sent')",
        )
        .bind(run)
        .bind(now_ms),
        // An operation that waits in the host has a deadline, and does not need the program.
        ApprovalChange::Withdrawn => sqlx::query(
            "UPDATE approvals SET status = 'decided', decision = COALESCE(decision, 'withdrawn'), \
             decided_ms = COALESCE(decided_ms, $2), command = NULL \
             WHERE run_id = $1 AND status IN ('pending', 'sent') AND (is_typed = 1 OR expires_ms IS NULL)",
        )
        .bind(run)
        .bind(now_ms),
    };
    query.execute(&mut **transaction).await?;
    Ok(())
}

/// A run that waits for nothing any more waits for its oldest pending request, if it has one.
pub(super) async fn await_oldest(transaction: &mut AnyTransaction<'_>, run: &str) -> Result<(), StoreError> {
    let oldest = sqlx::query(
        "SELECT a.seq, a.request_id, e.data FROM approvals a LEFT JOIN events e ON e.run_id = a.run_id AND e.seq = a.seq \
         WHERE a.run_id = $1 AND a.status = 'pending' ORDER BY a.seq LIMIT 1",
    );
    let Some(row) = oldest.bind(run).fetch_optional(&mut **transaction).await? else { return Ok(()) };
    let data: Option<String> = row.try_get("data")?;
    let fields = data.and_then(|data| serde_json::from_str(&data).ok()).unwrap_or_default();
    let pending = PendingInput::of(row.try_get("seq")?, &fields);
    sqlx::query(
        "UPDATE runs SET status = 'awaiting_approval', pending_seq = $1, pending_request_id = $2, pending_reason = $3, \
         pending_prompt = $4, pending_op_tool = $5, pending_op_args_summary = $6 WHERE id = $7",
    )
    .bind(pending.seq)
    .bind(row.try_get::<String, _>("request_id")?)
    .bind(pending.reason)
    .bind(pending.prompt)
    .bind(pending.op_tool)
    .bind(pending.op_args_summary)
    .bind(run)
    .execute(&mut **transaction)
    .await?;
    Ok(())
}

fn approval(row: &AnyRow) -> Result<Approval, StoreError> {
    let status: String = row.try_get("status")?;
    Ok(Approval {
        run_id: row.try_get("run_id")?,
        request_id: row.try_get("request_id")?,
        host_id: row.try_get("host_id")?,
        seq: row.try_get("seq")?,
        status: match status.as_str() {
            "pending" => ApprovalStatus::Pending,
            "sent" => ApprovalStatus::Sent,
            "decided" => ApprovalStatus::Decided,
            _ => return Err(StoreError::UnknownValue { column: "status of approval", value: status }),
        },
        requested_ms: row.try_get("requested_ms")?,
        expires_ms: row.try_get("expires_ms")?,
        decision: row.try_get("decision")?,
        decided_by: row.try_get("decided_by")?,
        reason: row.try_get("reason")?,
        decided_ms: row.try_get("decided_ms")?,
        command: row.try_get("command")?,
    })
}
