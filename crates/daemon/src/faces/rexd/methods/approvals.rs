//! Approvals: told to whoever may decide, listed and answered.

use engine::approval::Approver as _;
use engine::approval::{
    Approval, ApprovalAnswer, ApprovalRequest, ApprovalUpdate, Choice, Diff, FileAction, Operation,
    Resolution, Scope,
};
use engine::process::Program;
use serde_json::{Value, json};
use wire::rexd::v1::{self, RpcError, codes, encode_event};

use super::super::answer::Answer;
use super::super::convert::timestamp;
use super::super::errors::{invalid, rpc_error, text};
use super::super::events::EventOrder;
use super::super::session::Session;

impl Session {
    /// Tells the client what waits for a decision, or that it waits no more.
    pub(in super::super) fn tell_news(&mut self, news: &ApprovalUpdate) {
        let session_id = self.id.to_string();
        let frame = self.manners.frame_bytes;
        let order = match news {
            ApprovalUpdate::Requested(approval) => {
                let v1::Approval { approval_id, method, summary, operation, rule, .. } =
                    described(approval, frame);
                let (asked_by, expires_at) = (asked_by(&approval.request), timestamp(approval.expires_at));
                let (risk, reason) =
                    (approval.request.risk.name().to_owned(), approval.request.reason.clone());
                EventOrder::Tell(Box::new(move |event_id| {
                    encode_event(&v1::ApprovalRequested {
                        session_id,
                        approval_id,
                        method,
                        summary,
                        operation,
                        rule,
                        reason: Some(reason),
                        risk: Some(risk),
                        asked_by: Some(asked_by),
                        expires_at: Some(expires_at),
                        event_id,
                    })
                }))
            }
            ApprovalUpdate::Resolved(approval, outcome) => {
                let approval_id = approval.id.to_string();
                let (decision, scope, by) = decision(outcome);
                EventOrder::Tell(Box::new(move |event_id| {
                    encode_event(&v1::ApprovalDecided {
                        session_id,
                        approval_id,
                        decision: decision.to_owned(),
                        scope: scope.map(str::to_owned),
                        by,
                        event_id,
                    })
                }))
            }
        };
        let events = self.events();
        self.spawn(async move {
            // A session that is gone tells nothing any more.
            events.send(order).await.ok();
        });
    }

    /// `approval.list`: what waits for whoever asks, oldest first. The truth about it is for those who decide.
    pub(super) fn approval_list(&self, answer: Answer) {
        let pending = self.service.approvals.pending(|request| self.approver.may_answer(request));
        let frame = self.manners.frame_bytes.unwrap_or(LISTED_BYTES);
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
        self.reply(
            answer,
            Ok(v1::ApprovalListResult { truncated: approvals.len() < pending.len(), approvals }),
        );
    }

    /// `approval.answer`: the first answer counts.
    pub(super) fn approval_answer(&self, params: v1::ApprovalAnswer, answer: Answer) {
        let said = match self.said(&params) {
            Ok(said) => said,
            Err(error) => return self.refuse(answer, error),
        };
        let (approvals, approver) = (self.service.approvals.clone(), self.approver.clone());
        let waiting = approvals.pending(|request| approver.may_see(request));
        let asked = waiting.iter().find(|approval| *approval.id == *params.approval_id);
        if let Some(reason) = asked.and_then(|approval| approver.reason_against(&approval.request)) {
            let data = json!({ "approval_id": params.approval_id, "reason": reason });
            let message = format!("this approval is not yours to give: {reason}");
            return self.refuse(answer, RpcError::new(codes::UNAUTHORIZED, message).with_data(data));
        }
        self.spawn(async move {
            let settled =
                approvals.answer(&params.approval_id, said, |request| approver.may_see(request)).await;
            answer.send(settled.map(|_| v1::OkResult::DONE).map_err(rpc_error)).await;
        });
    }

    fn said(&self, params: &v1::ApprovalAnswer) -> Result<ApprovalAnswer, RpcError> {
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
        Ok(ApprovalAnswer { choice, scope, by: self.asker.caller.name.clone() })
    }
}

/// The words of the protocol for how something was settled, for how long that holds, and who did it.
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

/// The longest list for a client that takes lines of any length; past it what was asked last is left out.
const LISTED_BYTES: usize = 8 * 1024 * 1024;

/// The characters of a summary that is too long for its client.
const CUT_SUMMARY: usize = 256;

fn asked_by(request: &ApprovalRequest) -> v1::AskedBy {
    let requester = &request.requester;
    v1::AskedBy {
        caller: requester.caller.to_string(),
        client_name: requester.client.to_string(),
        face: requester.face.to_owned(),
        session_id: requester.session.to_string(),
    }
}

/// The true operation.
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
