//! What the policy says about a start or a path, and whom it asks.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use engine::approval::{self, ApprovalRequest, InputPreview, Operation};
use engine::audit::PolicyOutcome;
use engine::policy::{CommandLine, Decision, PolicyOperation, PolicyQuery, Verdict};
use engine::process::Program;
use engine::{RootedPath, Roots};
use tokio_util::sync::CancellationToken;
use wire::exec_server::{ErrorObject, v1};

use super::FACE;
use super::answer::Answer;
use super::errors::failed;
use super::processes::Start;
use super::session::{Inquired, Session};
use crate::core::permission::{Rules, Waits, settle};
use crate::core::runtime_policy::RuntimePolicy;

impl Session {
    /// Starts it if the policy lets it, or somebody who is asked.
    pub(super) fn judge(&mut self, start: Start, mut answer: Answer) {
        let runtime_policy = self.service.runtime_policy.current();
        let cwd = match self.start_path(&runtime_policy, &start.cwd) {
            Ok(cwd) => cwd,
            Err(error) => return self.reply(answer, Err::<(), _>(error)),
        };
        // Rules on directories hold for where it really is.
        let place = if runtime_policy.policy.depends_on_cwd() { cwd.real().ok() } else { None };
        let place = place.as_deref().unwrap_or(cwd.as_path());
        let operation = PolicyOperation::Run { line: CommandLine::Argv(&start.params.argv), cwd: place };
        let decision = runtime_policy.policy.decide(&self.inquiry(operation));
        answer.judged(PolicyOutcome {
            verdict: decision.verdict,
            rule: decision.rule.clone(),
            approval: None,
        });
        match decision.verdict {
            Verdict::Allow => self.launch(start, answer),
            Verdict::Ask => {
                let request = self.request(&runtime_policy, decision, &start, place);
                self.ask(runtime_policy, (start, answer), request);
            }
            Verdict::Deny | Verdict::NoShell => {
                let error = decision.into_result().map_or_else(failed, |()| ErrorObject::internal("allowed"));
                self.reply(answer, Err::<(), _>(error));
            }
        }
    }

    fn ask(
        &mut self,
        runtime_policy: Arc<RuntimePolicy>,
        (start, mut answer): (Start, Answer),
        request: ApprovalRequest,
    ) {
        let cancel = CancellationToken::new();
        self.asked.insert(start.params.process_id.clone(), cancel.clone());
        let (service, over, answered) = (self.service.clone(), self.over.clone(), self.answered.clone());
        self.tasks.spawn(async move {
            let waits = Waits { within: runtime_policy.approvals.within, cancel: &cancel, over: &over };
            let (settled, result) = settle(&service.approvals, request, waits).await;
            settled.into_iter().for_each(|settled| answer.settled(settled));
            // A session that is over drops it, and with it the answer.
            answered.send(Inquired { start: Box::new(start), answer, cancel, result }).await.ok();
        });
    }

    /// It is settled what becomes of a start that somebody was asked about. One that was withdrawn has lost its id, and
    /// another may have it by now.
    pub(super) fn settled(&mut self, Inquired { start, answer, cancel, result }: Inquired) {
        if cancel.is_cancelled() {
            let withdrawn = ErrorObject::invalid_request("the start was withdrawn");
            return self.reply(answer, Err::<(), _>(withdrawn));
        }
        self.asked.remove(&start.params.process_id);
        match result {
            Ok(()) => self.launch(*start, answer),
            Err(error) => self.reply(answer, Err::<(), _>(failed(error))),
        }
    }

    fn request(
        &self,
        runtime_policy: &RuntimePolicy,
        decision: Decision,
        start: &Start,
        cwd: &Path,
    ) -> ApprovalRequest {
        let v1::ExecParams { argv, env, tty, .. } = &start.params;
        let env = env.iter().map(|(name, value)| (name.clone(), Some(value.clone()))).collect();
        ApprovalRequest {
            requester: approval::Requester {
                caller: self.asker.caller.name.clone(),
                client: self.asker.client.clone(),
                face: FACE,
                session: self.id.clone(),
            },
            method: v1::PROCESS_START,
            fingerprint: format!("{argv:?} {env:?} {}", cwd.display()),
            operation: Operation::Run {
                program: Program::Argv(argv.clone()),
                cwd: cwd.to_owned(),
                env,
                input: InputPreview::default(),
                has_terminal: *tty,
                is_detached: false,
            },
            rule_fingerprint: runtime_policy.policy.rule_fingerprint(&decision.rule),
            rule: decision.rule.to_string(),
            reason: decision.reason,
            risk: decision.risk,
        }
    }

    fn inquiry<'a>(&'a self, operation: PolicyOperation<'a>) -> PolicyQuery<'a> {
        PolicyQuery { face: FACE, client: &self.asker.client, caller: &self.asker.caller.name, operation }
    }

    /// The directory a process starts in. A command is asked about as such, with its directory.
    pub(super) fn start_path(
        &self,
        runtime_policy: &Arc<RuntimePolicy>,
        cwd: &Path,
    ) -> Result<RootedPath, ErrorObject> {
        let roots = self.ruled(self.service.roots.clone(), runtime_policy, vec![PathBuf::from("/")]);
        roots.admit(Path::new("/"), cwd).map_err(failed)
    }

    /// The same roots with the operator's rules on files. What a rule would ask about is refused: of a file call nobody
    /// can be asked on this wire, where clients give up after seconds.
    pub(super) fn ruled(
        &self,
        roots: Roots,
        runtime_policy: &Arc<RuntimePolicy>,
        approved: Vec<PathBuf>,
    ) -> Roots {
        if !runtime_policy.policy.restricts_files() {
            return roots;
        }
        roots.guarded(Arc::new(Rules {
            runtime_policy: runtime_policy.clone(),
            face: FACE,
            client: self.asker.client.clone(),
            caller: self.asker.caller.name.clone(),
            approved,
        }))
    }
}
