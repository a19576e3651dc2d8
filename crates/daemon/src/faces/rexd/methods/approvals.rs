//! Requests for approval: published to sessions that may answer them, listed and answered.

use engine::approval::Approver as _;
use engine::approval::{
    Approval, ApprovalAnswer, ApprovalRequest, ApprovalUpdate, Choice, Diff, FileAction, Operation,
    Resolution, Scope,
};
use engine::process::Program;
use serde_json::{Value, json};
use wire::rexd::v1::{self, RpcError, codes, encode_event};

use super::{Context, Params, PrepareResult, RexdPrepared};
use crate::faces::rexd::convert::timestamp;
use crate::faces::rexd::errors::{invalid, rpc_error, text};
use crate::faces::rexd::session::Session;

/// The longest list for a client without a frame limit; beyond it the newest requests are left out.
const LIST_BYTES: usize = 8 * 1024 * 1024;
/// Characters of a summary that is too long for its client.
const CUT_SUMMARY: usize = 256;

/// Publishes that an operation waits for an approval, or no longer does.
pub(crate) fn publish_update(session: &mut Session, update: &ApprovalUpdate) {
    let (session_id, frame) = (session.id.to_string(), session.state.client.frame_bytes);
    match update {
        ApprovalUpdate::Requested(approval) => {
            let approval = described(approval, frame);
            let publish = session.events().publish(move |event_id| {
                encode_event(&v1::ApprovalRequested {
                    session_id,
                    approval_id: approval.approval_id,
                    method: approval.method,
                    summary: approval.summary,
                    operation: approval.operation,
                    rule: approval.rule,
                    reason: approval.reason,
                    risk: approval.risk,
                    asked_by: approval.asked_by,
                    expires_at: approval.expires_at,
                    event_id,
                })
            });
            session.spawn(publish);
        }
        ApprovalUpdate::Resolved(approval, resolution) => {
            let approval_id = approval.id.to_string();
            let (decision, scope, by) = decision(resolution);
            let publish = session.events().publish(move |event_id| {
                encode_event(&v1::ApprovalDecided {
                    session_id,
                    approval_id,
                    decision: decision.to_owned(),
                    scope: scope.map(str::to_owned),
                    by,
                    event_id,
                })
            });
            session.spawn(publish);
        }
    }
}

/// `approval.list`: the requests that the caller may answer, oldest first.
pub(crate) fn list(_: &Params<v1::ApprovalList>, _: &Context<'_>) -> PrepareResult {
    Ok(RexdPrepared::new(|session, request| {
        let pending = session.core.approvals.pending(|pending| session.approver.may_answer(pending));
        let frame = session.state.client.frame_bytes.unwrap_or(LIST_BYTES);
        let each = frame / pending.len().max(1);
        let (mut approvals, mut length) = (Vec::new(), 0);
        for approval in &pending {
            let described = described(approval, Some(each));
            length += serde_json::to_vec(&described).map_or(0, |text| text.len());
            if length > frame - frame / 8 {
                break;
            }
            approvals.push(described);
        }
        let truncated = approvals.len() < pending.len();
        session.spawn(request.finish(Ok(v1::ApprovalListResult { truncated, approvals })));
    }))
}

/// `approval.answer`: the first answer counts.
pub(crate) fn answer(params: &Params<v1::ApprovalAnswer>, context: &Context<'_>) -> PrepareResult {
    let answer = approval_answer(context.session, params)?;
    let id = params.approval_id.clone();
    Ok(RexdPrepared::new(move |session, request| {
        let (approvals, approver) = (session.core.approvals.clone(), session.approver.clone());
        let pending = approvals.pending(|pending| approver.may_see(pending));
        let found = pending.iter().find(|approval| *approval.id == *id);
        if let Some(reason) = found.and_then(|approval| approver.reason_against(&approval.request)) {
            let data = json!({ "approval_id": id, "reason": reason });
            let message = format!("you may not answer this approval: {reason}");
            let error = RpcError::new(codes::UNAUTHORIZED, message).with_data(data);
            return session.spawn(request.reject(error));
        }
        session.spawn(async move {
            let answered = approvals.answer(&id, answer, |pending| approver.may_see(pending)).await;
            request.finish(answered.map(|_| v1::OkResult::DONE).map_err(rpc_error)).await;
        });
    }))
}

fn approval_answer(session: &Session, params: &v1::ApprovalAnswer) -> Result<ApprovalAnswer, RpcError> {
    let choice = match params.decision.as_str() {
        "approve" => Choice::Approve,
        "deny" => Choice::Deny,
        _ => return Err(invalid("decision", "expected approve or deny")),
    };
    let scope = match params.scope.as_deref() {
        None | Some("once") => Scope::Once,
        Some("session") => Scope::Session,
        Some("rule") => Scope::Rule,
        Some(_) => return Err(invalid("scope", "expected once, session or rule")),
    };
    Ok(ApprovalAnswer { choice, scope, by: session.requester.caller.name.clone() })
}

/// The protocol's words for a resolution: the decision, its scope and who answered.
fn decision(outcome: &Resolution) -> (&'static str, Option<&'static str>, Option<String>) {
    match outcome {
        Resolution::Answered(ApprovalAnswer { choice, scope, by }) => {
            let decision = if *choice == Choice::Approve { "approve" } else { "deny" };
            (decision, Some(scope.name()), Some(by.to_string()))
        }
        Resolution::Expired => ("expired", None, None),
        Resolution::Withdrawn | Resolution::Abandoned => ("withdrawn", None, None),
    }
}

fn described(approval: &Approval, frame_bytes: Option<usize>) -> v1::Approval {
    let request = &approval.request;
    let mut operation = operation(&request.operation);
    let mut summary = request.operation.summary();
    // A line that the client cannot take would end its connection: it must be seen by other means.
    if frame_bytes.is_some_and(|most| operation.to_string().len() + summary.len() > most / 2) {
        operation = json!({ "kind": operation["kind"], "cut_bytes": operation.to_string().len() });
        summary = summary.chars().take(CUT_SUMMARY).collect();
    }
    v1::Approval {
        approval_id: approval.id.to_string(),
        method: request.method.to_owned(),
        summary,
        operation,
        rule: Some(request.rule.clone()),
        reason: Some(request.reason.clone()),
        risk: Some(request.risk.name().to_owned()),
        asked_by: Some(asked_by(request)),
        requested_at: timestamp(approval.requested_at),
        expires_at: Some(timestamp(approval.expires_at)),
        state: "pending".to_owned(),
    }
}

fn asked_by(request: &ApprovalRequest) -> v1::AskedBy {
    let requester = &request.requester;
    v1::AskedBy {
        caller: requester.caller.to_string(),
        client_name: requester.client.to_string(),
        face: requester.face.to_owned(),
        session_id: requester.session.to_string(),
    }
}

/// The operation, complete and not redacted.
fn operation(shown: &Operation) -> Value {
    match shown {
        Operation::Run { program, cwd, env, input, has_terminal, is_detached } => {
            let env: serde_json::Map<String, Value> =
                env.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
            let mut operation = json!({
                "kind": "run", "cwd": text(cwd), "env": env, "stdin_bytes": input.bytes,
                "pty": has_terminal, "detach": is_detached,
            });
            if input.bytes > 0 {
                operation["stdin"] = json!(input.text);
                operation["stdin_cut_bytes"] = json!(input.cut_bytes);
            }
            match program {
                Program::Argv(argv) => operation["argv"] = json!(argv),
                Program::Shell { line, login } => {
                    operation["command"] = json!(line);
                    operation["login"] = json!(login);
                }
            }
            operation
        }
        Operation::Files { action, paths, diff, is_recursive, overwrites } => {
            let paths: Vec<String> = paths.iter().map(|path| text(path)).collect();
            let mut operation = json!({ "kind": action.name(), "paths": paths });
            if matches!(action, FileAction::Remove | FileAction::Copy) {
                operation["recursive"] = json!(is_recursive);
            }
            if matches!(action, FileAction::Rename | FileAction::Copy) {
                operation["overwrite"] = json!(overwrites);
            }
            if let Some(Diff { text, cut_bytes }) = diff {
                operation["diff"] = json!(text);
                operation["diff_cut_bytes"] = json!(cut_bytes);
            }
            operation
        }
    }
}
