//! Decisions of hub users, and the true text of what they decide about.

use std::sync::Arc;

use engine::approval::{ApprovalAnswer, Choice, Scope};
use serde::{Deserialize, Serialize};
use serde_json::json;
use wire::hub::v1;
use wire::jsonrpc::RpcError;

use super::{HostContext, HostPrepareResult, run_of};
use crate::core::dispatch::UNAUTHORIZED;
use crate::core::session::{Face as _, reason_against};
use crate::core::table::Prepared;
use crate::faces::host::errors::rpc_error;
use crate::faces::host::input::{InputPurpose, PromptDecision};
use crate::faces::host::questions::shown;

/// The characters of a reason that the agent receives; the rest is dropped.
const MAX_REASON: usize = 1000;

/// The parameters of `rpc.approval.show`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct ApprovalShow {
    /// The id of the question: that of its request, or of its approval.
    #[serde(default)]
    pub(crate) approval_id: String,
}

/// `run.permission.approve`: the operation may run.
pub(crate) fn approve(params: &Arc<v1::PermissionDecision>, context: &HostContext<'_>) -> HostPrepareResult {
    answer(params, context, "approve")
}

/// `run.permission.deny`: the operation is refused.
pub(crate) fn deny(params: &Arc<v1::PermissionDecision>, context: &HostContext<'_>) -> HostPrepareResult {
    answer(params, context, "deny")
}

/// Answers a question or a prompt. The first answer counts.
fn answer(
    params: &Arc<v1::PermissionDecision>,
    context: &HostContext<'_>,
    default: &str,
) -> HostPrepareResult {
    let (choice, scope) = match params.decision.as_deref().unwrap_or(default) {
        // A message that denies never approves.
        "approve" if default == "approve" => (Choice::Approve, Scope::Once),
        "approve_for_session" if default == "approve" => (Choice::Approve, Scope::Session),
        "deny" | "abort" => (Choice::Deny, Scope::Once),
        other => return Err(RpcError::invalid_params(format!("unknown decision {other:?}"))),
    };
    let run = run_of(context)?;
    let host = context.session.face.clone();
    let (run_id, id) = (run.record.run_id.clone(), params.request_id.clone());
    if host.questions.find(&run_id, &id).is_none() && !host.gated.is_waiting(&run_id, &id) {
        return decide_prompt(params, context, choice);
    }
    let caller = context.request.requester.caller.clone();
    let policy = context.session.core.policy.current();
    let reason = params.reason.as_deref().map(str::trim).filter(|reason| !reason.is_empty());
    let reason = reason.map(|reason| reason.chars().take(MAX_REASON).collect::<String>().into());
    let answer = ApprovalAnswer { choice, scope, by: caller.name.clone(), reason };
    Ok(Prepared::response(async move {
        let approval = host.questions.opened(&run_id, &id).await.ok_or_else(no_pending_request)?;
        if let Some(reason) = reason_against(&policy, &caller, &approval.request) {
            return Err(RpcError::new(UNAUTHORIZED, format!("you may not answer this request: {reason}")));
        }
        let answered = host.core().approvals.answer(&approval.id, answer, |_| true).await;
        answered.map(|_| json!({})).map_err(rpc_error)
    }))
}

fn no_pending_request() -> RpcError {
    RpcError::invalid_request("no pending request with this request_id")
}

/// Types the decision about a prompt of the run.
fn decide_prompt(
    params: &v1::PermissionDecision,
    context: &HostContext<'_>,
    choice: Choice,
) -> HostPrepareResult {
    let request_id = params.request_id.clone();
    if !run_of(context)?.asks(&request_id) {
        return Err(no_pending_request());
    }
    let (is_approved, word) = match choice {
        Choice::Approve => (true, "approve"),
        Choice::Deny => (false, "deny"),
    };
    let decision = PromptDecision { request_id, is_approved, word, reason: params.reason.clone() };
    let text = params.text.clone().unwrap_or_default();
    super::runs::input(context, InputPurpose::Decision(decision), text, params.actor.as_deref())
}

/// `rpc.approval.show`: the operation, complete and not redacted, for those who may answer.
pub(crate) fn show(params: &Arc<ApprovalShow>, context: &HostContext<'_>) -> HostPrepareResult {
    let run = run_of(context)?;
    let found = context.session.face.questions.find(&run.record.run_id, &params.approval_id);
    let Some(approval) = found else {
        if !run.asks(&params.approval_id) {
            return Err(RpcError::invalid_request("no pending request with this id"));
        }
        return Ok(Prepared::response(async move { Ok(run.shown_prompt().await) }));
    };
    let caller = &context.request.requester.caller;
    if let Some(reason) = reason_against(&context.session.core.policy.current(), caller, &approval.request) {
        return Err(RpcError::new(UNAUTHORIZED, format!("you may not see this request: {reason}")));
    }
    let shown = shown(Some(&run), &approval);
    Ok(Prepared::response(async move { Ok(shown) }))
}
