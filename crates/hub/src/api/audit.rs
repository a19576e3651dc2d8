//! The audit: pages of it, filtered, and an export.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Query, State};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use axum::{Json, Router};
use futures_util::stream;
use http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Caller, PlainError};
use crate::auth::UserRole;
use crate::services::Services;
use crate::store::{AuditEntry, AuditQuery, Store, StoreError};

/// The number of rows in one page.
const MAX_ROWS: i64 = 1000;

pub(super) fn routes() -> Router<Arc<Services>> {
    Router::new().route("/audit", get(page)).route("/audit/export", get(export))
}

#[derive(Default, Deserialize)]
struct AuditParams {
    before_id: Option<i64>,
    limit: Option<i64>,
    /// Parts of the columns.
    actor: Option<String>,
    action: Option<String>,
    target: Option<String>,
    /// Times, RFC 3339.
    since: Option<String>,
    until: Option<String>,
    /// Of an export: `ndjson` or `csv`.
    format: Option<String>,
}

impl AuditParams {
    fn query(self, limit: i64) -> Result<AuditQuery, PlainError> {
        let time = |name: &str, text: Option<String>| match text {
            None => Ok(None),
            Some(text) => match text.parse::<jiff::Timestamp>() {
                Ok(time) => Ok(Some(time)),
                Err(_) => Err(PlainError::bad(format!("{name} is a time such as 2026-01-31T12:00:00Z"))),
            },
        };
        Ok(AuditQuery {
            before: self.before_id,
            limit,
            actor: self.actor.unwrap_or_default(),
            action: self.action.unwrap_or_default(),
            target: self.target.unwrap_or_default(),
            since: time("since", self.since)?,
            until: time("until", self.until)?,
        })
    }
}

fn row(entry: &AuditEntry) -> Value {
    json!({
        "id": entry.id,
        "ts": entry.ts,
        "actor": entry.actor,
        "action": entry.action,
        "target": entry.target,
        "detail": entry.detail,
    })
}

async fn page(
    State(services): State<Arc<Services>>,
    caller: Caller,
    Query(params): Query<AuditParams>,
) -> Result<Json<Vec<Value>>, PlainError> {
    caller.with_role(UserRole::Admin)?;
    services.audit_log.flush().await;
    let limit = params.limit.unwrap_or(200).clamp(1, MAX_ROWS);
    let entries = services.store.audit_entries(&params.query(limit)?).await?;
    Ok(Json(entries.iter().map(row).collect()))
}

async fn export(
    State(services): State<Arc<Services>>,
    caller: Caller,
    Query(params): Query<AuditParams>,
) -> Result<Response, PlainError> {
    let principal = caller.with_role(UserRole::Admin)?;
    let is_csv = match params.format.as_deref() {
        Some("csv") => true,
        None | Some("ndjson") => false,
        Some(_) => return Err(PlainError::bad("format is csv or ndjson")),
    };
    let query = params.query(MAX_ROWS)?;
    services.audit(AuditEntry::new(principal.actor(), "audit.export", "")).await;
    services.audit_log.flush().await;
    let head = if is_csv { "id,time,actor,action,target,detail\r\n" } else { "" };
    let state = ExportState { store: services.store.clone(), query: Some(query), is_csv, head };
    let (kind, name) = match is_csv {
        true => ("text/csv; charset=utf-8", "attachment; filename=\"audit.csv\""),
        false => ("application/x-ndjson", "attachment; filename=\"audit.ndjson\""),
    };
    let body = Body::from_stream(stream::try_unfold(state, ExportState::next));
    Ok(([(CONTENT_TYPE, kind), (CONTENT_DISPOSITION, name)], body).into_response())
}

/// The position of an export, which reads page by page as the client receives.
struct ExportState {
    store: Store,
    /// The next page; none after the last.
    query: Option<AuditQuery>,
    is_csv: bool,
    head: &'static str,
}

impl ExportState {
    async fn next(mut self) -> Result<Option<(String, ExportState)>, StoreError> {
        let Some(query) = self.query.take() else { return Ok(None) };
        let entries = self.store.audit_entries(&query).await?;
        let mut text = std::mem::take(&mut self.head).to_owned();
        for entry in &entries {
            match self.is_csv {
                true => text.push_str(&csv_line(entry)),
                false => text.push_str(&format!("{}\n", row(entry))),
            }
        }
        if let Some(last) = entries.last() {
            self.query = Some(AuditQuery { before: Some(last.id), ..query });
        }
        Ok(Some((text, self)))
    }
}

fn csv_line(entry: &AuditEntry) -> String {
    let id = entry.id.to_string();
    let cells = [&id, &entry.ts, &entry.actor, &entry.action, &entry.target, &entry.detail];
    let cells: Vec<String> = cells.into_iter().map(|cell| csv_cell(cell)).collect();
    format!("{}\r\n", cells.join(","))
}

/// Quoted, and never a formula for a spreadsheet.
fn csv_cell(text: &str) -> String {
    let guard = if text.starts_with(['=', '+', '-', '@', '\t', '\r']) { "'" } else { "" };
    format!("\"{guard}{}\"", text.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_neither_a_formula_nor_two_cells() {
        assert_eq!(csv_cell("a,\"b\"\n"), "\"a,\"\"b\"\"\n\"");
        assert_eq!(csv_cell("=1+1"), "\"'=1+1\"");
    }
}
