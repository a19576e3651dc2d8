//! Requests for permission of all hosts: the list, the true text of one, and decisions.

use std::sync::Arc;

use axum::extract::{Path, Query, State};
use axum::routing::get;
use axum::{Json, Router};
use bytes::Bytes;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::time::timeout;
use wire::hub::v1::{Envelope, RpcResponse, kind, rpc};

use super::{Caller, PlainError, api_time};
use crate::auth::{Principal, Secret, UserRole};
use crate::hosts::RpcWaiter;
use crate::routing;
use crate::services::{Services, timestamp};
use crate::store::{Approval, ApprovalStatus};

/// The number of rows in a list of requests.
const MAX_APPROVALS: i64 = 500;

pub(super) fn routes() -> Router<Arc<Services>> {
    Router::new().route("/approvals", get(list)).route("/approvals/{run}/{request}", get(one).post(decide))
}

#[derive(Deserialize)]
struct ListQuery {
    status: Option<String>,
    host_id: Option<String>,
}

/// A request as in the API.
#[derive(Serialize)]
struct ApprovalRow {
    run_id: String,
    request_id: String,
    host_id: String,
    status: &'static str,
    requested_at: String,
    expires_at: Option<String>,
    decision: Option<String>,
    decided_by: Option<String>,
    decided_reason: Option<String>,
    decided_at: Option<String>,
    /// The data of `run.permission_requested`, redacted.
    request: Option<Value>,
    /// The true text, from the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    shown: Option<Value>,
    /// Why the true text is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    shown_error: Option<String>,
}

async fn row(services: &Services, approval: Approval) -> Result<ApprovalRow, PlainError> {
    let range = (approval.seq - 1, approval.seq);
    let events = services.store.events_after(&approval.run_id, range, 1).await?;
    Ok(ApprovalRow {
        request: events.first().and_then(|event| event.full_data()),
        run_id: approval.run_id,
        request_id: approval.request_id,
        host_id: approval.host_id,
        status: approval.status.word(),
        requested_at: api_time(approval.requested_ms),
        expires_at: approval.expires_ms.map(api_time),
        decision: approval.decision,
        decided_by: approval.decided_by,
        decided_reason: approval.reason,
        decided_at: approval.decided_ms.map(api_time),
        shown: None,
        shown_error: None,
    })
}

async fn list(
    State(services): State<Arc<Services>>,
    _caller: Caller,
    Query(query): Query<ListQuery>,
) -> Result<Json<Vec<ApprovalRow>>, PlainError> {
    let status = match query.status.as_deref() {
        None | Some("pending") => ApprovalStatus::Pending,
        Some("sent") => ApprovalStatus::Sent,
        Some("decided") => ApprovalStatus::Decided,
        Some(_) => return Err(PlainError::bad("status is pending, sent or decided")),
    };
    let mut rows = Vec::new();
    for approval in services.store.approvals(status, query.host_id.as_deref(), MAX_APPROVALS).await? {
        rows.push(row(&services, approval).await?);
    }
    Ok(Json(rows))
}

async fn one(
    State(services): State<Arc<Services>>,
    caller: Caller,
    Path((run, request)): Path<(String, String)>,
) -> Result<Json<ApprovalRow>, PlainError> {
    let principal = caller.with_role(UserRole::Operator)?;
    let found = services.store.approval(&run, &request).await?;
    let approval = found.ok_or_else(|| PlainError::not_found("unknown request"))?;
    let is_pending = approval.status == ApprovalStatus::Pending;
    let mut row = row(&services, approval).await?;
    if is_pending {
        match show(&services, &principal, &run, &request).await {
            Ok(shown) => row.shown = Some(shown),
            Err(error) => row.shown_error = Some(error),
        }
    }
    Ok(Json(row))
}

/// The true text of a request, which only the host has.
async fn show(services: &Services, principal: &Principal, run: &str, request: &str) -> Result<Value, String> {
    let id = Secret::random().map_err(|error| error.to_string())?;
    let data = json!({ "request_id": id.expose(), "approval_id": request });
    let envelope =
        Envelope::new(rpc::APPROVAL_SHOW, timestamp(), &data).map_err(|error| error.to_string())?;
    let envelope = Envelope { run_id: Some(run.to_owned()), ..envelope };
    let (sender, response) = oneshot::channel::<Bytes>();
    let waiter = Some(RpcWaiter::Hub(sender));
    routing::forward(services, principal, &envelope, waiter).await.map_err(|error| error.to_string())?;
    let late = || "the host did not respond in time".to_owned();
    let frame =
        timeout(services.limits.host_response, response).await.map_err(|_| late())?.map_err(|_| late())?;
    let text = std::str::from_utf8(&frame).map_err(|error| error.to_string())?;
    let envelope = Envelope::parse(text).map_err(|error| error.to_string())?;
    let response: RpcResponse = envelope.decode().map_err(|error| error.to_string())?;
    match response.ok {
        true => Ok(response.result.unwrap_or_default()),
        false => Err(response.error.unwrap_or_default()),
    }
}

#[derive(Deserialize)]
struct DecideRequest {
    decision: String,
    reason: Option<String>,
    text: Option<String>,
    actor: Option<String>,
}

async fn decide(
    State(services): State<Arc<Services>>,
    caller: Caller,
    Path((run, request)): Path<(String, String)>,
    Json(wanted): Json<DecideRequest>,
) -> Result<StatusCode, PlainError> {
    let principal = caller.with_role(UserRole::Operator)?;
    let name = match wanted.decision.as_str() {
        "approve" | "approve_for_session" => kind::RUN_PERMISSION_APPROVE,
        _ => kind::RUN_PERMISSION_DENY,
    };
    let mut data = json!({ "request_id": request, "decision": wanted.decision });
    let optional = [("reason", wanted.reason), ("text", wanted.text), ("actor", wanted.actor)];
    for (member, value) in optional.into_iter().filter_map(|(member, value)| Some((member, value?))) {
        data[member] = value.into();
    }
    let envelope =
        Envelope::new(name, timestamp(), &data).map_err(|error| PlainError::bad(error.to_string()))?;
    let envelope = Envelope { run_id: Some(run), ..envelope };
    routing::forward(&services, &principal, &envelope, None).await?;
    Ok(StatusCode::NO_CONTENT)
}
