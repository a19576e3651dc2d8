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
use crate::faces::host::questions::shown;

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

/// The first answer counts, whoever gives it.
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
    let Some(approval) = host.questions.find(&run.record.run_id, &params.request_id) else {
        return Err(RpcError::invalid_request("no pending request with this request_id"));
    };
    let caller = context.request.requester.caller.clone();
    if let Some(reason) = reason_against(&context.session.core.policy.current(), &caller, &approval.request) {
        return Err(RpcError::new(UNAUTHORIZED, format!("you may not answer this request: {reason}")));
    }
    let answer = ApprovalAnswer { choice, scope, by: caller.name.clone() };
    Ok(Prepared::response(async move {
        let answered = host.core().approvals.answer(&approval.id, answer, |_| true).await;
        answered.map(|_| json!({})).map_err(rpc_error)
    }))
}

/// `rpc.approval.show`: the operation, complete and not redacted, for those who may answer.
pub(crate) fn show(params: &Arc<ApprovalShow>, context: &HostContext<'_>) -> HostPrepareResult {
    let run = run_of(context)?;
    let found = context.session.face.questions.find(&run.record.run_id, &params.approval_id);
    let approval = found.ok_or_else(|| RpcError::invalid_request("no pending request with this id"))?;
    let caller = &context.request.requester.caller;
    if let Some(reason) = reason_against(&context.session.core.policy.current(), caller, &approval.request) {
        return Err(RpcError::new(UNAUTHORIZED, format!("you may not see this request: {reason}")));
    }
    let shown = shown(Some(&run), &approval);
    Ok(Prepared::response(async move { Ok(shown) }))
}
