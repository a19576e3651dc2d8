//! Permission: what the policy says about a request, and who is asked, before anything is done.
//!
//! A request that is asked about waits beside its session, without its turn: others pass it by. When somebody has
//! approved it, it comes back as a letter with its permit and is taken up as if it had just arrived.

use std::path::PathBuf;
use std::sync::Arc;

use engine::policy::{CommandLine, PolicyOperation, Verdict};
use engine::process::Program;

use super::call::Call;
use super::errors::key_in_use;
use super::judge::{Judge, inquiry, judged, refusal};
use super::keys::KeyState;
use super::mailbox::Asked;
use super::order::Turn;
use super::preview;
use super::session::Session;
use super::wanted;
use crate::core::approvals::diff::PreviewDigest;
use crate::core::runtime_policy::RuntimePolicy;

/// What a request may do that was judged.
#[derive(Debug, Clone, Default)]
pub(super) struct Permit {
    /// The files that somebody approved, where they really are.
    pub(super) approved: Vec<PathBuf>,
    /// What the approver was shown; if it is no longer the truth, nothing is done.
    pub(super) shown: Option<PreviewDigest>,
    /// The session's directory when it was judged: what it names lies there, wherever the session is by now.
    pub(super) cwd: Option<PathBuf>,
    /// What held when somebody was asked. If something else holds when it is to be done, that must not deny it.
    pub(super) asked_under: Option<Arc<RuntimePolicy>>,
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
                KeyState::Claimed => self.refuse(asked.answer, key_in_use()),
            };
        };
        let is_stale = |then: &Arc<RuntimePolicy>| !Arc::ptr_eq(then, &self.service.runtime_policy.current());
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
        let runtime_policy = self.service.runtime_policy.current();
        match &asked.call {
            Call::ExecStart(_) | Call::PtyOpen(_) => self.judge_command(asked, turn, runtime_policy),
            call if runtime_policy.policy.restricts_files() => match self.touched(call) {
                Ok(Some(touched)) => {
                    asked.claim = asked.claim.or_else(|| self.claim(&asked.call));
                    let judge = self.judge(runtime_policy);
                    self.spawn(async move { judge.files(Box::new(asked), turn, touched).await });
                }
                Ok(None) => self.perform(asked, turn),
                Err(error) => self.refuse(asked.answer, error),
            },
            _ => self.perform(asked, turn),
        }
    }

    fn judge_command(&mut self, mut asked: Asked, turn: Turn, runtime_policy: Arc<RuntimePolicy>) {
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
        // Rules on directories hold for where it really is.
        let place = if runtime_policy.policy.depends_on_cwd() { cwd.real().ok() } else { None };
        let place = place.as_deref().unwrap_or(cwd.as_path());
        let operation = PolicyOperation::Run { line, cwd: place };
        let decision = runtime_policy.policy.decide(&inquiry(&self.asker, operation));
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
                let operation = preview::command(&asked.call, program, place);
                let judge = self.judge(runtime_policy);
                let request = judge.request(&asked.call, decision, operation);
                asked.claim = self.claim(&asked.call);
                self.spawn(async move { judge.ask(Box::new(asked), request, Permit::default()).await });
            }
            Verdict::Allow | Verdict::Ask => self.perform(asked, turn),
        }
    }

    fn judge(&self, runtime_policy: Arc<RuntimePolicy>) -> Judge {
        Judge {
            service: self.service.clone(),
            runtime_policy,
            asker: self.asker.clone(),
            letters: self.letters(),
            over: self.over.clone(),
            cwd: self.cwd.clone(),
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
