//! Permission: what the policy says about a request, and who is asked, before anything is done.
//!
//! A request that is asked about waits beside its session, without its turn: others pass it by. When somebody has
//! approved it, it comes back as a letter with its permit and is taken up as if it had just arrived.

use std::path::PathBuf;
use std::sync::Arc;

use engine::Error;
use engine::approval::{self, Action, Answer as Said, Choice, Deed, Holder, Outcome, Question, Scope};
use engine::audit::{self, ApprovalOutcome, Judged};
use engine::policy::{Asked as Inquiry, CommandLine, Decision, Operation, Touch, Verdict};
use engine::process::Program;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use wire::rexd::v1::RpcError;

use super::answer::Asker;
use super::call::Call;
use super::errors::{rpc_error, with_hint};
use super::keys::KeyState;
use super::mailbox::{Asked, Letter, Notice};
use super::order::Turn;
use super::preview::{self, Pictured};
use super::session::Session;
use super::wanted::{self, Touched};
use super::{FACE, Service};
use crate::approvals::diff::Shown;
use crate::guard::Guard;

/// What a request may do that was judged.
#[derive(Debug, Clone, Default)]
pub(super) struct Permit {
    /// The files that somebody approved, where they really are.
    pub(super) approved: Vec<PathBuf>,
    /// What the approver was shown; if it is no longer the truth, nothing is done.
    pub(super) shown: Option<Shown>,
    /// The session's directory when it was judged: what it names lies there, wherever the session is by now.
    pub(super) cwd: Option<PathBuf>,
    /// What held when somebody was asked. If something else holds when it is to be done, that must not deny it.
    pub(super) asked_under: Option<Arc<Guard>>,
}

impl Session {
    /// Does what was asked for if it may be done. `turn` is held for as long as others must wait for it.
    pub(super) fn act(&mut self, asked: Asked, turn: Turn) {
        if let Some(id) = self.unknown_process(&asked.call) {
            return self.reach(asked, id);
        }
        let Some(permit) = &asked.permit else {
            return match self.key_state(&asked.call) {
                KeyState::Free => self.decide(asked, turn),
                KeyState::Answered => self.perform(asked, turn),
                KeyState::Claimed => self.refuse(asked.answer, rpc_error(Error::KeyInUse)),
            };
        };
        let is_stale = |then: &Arc<Guard>| !Arc::ptr_eq(then, &self.service.guard.current());
        let is_stale = permit.asked_under.as_ref().is_some_and(is_stale);
        let now = permit.cwd.clone().map(|then| std::mem::replace(&mut self.cwd, then));
        match is_stale {
            true => self.decide(asked, turn),
            false => self.perform(asked, turn),
        }
        now.into_iter().for_each(|now| self.cwd = now);
    }

    /// Does it if the policy lets it, or somebody who is asked. What was approved before is not asked about again.
    fn decide(&mut self, mut asked: Asked, turn: Turn) {
        let guard = self.service.guard.current();
        match &asked.call {
            Call::ExecStart(_) | Call::PtyOpen(_) => self.judge_command(asked, turn, guard),
            call if guard.policy.judges_files() => match self.touched(call) {
                Ok(Some(touched)) => {
                    asked.claim = asked.claim.or_else(|| self.claim(&asked.call));
                    let judge = self.judge(guard);
                    self.spawn(async move { judge.files(Box::new(asked), turn, touched).await });
                }
                Ok(None) => self.perform(asked, turn),
                Err(error) => self.refuse(asked.answer, error),
            },
            _ => self.perform(asked, turn),
        }
    }

    fn judge_command(&mut self, mut asked: Asked, turn: Turn, guard: Arc<Guard>) {
        // What cannot be a command is refused by whoever would run it.
        let Some(program) = wanted::program(&asked.call) else { return self.perform(asked, turn) };
        let cwd = match self.path(cwd(&asked.call)) {
            Ok(cwd) => cwd,
            Err(error) => return self.refuse(asked.answer, error),
        };
        let line = match &program {
            Program::Argv(argv) => CommandLine::Argv(argv),
            Program::Shell { line, login } => CommandLine::Shell { line, login: *login },
        };
        let operation = Operation::Run { line, cwd: cwd.as_path() };
        let decision = guard.policy.decide(&inquiry(&self.asker, operation));
        let is_denied = matches!(decision.verdict, Verdict::Deny | Verdict::NoShell);
        if asked.permit.is_none() || is_denied {
            asked.answer.judged(judged(&decision));
        }
        match decision.verdict {
            Verdict::Deny | Verdict::NoShell => self.refuse(asked.answer, refusal(decision)),
            Verdict::Ask if asked.permit.is_none() => {
                if let Err(error) = self.check(&asked.call) {
                    return self.refuse(asked.answer, error);
                }
                let deed = preview::command(&asked.call, program, cwd.as_path());
                let judge = self.judge(guard);
                let question = judge.question(&asked.call, decision, deed);
                asked.claim = self.claim(&asked.call);
                self.spawn(async move { judge.ask(Box::new(asked), question, Permit::default()).await });
            }
            Verdict::Allow | Verdict::Ask => self.perform(asked, turn),
        }
    }

    fn judge(&self, guard: Arc<Guard>) -> Judge {
        Judge {
            service: self.service.clone(),
            guard,
            asker: self.asker.clone(),
            letters: self.letters(),
            over: self.over.clone(),
            cwd: self.cwd.clone(),
        }
    }
}

/// Everything it takes to judge a request beside its session.
struct Judge {
    service: Arc<Service>,
    guard: Arc<Guard>,
    asker: Asker,
    letters: mpsc::Sender<Letter>,
    over: CancellationToken,
    /// The session's directory.
    cwd: PathBuf,
}

/// What came of looking at the files of a request.
enum Looked {
    Allowed(Judged),
    Asks(Box<Question>, Permit, Judged),
    Refused(RpcError, Option<Judged>),
}

impl Judge {
    /// Judges what a request does to files, by where they really are.
    async fn files(self, asked: Box<Asked>, turn: Turn, touched: Touched) {
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
            Looked::Asks(question, permit, judged) => {
                asked.answer.judged(judged);
                drop(turn);
                judge.ask(asked, *question, permit).await;
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
            let touches: Vec<Touch<'_>> =
                each.iter().map(|(path, access)| Touch { path, access: *access, tree: false }).collect();
            decision = self.decide(&touches);
        }
        let judged = judged(&decision);
        match decision.verdict {
            Verdict::Allow => return Looked::Allowed(judged),
            Verdict::Deny | Verdict::NoShell => return Looked::Refused(refusal(decision), Some(judged)),
            Verdict::Ask if asked.permit.is_some() => return Looked::Allowed(judged),
            Verdict::Ask => {}
        }
        if touched.action == Action::Write {
            // Whoever is asked sees what is there, and that may be the asker.
            let reads: Vec<Touch<'_>> = found.paths.iter().map(|path| Touch::read(path)).collect();
            let reading = self.decide(&reads);
            if reading.verdict > Verdict::Ask {
                let judged = Judged { rule: reading.rule.clone(), verdict: reading.verdict, approval: None };
                return Looked::Refused(refusal(reading), Some(judged));
            }
        }
        match preview::files(call, touched) {
            Ok(Pictured { diff, shown }) => {
                let deed = Deed::Files {
                    action: touched.action,
                    paths: found.paths.clone(),
                    diff,
                    is_recursive: touched.is_recursive,
                    overwrites: touched.overwrites,
                };
                let question = self.question(call, decision, deed);
                let approved = [touched.made(&found), found.paths].concat();
                Looked::Asks(Box::new(question), Permit { approved, shown, ..Permit::default() }, judged)
            }
            Err(error) => fail(error),
        }
    }

    fn decide(&self, touches: &[Touch<'_>]) -> Decision {
        self.guard.policy.decide(&inquiry(&self.asker, Operation::Files(touches)))
    }

    fn question(&self, call: &Call, decision: Decision, deed: Deed) -> Question {
        Question {
            asker: approval::Asker {
                caller: self.asker.caller.name.clone(),
                client: self.asker.client.clone(),
                face: FACE,
                session: self.asker.session.clone().unwrap_or_default(),
            },
            operation: call.method(),
            deed,
            whole: preview::whole(call),
            rule_mark: self.guard.policy.mark(&decision.rule),
            rule: decision.rule.to_string(),
            reason: decision.reason,
            risk: decision.risk,
        }
    }

    /// Asks, and has the request done if somebody approves.
    async fn ask(self, mut asked: Box<Asked>, question: Question, permit: Permit) {
        let cancel = asked.answer.cancel.clone();
        let (settled, approved) = self.settle(question, &cancel).await;
        settled.into_iter().for_each(|settled| asked.answer.settled(settled));
        match approved {
            Ok(()) => {
                let (cwd, asked_under) = (Some(self.cwd.clone()), Some(self.guard.clone()));
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

    async fn settle(
        &self,
        question: Question,
        cancel: &CancellationToken,
    ) -> (Option<audit::Approval>, Result<(), Error>) {
        let (approvals, rule) = (&self.service.approvals, question.rule.clone());
        if let Some(grant) = approvals.granted(&question) {
            let refused = Error::Refused { rule, approval: None, by: grant.by.clone() };
            let (outcome, result) = match grant.choice {
                Choice::Approve => (ApprovalOutcome::Approved, Ok(())),
                Choice::Deny => (ApprovalOutcome::Denied, Err(refused)),
            };
            let scope = match grant.holder {
                Holder::Session(_) => Scope::Session,
                Holder::Caller(_) => Scope::Rule,
            };
            let settled =
                audit::Approval { id: None, by: Some(grant.by), scope: Some(scope.name()), outcome };
            return (Some(settled), result);
        }
        let within = self.guard.approvals.within;
        let asking = match approvals.ask(question, within).await {
            Ok(asking) => asking,
            Err(error) => return (None, Err(error)),
        };
        let id = asking.approval().id.clone();
        let outcome = tokio::select! {
            biased;
            outcome = asking.settled() => outcome,
            () = cancel.cancelled() => Outcome::Withdrawn,
            () = self.over.cancelled() => Outcome::Abandoned,
        };
        let settled = |by: Option<Arc<str>>, scope: Option<Scope>, outcome| {
            Some(audit::Approval { id: Some(id.clone()), by, scope: scope.map(Scope::name), outcome })
        };
        match outcome {
            Outcome::Answered(Said { choice: Choice::Approve, by, scope }) => {
                (settled(Some(by), Some(scope), ApprovalOutcome::Approved), Ok(()))
            }
            Outcome::Answered(Said { choice: Choice::Deny, by, scope }) => {
                let refused = Error::Refused { rule, approval: Some(id.clone()), by: by.clone() };
                (settled(Some(by), Some(scope), ApprovalOutcome::Denied), Err(refused))
            }
            Outcome::Expired => {
                let unanswered = Error::Unanswered { rule, approval: id.clone(), after: within };
                (settled(None, None, ApprovalOutcome::TimedOut), Err(unanswered))
            }
            Outcome::Withdrawn => (settled(None, None, ApprovalOutcome::Withdrawn), Err(Error::Cancelled)),
            Outcome::Abandoned => (settled(None, None, ApprovalOutcome::Withdrawn), Err(Error::Gone)),
        }
    }
}

/// The directory a command names.
fn cwd(call: &Call) -> &str {
    match call {
        Call::ExecStart(params) => params.cwd.as_deref().unwrap_or_default(),
        Call::PtyOpen(params) => params.cwd.as_deref().unwrap_or_default(),
        _ => "",
    }
}

pub(super) fn inquiry<'a>(asker: &'a Asker, operation: Operation<'a>) -> Inquiry<'a> {
    Inquiry { face: FACE, client: &asker.client, caller: &asker.caller.name, operation }
}

fn judged(decision: &Decision) -> Judged {
    Judged { verdict: decision.verdict, rule: decision.rule.clone(), approval: None }
}

/// The error a caller gets whose request may not be done.
fn refusal(decision: Decision) -> RpcError {
    match decision.into_result() {
        Ok(()) => RpcError::internal("an allowed operation is not refused"),
        Err(error) => rpc_error(error),
    }
}
