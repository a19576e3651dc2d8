//! Requests for approval: published to sessions that may answer them, listed and answered.

use engine::approval::Approver as _;
use engine::approval::{
    Approval, ApprovalAnswer, ApprovalRequest, ApprovalUpdate, Choice, Resolution, Scope,
};
use serde_json::{Value, json};
use wire::rexd::v1::{self, RpcError, codes, encode_event};

use super::{Context, Params, PrepareResult, RexdPrepared};
use crate::core::approvals::describe;
use crate::faces::rexd::convert::timestamp;
use crate::faces::rexd::errors::{invalid, rpc_error};
use crate::faces::rexd::peers::OtherDaemons;
use crate::faces::rexd::session::Session;

/// The longest list for a client without a frame limit; beyond it the newest requests are left out.
const LIST_BYTES: usize = 8 * 1024 * 1024;
/// Characters of a summary that is too long for its client.
const CUT_SUMMARY: usize = 256;

/// Publishes that an operation waits for an approval, or no longer does.
pub(crate) fn publish_update(session: &mut Session, update: &ApprovalUpdate) {
    match update {
        ApprovalUpdate::Requested(approval) => {
            publish_requested(session, requested_event(described(approval)));
        }
        ApprovalUpdate::Resolved(approval, resolution) => {
            let (decision, scope, by) = decision(resolution);
            let event = v1::ApprovalDecided {
                approval_id: approval.id.to_string(),
                decision: decision.to_owned(),
                scope: scope.map(str::to_owned),
                by,
                ..v1::ApprovalDecided::default()
            };
            publish_decided(session, event);
        }
    }
}

/// A pending approval as an event that has no number and no session yet.
pub(crate) fn requested_event(approval: v1::Approval) -> v1::ApprovalRequested {
    v1::ApprovalRequested {
        session_id: String::new(),
        approval_id: approval.approval_id,
        method: approval.method,
        summary: approval.summary,
        operation: approval.operation,
        rule: approval.rule,
        reason: approval.reason,
        risk: approval.risk,
        asked_by: approval.asked_by,
        expires_at: approval.expires_at,
        event_id: 0,
    }
}

/// Publishes an approval of this daemon or of another one.
pub(crate) fn publish_requested(session: &mut Session, mut event: v1::ApprovalRequested) {
    event.session_id = session.id.to_string();
    fit(&mut event.operation, &mut event.summary, session.state.client.frame_bytes);
    let publish =
        session.events().publish(move |event_id| encode_event(&v1::ApprovalRequested { event_id, ..event }));
    session.spawn(publish);
}

/// Publishes that an approval is no longer pending.
pub(crate) fn publish_decided(session: &mut Session, mut event: v1::ApprovalDecided) {
    event.session_id = session.id.to_string();
    let publish =
        session.events().publish(move |event_id| encode_event(&v1::ApprovalDecided { event_id, ..event }));
    session.spawn(publish);
}

/// `approval.list`: the requests that the caller may answer in all daemons of the user, oldest first.
pub(crate) fn list(_: &Params<v1::ApprovalList>, _: &Context<'_>) -> PrepareResult {
    Ok(RexdPrepared::new(|session, request| {
        let pending = session.core.approvals.pending(|pending| session.approver.may_answer(pending));
        let own: Vec<v1::Approval> = pending.iter().map(|approval| described(approval)).collect();
        let (others, frame) = (OtherDaemons::of(session), session.state.client.frame_bytes);
        if let Some(others) = others.as_ref().filter(|_| session.state.client.can_approve) {
            // From now on the session receives the events of other daemons too.
            session.face.approvers.add(session.handle(), others.caller.clone());
        }
        session.spawn(async move {
            let others = match others {
                Some(others) => others.approvals().await,
                None => Vec::new(),
            };
            request.finish(Ok(merged(own, others, frame.unwrap_or(LIST_BYTES)))).await;
        });
    }))
}

/// The approvals of all daemons in one list that fits into a frame.
fn merged(
    own: Vec<v1::Approval>,
    others: Vec<v1::ApprovalListResult>,
    frame: usize,
) -> v1::ApprovalListResult {
    let mut truncated = others.iter().any(|list| list.truncated);
    let mut pending: Vec<v1::Approval> =
        own.into_iter().chain(others.into_iter().flat_map(|list| list.approvals)).collect();
    pending.sort_by(|one, other| one.requested_at.cmp(&other.requested_at));
    let each = frame / pending.len().max(1);
    let (mut approvals, mut length) = (Vec::new(), 0);
    for mut approval in pending {
        fit(&mut approval.operation, &mut approval.summary, Some(each));
        length += serde_json::to_vec(&approval).map_or(0, |text| text.len());
        if length > frame - frame / 8 {
            truncated = true;
            break;
        }
        approvals.push(approval);
    }
    v1::ApprovalListResult { truncated, approvals }
}

/// `approval.answer`: the first answer counts.
pub(crate) fn answer(params: &Params<v1::ApprovalAnswer>, context: &Context<'_>) -> PrepareResult {
    let answer = approval_answer(context.session, params)?;
    let params = (**params).clone();
    Ok(RexdPrepared::new(move |session, request| {
        let id = params.approval_id.clone();
        let (approvals, approver) = (session.core.approvals.clone(), session.approver.clone());
        let pending = approvals.pending(|pending| approver.may_see(pending));
        let found = pending.iter().find(|approval| *approval.id == *id);
        if let Some(reason) = found.and_then(|approval| approver.reason_against(&approval.request)) {
            let data = json!({ "approval_id": id, "reason": reason });
            let message = format!("you may not answer this approval: {reason}");
            let error = RpcError::new(codes::UNAUTHORIZED, message).with_data(data);
            return session.spawn(request.reject(error));
        }
        let others = OtherDaemons::of(session);
        session.spawn(async move {
            let answered = approvals.answer(&id, answer, |pending| approver.may_see(pending)).await;
            let elsewhere = match (&answered, &others) {
                (Err(engine::Error::NoSuchApproval(_)), Some(others)) => others.answer(&params).await,
                _ => None,
            };
            let here = || answered.map(|_| v1::OkResult::DONE).map_err(rpc_error);
            request.finish(elsewhere.unwrap_or_else(here)).await;
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
    Ok(ApprovalAnswer { choice, scope, by: session.requester.caller.name.clone(), reason: None })
}

/// The protocol's words for a resolution: the decision, its scope and who answered.
fn decision(outcome: &Resolution) -> (&'static str, Option<&'static str>, Option<String>) {
    match outcome {
        Resolution::Answered(ApprovalAnswer { choice, scope, by, .. }) => {
            let decision = if *choice == Choice::Approve { "approve" } else { "deny" };
            (decision, Some(scope.name()), Some(by.to_string()))
        }
        Resolution::Expired => ("expired", None, None),
        Resolution::Withdrawn | Resolution::Abandoned => ("withdrawn", None, None),
    }
}

/// Shortens an operation that its client cannot receive: a longer line would end its connection. The approver must then
/// see it by other means.
fn fit(operation: &mut Value, summary: &mut String, frame_bytes: Option<usize>) {
    if frame_bytes.is_some_and(|most| operation.to_string().len() + summary.len() > most / 2) {
        *operation = json!({ "kind": operation["kind"], "cut_bytes": operation.to_string().len() });
        *summary = summary.chars().take(CUT_SUMMARY).collect();
    }
}

fn described(approval: &Approval) -> v1::Approval {
    let request = &approval.request;
    v1::Approval {
        approval_id: approval.id.to_string(),
        method: request.method.to_owned(),
        summary: request.operation.summary(),
        operation: describe::operation(&request.operation),
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
