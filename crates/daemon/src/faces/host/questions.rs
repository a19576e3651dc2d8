//! Questions to people: every approval that hub users may answer, as events of a run.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use engine::approval::{
    Approval, ApprovalAnswer, ApprovalRequest, ApprovalUpdate, Approver, ApproverRegistration, Choice,
    Operation, Resolution, Scope,
};
use engine::process::Program;
use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc};
use tokio::time::timeout;
use wire::hub::v1::{AwaitReason, PermissionDecided, PermissionRequested, kind, rpc};

use super::Host;
use super::run::Run;
use crate::core::approvals::describe;
use crate::core::session::Face as _;

/// Changes of approvals that wait to become events; one more is dropped, and hub users learn of it from the next one.
const MAX_UPDATES: usize = 1_024;
/// How long a decision waits for its question after a restart.
const OPEN_TIMEOUT: Duration = Duration::from_secs(60);
/// Characters of the summary of an operation.
const MAX_SUMMARY: usize = 80;

/// The questions that hub users may answer, by run and request.
#[derive(Debug, Default)]
pub(super) struct Questions {
    open: Mutex<HashMap<(String, String), Arc<Approval>>>,
    /// Notified when a question is open.
    opened: Notify,
    /// Hubs that are connected now.
    pub(super) connected: Arc<AtomicUsize>,
}

impl Questions {
    fn open(&self) -> MutexGuard<'_, HashMap<(String, String), Arc<Approval>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The question of a run with this id, which is that of its request or of its approval.
    pub(super) fn find(&self, run_id: &str, id: &str) -> Option<Arc<Approval>> {
        let open = self.open();
        let found = open.get(&(run_id.to_owned(), id.to_owned())).cloned();
        found.or_else(|| open.values().find(|approval| *approval.id == *id).cloned())
    }

    /// The same, once it is open: a hub may repeat a decision before a restarted host has asked again.
    pub(super) async fn opened(&self, run_id: &str, id: &str) -> Option<Arc<Approval>> {
        let find = async {
            loop {
                let opened = self.opened.notified();
                if let Some(found) = self.find(run_id, id) {
                    return found;
                }
                opened.await;
            }
        };
        timeout(OPEN_TIMEOUT, find).await.ok()
    }

    /// The question that a run waits for.
    pub(super) fn of_run(&self, run_id: &str) -> Option<String> {
        self.open().keys().find(|(run, _)| run == run_id).map(|(_, request)| request.clone())
    }
}

/// Hub users as approvers.
struct HubApprover {
    updates: mpsc::Sender<ApprovalUpdate>,
    /// Whether it answers for requests of this face, which wait for a hub, or for those of other faces.
    is_own: bool,
    connected: Arc<AtomicUsize>,
}

impl Approver for HubApprover {
    fn may_answer(&self, request: &ApprovalRequest) -> bool {
        (request.requester.face == Host::NAME) == self.is_own
    }

    fn is_connected(&self) -> bool {
        self.is_own || self.connected.load(Ordering::Relaxed) > 0
    }

    fn notify(&self, update: &ApprovalUpdate) {
        if self.updates.try_send(update.clone()).is_err() {
            tracing::error!("too many changes of approvals: hub users do not see one of them");
        }
    }
}

/// Makes hub users approvers, for other faces too if `shares_all`. Returns what holds that, and the changes to handle.
pub(super) fn register(
    host: &Host,
    shares_all: bool,
) -> (Vec<ApproverRegistration>, mpsc::Receiver<ApprovalUpdate>) {
    let (updates, inbox) = mpsc::channel(MAX_UPDATES);
    let approver = |is_own| {
        let connected = host.questions.connected.clone();
        host.core().approvals.register_approver(Arc::new(HubApprover {
            updates: updates.clone(),
            is_own,
            connected,
        }))
    };
    let mut registrations = vec![approver(true)];
    registrations.extend(shares_all.then(|| approver(false)));
    (registrations, inbox)
}

/// Turns changes of approvals into events until the daemon ends.
pub(super) async fn publish(host: Arc<Host>, mut updates: mpsc::Receiver<ApprovalUpdate>) {
    while let Some(update) = updates.recv().await {
        match update {
            ApprovalUpdate::Requested(approval) => requested(&host, &approval).await,
            ApprovalUpdate::Resolved(approval, resolution) => resolved(&host, &approval, &resolution).await,
        }
    }
}

/// The run and the id of a question. A request of another face, or for no run, is a run of its own.
fn place(host: &Host, approval: &Approval) -> (Option<Arc<Run>>, String) {
    let request = &approval.request;
    let own =
        (request.requester.face == Host::NAME).then(|| host.runs.get(&request.requester.session)).flatten();
    let id = request.client_request.as_ref().filter(|_| own.is_some()).unwrap_or(&approval.id);
    (own, id.to_string())
}

async fn requested(host: &Arc<Host>, approval: &Arc<Approval>) {
    let (own, request_id) = place(host, approval);
    let run = match own {
        Some(run) => run,
        None => match super::sharing::question_run(host, approval).await {
            Ok(run) => run,
            Err(error) => return tracing::error!(%error, "hub users do not see a question"),
        },
    };
    let run_id = run.record.run_id.clone();
    host.questions.open().insert((run_id.clone(), request_id.clone()), approval.clone());
    host.questions.opened.notify_waiters();
    let (owner, asked_run, id, identity) =
        (host.clone(), run_id.clone(), request_id.clone(), approval.identity());
    let stored = tokio::task::spawn_blocking(move || owner.gated.asked(&asked_run, &id, &identity)).await;
    match stored {
        // The earlier daemon may have written the event, or have been killed before.
        Ok(Ok(())) => {
            let event = event(host, &run, request_id.clone(), approval);
            run.append_once(kind::RUN_PERMISSION_REQUESTED, &request_id, &event).await;
        }
        Ok(Err(error)) => tracing::error!(%error, "cannot store a question"),
        Err(_stopped) => {}
    }
}

async fn resolved(host: &Arc<Host>, approval: &Arc<Approval>, resolution: &Resolution) {
    let is_over = matches!(resolution, Resolution::Withdrawn | Resolution::Abandoned);
    if is_over && host.core().stop.is_cancelled() {
        // The next daemon asks again, under the same id.
        return;
    }
    let key =
        host.questions.open().iter().find(|(_, open)| open.id == approval.id).map(|(key, _)| key.clone());
    let Some((run_id, request_id)) = key else { return };
    host.questions.open().remove(&(run_id.clone(), request_id.clone()));
    let Some(run) = host.runs.get(&run_id) else { return };
    let reason = match resolution {
        Resolution::Answered(answer) => answer.reason.as_deref().map(str::to_owned),
        _ => None,
    };
    let (decision, by) = match resolution {
        Resolution::Answered(ApprovalAnswer { choice, scope, by, .. }) => match (choice, scope) {
            (Choice::Approve, Scope::Once) => ("approve", Some(by)),
            (Choice::Approve, Scope::Session | Scope::Rule) => ("approve_for_session", Some(by)),
            (Choice::Deny, _) => ("deny", Some(by)),
        },
        Resolution::Expired => ("timeout", None),
        Resolution::Withdrawn | Resolution::Abandoned => ("withdrawn", None),
    };
    let user = by.map(|by| by.strip_prefix("user:").unwrap_or(by).to_owned());
    let decided = PermissionDecided {
        request_id: request_id.clone(),
        decision: decision.to_owned(),
        actor: None,
        user,
        reason,
    };
    if host.gated.decided(&decided, &run_id) {
        run.append_once(kind::RUN_PERMISSION_DECIDED, &request_id, &decided).await;
    }
    if !run.record.is_own && run.record.process == *approval.id {
        super::sharing::end_question_run(&run, decision).await;
    }
}

fn event(host: &Host, run: &Run, request_id: String, approval: &Approval) -> PermissionRequested {
    let request = &approval.request;
    let op_tool = match request.method {
        rpc::BASH => "bash",
        method => method,
    };
    let args = arguments(host, run, &request_id, request);
    let summary = summary(host, request);
    PermissionRequested {
        request_id,
        reason: AwaitReason::Permission,
        prompt: format!("Approve {op_tool}: {summary}"),
        op_tool: Some(op_tool.to_owned()),
        op_args: Some(host.redaction.value(&args)),
        op_args_summary: Some(summary),
        approve_text: String::new(),
        deny_text: String::new(),
        risk: Some(request.risk.name().to_owned()),
        cwd: Some(run.record.cwd.clone()),
        requester: Some(request.requester.caller.to_string()),
        expires_at: jiff::Timestamp::try_from(approval.expires_at).ok().map(|time| time.to_string()),
    }
}

/// The arguments of a request: those of the protocol with the diff, or the operation of another face.
fn arguments(host: &Host, run: &Run, request_id: &str, request: &ApprovalRequest) -> Value {
    let operation = describe::operation(&request.operation);
    let call = host.gated.get(&run.record.run_id, request_id);
    let Some(mut args) = call.and_then(|call| serde_json::from_str::<Value>(call.data.get()).ok()) else {
        return operation;
    };
    if let Some(members) = args.as_object_mut() {
        members.retain(|name, _| !super::calls::HEADER_MEMBERS.contains(&name.as_str()));
        if let Some(diff) = operation.get("diff") {
            members.insert("diff".to_owned(), diff.clone());
        }
    }
    args
}

/// The operation in at most 80 characters, without secrets.
fn summary(host: &Host, request: &ApprovalRequest) -> String {
    let text = match (&request.operation, request.method) {
        (Operation::Run { program: Program::Argv(argv), .. }, rpc::BASH) => {
            format!("cmd={}", argv.last().map_or("", String::as_str))
        }
        (Operation::Files { paths, diff, .. }, rpc::FS_WRITE) => {
            let path = paths.first().map(|path| path.display().to_string()).unwrap_or_default();
            format!("path={path} diff={} bytes", diff.as_ref().map_or(0, |diff| diff.text.len()))
        }
        _ => request.operation.summary(),
    };
    host.redaction.text(&text).chars().take(MAX_SUMMARY).collect()
}

/// The true text of a question, for the person who answers it.
pub(super) fn shown(run: Option<&Run>, approval: &Approval) -> Value {
    let request = &approval.request;
    json!({
        "approval_id": &*approval.id,
        "request_id": request.client_request.as_deref().unwrap_or(&approval.id),
        "method": request.method,
        "summary": request.operation.summary(),
        "operation": describe::operation(&request.operation),
        "cwd": run.map(|run| run.record.cwd.clone()),
        "rule": request.rule,
        "reason": request.reason,
        "risk": request.risk.name(),
        "requester": &*request.requester.caller,
        "expires_at": jiff::Timestamp::try_from(approval.expires_at).ok().map(|time| time.to_string()),
    })
}
