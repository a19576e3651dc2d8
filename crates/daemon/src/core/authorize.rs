//! Authorization: from a request and its effects to allow, deny or ask, with the approval round trip behind it.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use engine::Error;
use engine::approval::{
    ApprovalAnswer, ApprovalHandle, ApprovalIdentity, ApprovalRequest, Approvals, Choice, FileAction,
    GrantHolder, Operation, Resolution, Scope,
};
use engine::audit::{self, ApprovalOutcome, PolicyOutcome};
use engine::policy::{CommandLine, Decision, PathAccess, PolicyOperation, Verdict};
use engine::process::Program;
use tokio_util::sync::CancellationToken;

use super::approvals::diff::PreviewDigest;
use super::effects::{CommandEffects, Effects, FileEffects, PreviewFn, ResolvedFiles};
use super::peers::Peers;
use super::request::RequestContext;
use super::runtime_policy::RuntimePolicy;
use super::table::AlwaysAsks;

/// What a request was authorized for. Empty until it is; clones share one value, so that a path that was checked before
/// the decision sees it when it is opened.
#[derive(Debug, Clone, Default)]
pub struct Authorization(Arc<OnceLock<Granted>>);

#[derive(Debug)]
struct Granted {
    /// Files that an approver accepted, with everything below them.
    approved: Vec<PathBuf>,
    preview: Option<PreviewDigest>,
}

impl Authorization {
    /// Whether an approver accepted access to this path.
    pub fn covers(&self, real: &std::path::Path) -> bool {
        self.0.get().is_some_and(|granted| granted.approved.iter().any(|path| real.starts_with(path)))
    }

    /// Whether a change is still the one that its approver saw; also true without an approval.
    pub fn still_holds(&self, preview: &PreviewFn) -> Result<bool, Error> {
        match self.0.get().and_then(|granted| granted.preview) {
            Some(shown) => Ok(preview()?.digest == shown),
            None => Ok(true),
        }
    }

    /// An authorization for everything: for a directory whose command is decided as a whole.
    pub fn everything() -> Authorization {
        let authorization = Authorization::default();
        authorization.grant(vec![PathBuf::from("/")], None);
        authorization
    }

    fn grant(&self, approved: Vec<PathBuf>, preview: Option<PreviewDigest>) {
        // A request is granted once: a decision under a newer policy only confirms it.
        self.0.set(Granted { approved, preview }).ok();
    }
}

/// Why a request may not run now.
#[derive(Debug)]
pub enum Refusal {
    /// The policy denies it, or it cannot be checked.
    Denied(Box<(Error, Option<PolicyOutcome>)>),
    /// A person decides.
    Ask(Box<ApprovalNeeded>),
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Refusal {
        Refusal::Denied(Box::new((error, None)))
    }
}

/// An operation that waits for a person's decision.
#[derive(Debug)]
pub struct ApprovalNeeded {
    request: ApprovalRequest,
    /// What the policy decided, for the audit.
    pub decision: PolicyOutcome,
    approved: Vec<PathBuf>,
    preview: Option<PreviewDigest>,
    timeout: Duration,
    /// The approval that an earlier daemon has requested.
    earlier: Option<ApprovalIdentity>,
}

/// Whether a request is asked about.
#[derive(Debug, Clone, Copy, Default)]
pub struct Asking {
    /// It is, even where the policy allows.
    pub always: Option<AlwaysAsks>,
    /// An approver has accepted it: it is not asked about again, but a newer policy may deny it.
    pub was_approved: bool,
}

/// Checks a request against the policy, and returns the decision if the policy has one. May wait for a disk if the request has effects on files.
pub fn authorize(
    policy: &RuntimePolicy,
    context: &RequestContext,
    effects: &Effects,
    digest: &dyn Fn() -> String,
    asking: Asking,
) -> Result<Option<PolicyOutcome>, Refusal> {
    let check = PolicyCheck { policy, context, digest, asking };
    match effects {
        Effects::Command(command) => check.command(command).map(Some),
        Effects::Files(files) if policy.policy.restricts_files() || asking.always.is_some() => {
            check.files(files).map(Some)
        }
        Effects::Files(_) | Effects::None => Ok(None),
    }
}

struct PolicyCheck<'a> {
    policy: &'a RuntimePolicy,
    context: &'a RequestContext,
    digest: &'a dyn Fn() -> String,
    asking: Asking,
}

impl PolicyCheck<'_> {
    fn command(&self, command: &CommandEffects) -> Result<PolicyOutcome, Refusal> {
        let line = match &command.program {
            Program::Argv(argv) => CommandLine::Argv(argv),
            Program::Shell { line, login } => CommandLine::Shell { line, login: *login },
        };
        // Rules on directories apply to the resolved directory.
        let real = if self.policy.policy.depends_on_cwd() { command.cwd.real().ok() } else { None };
        let cwd = real.as_deref().unwrap_or(command.cwd.as_path());
        // A variable that the command inherits with the same value anyway changes nothing.
        let is_inherited = |(name, value): &(String, Option<String>)| {
            let inherited =
                self.policy.environment.iter().find(|(known, _)| known.as_os_str() == name.as_str());
            inherited.map(|(_, known)| known.as_os_str()) == value.as_deref().map(OsStr::new)
        };
        let env: Vec<_> = command.env.iter().filter(|variable| !is_inherited(variable)).cloned().collect();
        let decision = self.decide(PolicyOperation::Run { line, cwd, env: &env });
        self.settle(decision, |decision| Ok(self.ask(decision, command.operation(cwd), (Vec::new(), None))))
    }

    fn files(&self, effects: &FileEffects) -> Result<PolicyOutcome, Refusal> {
        let resolved = effects.resolve()?;
        let mut decision = self.decide_files(&effects.accesses(&resolved));
        if decision.verdict != Verdict::Allow
            && resolved.is_tree
            && let Some(entries) = effects.entries(&resolved)
        {
            // A rule could match something below; check what is there.
            let accesses: Vec<PathAccess<'_>> = entries
                .iter()
                .map(|(path, access)| PathAccess { path, access: *access, is_recursive: false })
                .collect();
            decision = self.decide_files(&accesses);
        }
        self.settle(decision, |decision| self.ask_about_files(decision, effects, resolved))
    }

    fn settle(
        &self,
        decision: Decision,
        ask: impl FnOnce(Decision) -> Result<Box<ApprovalNeeded>, Refusal>,
    ) -> Result<PolicyOutcome, Refusal> {
        match decision.verdict {
            Verdict::Allow | Verdict::Ask if self.asking.was_approved => Ok(policy_outcome(&decision)),
            Verdict::Allow => match self.asking.always {
                Some(AlwaysAsks { rule, reason }) => {
                    let (rule, reason) = (rule.into(), reason.to_owned());
                    Err(Refusal::Ask(ask(Decision { verdict: Verdict::Ask, rule, reason, ..decision })?))
                }
                None => Ok(policy_outcome(&decision)),
            },
            Verdict::Ask => Err(Refusal::Ask(ask(decision)?)),
            Verdict::Deny | Verdict::NoShell => Err(denied(decision)),
        }
    }

    fn ask_about_files(
        &self,
        decision: Decision,
        effects: &FileEffects,
        resolved: ResolvedFiles,
    ) -> Result<Box<ApprovalNeeded>, Refusal> {
        if effects.action == FileAction::Write {
            // The approver sees the present content, and may be the requester.
            let reads: Vec<PathAccess<'_>> =
                resolved.paths.iter().map(|path| PathAccess::read(path)).collect();
            let reading = self.decide_files(&reads);
            if reading.verdict > Verdict::Ask {
                return Err(denied(reading));
            }
        }
        let preview = effects.preview.as_ref().map(|preview| preview()).transpose()?;
        let (diff, shown) = preview.map(|preview| (preview.diff, preview.digest)).unzip();
        let operation = Operation::Files {
            action: effects.action,
            paths: resolved.paths.clone(),
            diff,
            is_recursive: effects.is_recursive,
            overwrites: effects.overwrites,
        };
        let approved = [effects.created_parents(&resolved), resolved.paths].concat();
        Ok(self.ask(decision, operation, (approved, shown)))
    }

    fn decide_files(&self, accesses: &[PathAccess<'_>]) -> Decision {
        self.decide(PolicyOperation::Files(accesses))
    }

    fn decide(&self, operation: PolicyOperation<'_>) -> Decision {
        let risk = self.asking.always.map(|_| engine::policy::risk(&operation));
        let decision = self.policy.policy.decide(&self.context.requester.query(operation));
        // The policy computes the risk only of what it does not allow.
        match risk {
            Some(risk) if decision.verdict == Verdict::Allow => Decision { risk, ..decision },
            _ => decision,
        }
    }

    fn ask(
        &self,
        decision: Decision,
        operation: Operation,
        (approved, preview): (Vec<PathBuf>, Option<PreviewDigest>),
    ) -> Box<ApprovalNeeded> {
        let outcome = policy_outcome(&decision);
        let request = ApprovalRequest {
            requester: self.context.requester.approval_requester(),
            method: self.context.method,
            client_request: self.context.request_id.clone(),
            operation,
            fingerprint: (self.digest)(),
            rule_fingerprint: match self.asking.always {
                // The rule of a protocol never changes.
                Some(always) if always.rule == &*decision.rule => Some(0),
                _ => self.policy.policy.rule_fingerprint(&decision.rule),
            },
            rule: decision.rule.to_string(),
            reason: decision.reason,
            risk: decision.risk,
        };
        let timeout = self.policy.approvals.within;
        let earlier = self.context.earlier_approval.clone();
        Box::new(ApprovalNeeded { request, decision: outcome, approved, preview, timeout, earlier })
    }
}

fn policy_outcome(decision: &Decision) -> PolicyOutcome {
    PolicyOutcome { verdict: decision.verdict, rule: decision.rule.clone(), approval: None }
}

fn denied(decision: Decision) -> Refusal {
    let outcome = policy_outcome(&decision);
    let rule = decision.rule.to_string();
    let error = match decision.verdict {
        Verdict::NoShell => Error::Unsupported { what: "shell", reason: decision.reason },
        Verdict::Allow | Verdict::Ask | Verdict::Deny => Error::Denied { rule, reason: decision.reason },
    };
    Refusal::Denied(Box::new((error, Some(outcome))))
}

/// What ends the wait for an approval besides its answer and its timeout.
#[derive(Debug, Clone, Copy)]
pub struct ApprovalWait<'a> {
    /// The client withdraws the request.
    pub cancel: &'a CancellationToken,
    /// The session ends.
    pub over: &'a CancellationToken,
}

impl ApprovalNeeded {
    /// Waits for the decision, unless an earlier one holds for this request too. Returns what the audit records, and
    /// whether the request may run; its authorization then covers what the approver saw.
    pub async fn wait(
        self,
        (approvals, peers): (&Approvals, Option<&Peers>),
        authorization: &Authorization,
        wait: ApprovalWait<'_>,
    ) -> (Option<audit::ApprovalRecord>, Result<(), Error>) {
        let ApprovalNeeded { request, approved, preview, timeout, earlier, .. } = self;
        let (record, result) = decide((approvals, peers), request, (timeout, earlier), wait).await;
        if result.is_ok() {
            authorization.grant(approved, preview);
        }
        (record, result)
    }
}

/// Requests an approval of this daemon's approvers; if there is none, of those of the user's other daemons. Returns
/// whether the others were called.
async fn request_approval(
    (approvals, peers): (&Approvals, Option<&Peers>),
    request: ApprovalRequest,
    timeout: Duration,
    earlier: Option<ApprovalIdentity>,
) -> (Result<ApprovalHandle, Error>, bool) {
    if let Some(earlier) = earlier {
        return (approvals.request_again(request, earlier).await, false);
    }
    match (approvals.request(request.clone(), timeout).await, peers) {
        (Err(Error::NoApprover { .. }), Some(peers)) => {
            peers.call_approvers().await;
            (approvals.request(request, timeout).await, true)
        }
        (requested, _) => (requested, false),
    }
}

async fn decide(
    (approvals, peers): (&Approvals, Option<&Peers>),
    request: ApprovalRequest,
    (timeout, earlier): (Duration, Option<ApprovalIdentity>),
    wait: ApprovalWait<'_>,
) -> (Option<audit::ApprovalRecord>, Result<(), Error>) {
    let rule = request.rule.clone();
    if let Some(ApprovalIdentity { id, .. }) = &earlier
        && let Some(answer) = approvals.earlier_answer(id).await
    {
        // Answered just before the earlier daemon ended.
        return resolved(Resolution::Answered(answer), (id, rule), timeout);
    }
    if let Some(grant) = approvals.find_grant(&request) {
        let refused = Error::Refused { rule, approval: None, by: grant.by.clone(), reason: None };
        let (outcome, result) = match grant.choice {
            Choice::Approve => (ApprovalOutcome::Approved, Ok(())),
            Choice::Deny => (ApprovalOutcome::Denied, Err(refused)),
        };
        let scope = match grant.holder {
            GrantHolder::Session(_) => Scope::Session,
            GrantHolder::Caller(_) => Scope::Rule,
        };
        let record =
            audit::ApprovalRecord { id: None, by: Some(grant.by), scope: Some(scope.name()), outcome };
        return (Some(record), result);
    }
    let (requested, were_called) = tokio::select! {
        requested = request_approval((approvals, peers), request, timeout, earlier) => requested,
        () = wait.cancel.cancelled() => return (None, Err(Error::Cancelled)),
        () = wait.over.cancelled() => return (None, Err(Error::Gone)),
    };
    let handle = match requested {
        Ok(handle) => handle,
        Err(error) => return (None, Err(error)),
    };
    let id = handle.approval().id.clone();
    // Approvers of other daemons that connect now find the request in the list of pending ones.
    let call_others = async {
        if let Some(peers) = peers.filter(|_| !were_called) {
            peers.call_approvers().await;
        }
        std::future::pending().await
    };
    let resolution = tokio::select! {
        biased;
        resolution = handle.resolution() => resolution,
        never = call_others => never,
        () = wait.cancel.cancelled() => Resolution::Withdrawn,
        () = wait.over.cancelled() => Resolution::Abandoned,
    };
    resolved(resolution, (&id, rule), timeout)
}

/// What the audit records of an approval, and whether the request may run.
fn resolved(
    resolution: Resolution,
    (id, rule): (&Arc<str>, String),
    timeout: Duration,
) -> (Option<audit::ApprovalRecord>, Result<(), Error>) {
    let record = |by: Option<Arc<str>>, scope: Option<Scope>, outcome| {
        Some(audit::ApprovalRecord { id: Some(id.clone()), by, scope: scope.map(Scope::name), outcome })
    };
    match resolution {
        Resolution::Answered(ApprovalAnswer { choice: Choice::Approve, by, scope, .. }) => {
            (record(Some(by), Some(scope), ApprovalOutcome::Approved), Ok(()))
        }
        Resolution::Answered(ApprovalAnswer { choice: Choice::Deny, by, scope, reason }) => {
            let refused = Error::Refused { rule, approval: Some(id.clone()), by: by.clone(), reason };
            (record(Some(by), Some(scope), ApprovalOutcome::Denied), Err(refused))
        }
        Resolution::Expired => {
            let unanswered = Error::Unanswered { rule, approval: id.clone(), after: timeout };
            (record(None, None, ApprovalOutcome::TimedOut), Err(unanswered))
        }
        Resolution::Withdrawn => (record(None, None, ApprovalOutcome::Withdrawn), Err(Error::Cancelled)),
        Resolution::Abandoned => (record(None, None, ApprovalOutcome::Withdrawn), Err(Error::Gone)),
    }
}
