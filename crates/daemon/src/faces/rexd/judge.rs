//! Judging beside the session: what may wait for a disk or for a person, until the request may be done or is answered.

use std::path::PathBuf;
use std::sync::Arc;

use engine::Error;
use engine::approval::{self, ApprovalRequest, FileAction, Operation};
use engine::audit::PolicyOutcome;
use engine::policy::{Decision, PathAccess, PolicyOperation, PolicyQuery, Verdict};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use wire::rexd::v1::RpcError;

use super::answer::Asker;
use super::call::Call;
use super::errors::{rpc_error, with_hint};
use super::mailbox::{Asked, Letter, Notice};
use super::order::Turn;
use super::permission::Permit;
use super::preview::{self, Pictured};
use super::wanted::Touched;
use super::{FACE, Service};
use crate::core::permission::{Waits, settle};
use crate::core::runtime_policy::RuntimePolicy;

/// Everything it takes to judge a request beside its session.
pub(super) struct Judge {
    pub(super) service: Arc<Service>,
    pub(super) runtime_policy: Arc<RuntimePolicy>,
    pub(super) asker: Asker,
    pub(super) letters: mpsc::Sender<Letter>,
    pub(super) over: CancellationToken,
    /// The session's directory.
    pub(super) cwd: PathBuf,
}

/// What came of looking at the files of a request.
enum Looked {
    Allowed(PolicyOutcome),
    Asks(Box<ApprovalRequest>, Permit, PolicyOutcome),
    Refused(RpcError, Option<PolicyOutcome>),
}

impl Judge {
    /// Judges what a request does to files, by where they really are.
    pub(super) async fn files(self, asked: Box<Asked>, turn: Turn, touched: Touched) {
        let work = move || {
            let looked = self.look(&asked, &touched);
            (self, asked, looked)
        };
        // A daemon that ends takes the request with it, and says so.
        let Ok((judge, mut asked, looked)) = tokio::task::spawn_blocking(work).await else { return };
        match looked {
            Looked::Allowed(judged) => {
                match &mut asked.permit {
                    Some(permit) => permit.asked_under = None,
                    None => {
                        asked.answer.judged(judged);
                        asked.permit = Some(Permit { cwd: Some(judge.cwd), ..Permit::default() });
                    }
                }
                judge.letters.send(Letter::Notice(Notice::Turn { asked, turn })).await.ok();
            }
            Looked::Refused(error, judged) => {
                judged.into_iter().for_each(|judged| asked.answer.judged(judged));
                drop(turn);
                asked.answer.send(Err::<(), _>(error)).await;
            }
            Looked::Asks(request, permit, judged) => {
                asked.answer.judged(judged);
                drop(turn);
                judge.ask(asked, *request, permit).await;
            }
        }
    }

    fn look(&self, asked: &Asked, touched: &Touched) -> Looked {
        let call = &asked.call;
        let hint = self.service.no_roots.as_deref();
        let fail = |error| Looked::Refused(with_hint(error, hint), None);
        let found = match touched.find() {
            Ok(found) => found,
            Err(error) => return fail(rpc_error(error)),
        };
        let mut decision = self.decide(&touched.touches(&found));
        if decision.verdict != Verdict::Allow
            && found.is_tree
            && let Some(each) = touched.each(&found)
        {
            // Something beneath could match; whether it does, what is there tells.
            let touches: Vec<PathAccess<'_>> = each
                .iter()
                .map(|(path, access)| PathAccess { path, access: *access, is_recursive: false })
                .collect();
            decision = self.decide(&touches);
        }
        let judged = judged(&decision);
        match decision.verdict {
            Verdict::Allow => return Looked::Allowed(judged),
            Verdict::Deny | Verdict::NoShell => return Looked::Refused(refusal(decision), Some(judged)),
            Verdict::Ask if asked.permit.is_some() => return Looked::Allowed(judged),
            Verdict::Ask => {}
        }
        if touched.action == FileAction::Write {
            // Whoever is asked sees what is there, and that may be the asker.
            let reads: Vec<PathAccess<'_>> = found.paths.iter().map(|path| PathAccess::read(path)).collect();
            let reading = self.decide(&reads);
            if reading.verdict > Verdict::Ask {
                let judged =
                    PolicyOutcome { rule: reading.rule.clone(), verdict: reading.verdict, approval: None };
                return Looked::Refused(refusal(reading), Some(judged));
            }
        }
        match preview::files(call, touched) {
            Ok(Pictured { diff, shown }) => {
                let operation = Operation::Files {
                    action: touched.action,
                    paths: found.paths.clone(),
                    diff,
                    is_recursive: touched.is_recursive,
                    overwrites: touched.overwrites,
                };
                let request = self.request(call, decision, operation);
                let approved = [touched.made(&found), found.paths].concat();
                Looked::Asks(Box::new(request), Permit { approved, shown, ..Permit::default() }, judged)
            }
            Err(error) => fail(error),
        }
    }

    fn decide(&self, touches: &[PathAccess<'_>]) -> Decision {
        self.runtime_policy.policy.decide(&inquiry(&self.asker, PolicyOperation::Files(touches)))
    }

    pub(super) fn request(&self, call: &Call, decision: Decision, operation: Operation) -> ApprovalRequest {
        ApprovalRequest {
            requester: approval::Requester {
                caller: self.asker.caller.name.clone(),
                client: self.asker.client.clone(),
                face: FACE,
                session: self.asker.session.clone().unwrap_or_default(),
            },
            method: call.method(),
            operation,
            fingerprint: preview::whole(call),
            rule_fingerprint: self.runtime_policy.policy.rule_fingerprint(&decision.rule),
            rule: decision.rule.to_string(),
            reason: decision.reason,
            risk: decision.risk,
        }
    }

    /// Asks, and has the request done if somebody approves.
    pub(super) async fn ask(self, mut asked: Box<Asked>, request: ApprovalRequest, permit: Permit) {
        let cancel = asked.answer.cancel.clone();
        let waits = Waits { within: self.runtime_policy.approvals.within, cancel: &cancel, over: &self.over };
        let (settled, approved) = settle(&self.service.approvals, request, waits).await;
        settled.into_iter().for_each(|settled| asked.answer.settled(settled));
        match approved {
            Ok(()) => {
                let (cwd, asked_under) = (Some(self.cwd.clone()), Some(self.runtime_policy.clone()));
                asked.permit = Some(Permit { cwd, asked_under, ..permit });
                // A session that is over answers it as such.
                if let Err(mpsc::error::SendError(Letter::Call(asked))) =
                    self.letters.send(Letter::Call(asked)).await
                {
                    asked.answer.send(Err::<(), _>(rpc_error(Error::Gone))).await;
                }
            }
            Err(Error::Cancelled) => asked.answer.send(Err::<(), _>(RpcError::cancelled())).await,
            Err(error) => asked.answer.send(Err::<(), _>(rpc_error(error))).await,
        }
    }
}

/// A request as the policy sees it.
pub(super) fn inquiry<'a>(asker: &'a Asker, operation: PolicyOperation<'a>) -> PolicyQuery<'a> {
    PolicyQuery { face: FACE, client: &asker.client, caller: &asker.caller.name, operation }
}

/// What the audit keeps of a decision.
pub(super) fn judged(decision: &Decision) -> PolicyOutcome {
    PolicyOutcome { verdict: decision.verdict, rule: decision.rule.clone(), approval: None }
}

/// The error a caller gets whose request may not be done.
pub(super) fn refusal(decision: Decision) -> RpcError {
    match decision.into_result() {
        Ok(()) => RpcError::internal("an allowed operation is not refused"),
        Err(error) => rpc_error(error),
    }
}
