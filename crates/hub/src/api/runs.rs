//! Runs and their messages, and input over HTTP.

use std::sync::Arc;

use axum::extract::{Path, Query, State};
use axum::routing::{get, post};
use axum::{Json, Router};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use wire::hub::v1::{Envelope, SendInput, kind};

use super::{Caller, PlainError, api_time};
use crate::auth::UserRole;
use crate::routing;
use crate::runs::{Run, RunStatus};
use crate::services::{Services, timestamp};
use crate::store::{RunFilter, RunQuery, StoredEvent};

/// The number of rows in a list of runs, if the request names none.
const MAX_RUNS: i64 = 200;
/// The largest number of rows that a request for runs can name.
const MAX_RUNS_REQUESTED: i64 = 2000;
/// The number of rows in a list of messages.
const MAX_MESSAGES: i64 = 500;
/// The limit on the text of a message about an operation, in characters; a longer one ends with an ellipsis.
const MESSAGE_TEXT: usize = 2000;

pub(super) fn routes() -> Router<Arc<Services>> {
    Router::new()
        .route("/health", get(health))
        .route("/runs", get(list))
        .route("/sessions", get(list))
        .route("/sessions/recent", get(recent))
        .route("/sessions/{id}", get(one))
        .route("/runs/{id}", get(one))
        .route("/runs/{id}/messages", get(messages))
        .route("/sessions/{id}/messages", get(messages))
        .route("/runs/{id}/input", post(input))
}

async fn health() -> Json<Value> {
    Json(json!({ "name": "rexhub", "version": env!("CARGO_PKG_VERSION") }))
}

/// A run as in the API: every member is present, missing values are null.
#[derive(Serialize)]
struct RunRow {
    id: String,
    host_id: String,
    tool: Option<String>,
    cwd: Option<String>,
    command: Option<String>,
    status: RunStatus,
    started_at: String,
    last_active_at: String,
    pending_request_id: Option<String>,
    pending_reason: Option<String>,
    pending_prompt: Option<String>,
    pending_op_tool: Option<String>,
    pending_op_args_summary: Option<String>,
    ended_at: Option<String>,
    exit_code: Option<i64>,
    last_seq: i64,
}

impl From<Run> for RunRow {
    fn from(run: Run) -> RunRow {
        let pending = run.pending.unwrap_or_default();
        RunRow {
            id: run.id,
            host_id: run.host_id,
            tool: run.tool,
            cwd: run.cwd,
            command: run.command,
            status: run.status,
            started_at: api_time(run.started_ms),
            last_active_at: api_time(run.active_ms),
            pending_request_id: pending.request_id,
            pending_reason: pending.reason,
            pending_prompt: pending.prompt,
            pending_op_tool: pending.op_tool,
            pending_op_args_summary: pending.op_args_summary,
            ended_at: run.ended_ms.map(api_time),
            exit_code: run.exit_code,
            last_seq: run.last_seq,
        }
    }
}

#[derive(Deserialize)]
struct RunsQuery {
    limit: Option<i64>,
    host_id: Option<String>,
    status: Option<RunFilter>,
    q: Option<String>,
    /// A `last_active_at`.
    before: Option<String>,
}

async fn list(
    State(services): State<Arc<Services>>,
    _caller: Caller,
    Query(query): Query<RunsQuery>,
) -> Result<Json<Vec<RunRow>>, PlainError> {
    let before_ms = match query.before.map(|text| text.parse::<jiff::Timestamp>()).transpose() {
        Ok(before) => before.map(jiff::Timestamp::as_millisecond),
        Err(_) => return Err(PlainError::bad("before is a time such as 2026-01-31T12:00:00Z")),
    };
    let query = RunQuery {
        limit: query.limit.unwrap_or(MAX_RUNS).clamp(1, MAX_RUNS_REQUESTED),
        host_id: query.host_id.unwrap_or_default(),
        status: query.status,
        text: query.q.unwrap_or_default(),
        before_ms,
    };
    let runs = services.store.find_runs(&query).await?;
    Ok(Json(runs.into_iter().map(RunRow::from).collect()))
}

#[derive(Deserialize)]
struct RecentQuery {
    limit: Option<i64>,
}

async fn recent(
    State(services): State<Arc<Services>>,
    _caller: Caller,
    Query(query): Query<RecentQuery>,
) -> Result<Json<Vec<RunRow>>, PlainError> {
    let limit = query.limit.unwrap_or(50).clamp(1, MAX_RUNS);
    Ok(Json(services.store.runs(limit).await?.into_iter().map(RunRow::from).collect()))
}

async fn one(
    State(services): State<Arc<Services>>,
    _caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<RunRow>, PlainError> {
    let run = services.store.run(&id).await?.ok_or_else(|| PlainError::not_found("unknown session_id"))?;
    Ok(Json(run.into()))
}

#[derive(Deserialize)]
struct MessagesQuery {
    limit: Option<i64>,
    before_id: Option<i64>,
    include_output: Option<bool>,
}

/// An event as a message of a conversation.
#[derive(Serialize)]
struct MessageRow {
    id: i64,
    seq: i64,
    ts: String,
    role: &'static str,
    kind: String,
    actor: Option<String>,
    request_id: Option<String>,
    text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<Value>,
}

async fn messages(
    State(services): State<Arc<Services>>,
    _caller: Caller,
    Path(id): Path<String>,
    Query(query): Query<MessagesQuery>,
) -> Result<Json<Vec<MessageRow>>, PlainError> {
    let limit = query.limit.unwrap_or(200).clamp(1, MAX_MESSAGES);
    let with_output = query.include_output.unwrap_or(true);
    let events = services.store.messages(&id, query.before_id, with_output, limit).await?;
    Ok(Json(events.into_iter().map(message_row).collect()))
}

fn message_row(event: StoredEvent) -> MessageRow {
    let mut data = event.full_data();
    let (role, text) = match event.kind.as_str() {
        kind::RUN_OUTPUT => ("assistant", event.text.clone().unwrap_or_default()),
        kind::RUN_INPUT => ("user", event.text.clone().unwrap_or_default()),
        _ => ("system", system_text(&event.kind, data.as_ref())),
    };
    let request_id = match event.kind.as_str() {
        kind::RUN_INPUT => event.input_id,
        _ => event.request_id,
    };
    // The text of output and input is a member of the row; the exact bytes and the user are not.
    if let (true, Some(Value::Object(members))) = (role != "system", &mut data) {
        members.retain(|name, _| !matches!(name.as_str(), "text" | "text_redacted"));
    }
    MessageRow {
        id: event.id,
        seq: event.seq,
        ts: event.ts,
        role,
        kind: event.kind,
        actor: event.actor,
        request_id,
        text,
        data,
    }
}

/// The text of an event that has none.
fn system_text(event: &str, data: Option<&Value>) -> String {
    let empty = Value::Null;
    let data = data.unwrap_or(&empty);
    let word = |member: &str| match &data[member] {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    match event {
        kind::RUN_STARTED => "run started".to_owned(),
        kind::RUN_EXITED => "run exited".to_owned(),
        kind::RUN_PERMISSION_REQUESTED => word("prompt"),
        kind::RUN_PERMISSION_DECIDED => {
            format!("permission.decided decision={} request_id={}", word("decision"), word("request_id"))
        }
        kind::TOOL_CALL => cut(format!("tool.call {} {}", word("tool"), data["args"])),
        kind::TOOL_RESULT => {
            let outcome = match data["ok"].as_bool() {
                Some(true) => data["result"].to_string(),
                _ => word("error"),
            };
            let (tool, ok, duration) = (word("tool"), &data["ok"], &data["duration_ms"]);
            cut(format!("tool.result {tool} ok={ok} duration_ms={duration} {outcome}"))
        }
        other => other.to_owned(),
    }
}

fn cut(text: String) -> String {
    match text.char_indices().nth(MESSAGE_TEXT) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

async fn input(
    State(services): State<Arc<Services>>,
    caller: Caller,
    Path(id): Path<String>,
    Json(input): Json<SendInput>,
) -> Result<StatusCode, PlainError> {
    let principal = caller.with_role(UserRole::Operator)?;
    let mut data = Map::new();
    data.insert("input_id".to_owned(), input.input_id.into());
    data.insert("text".to_owned(), input.text.into());
    data.insert("actor".to_owned(), input.actor.unwrap_or_else(|| "web".to_owned()).into());
    let envelope = Envelope::new(kind::RUN_SEND_INPUT, timestamp(), &data);
    let envelope = envelope.map_err(|error| PlainError::bad(error.to_string()))?;
    let envelope = Envelope { run_id: Some(id), ..envelope };
    routing::forward(&services, &principal, &envelope, None).await?;
    Ok(StatusCode::NO_CONTENT)
}
