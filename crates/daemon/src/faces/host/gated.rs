//! Operations that always need an approval: what they are while they wait and run, and how they continue after a restart.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use engine::approval::ApprovalIdentity;
use serde_json::value::{RawValue, to_raw_value};
use wire::hub::v1::{PermissionDecided, kind, rpc};
use wire::jsonrpc::RpcError;

use super::Host;
use super::calls::{Answer, HostRequest};
use super::pending::{CallState, PendingCall, PendingDir, StoredAnswer, StoredIdentity};
use crate::core::request::ConnectionContext;
use crate::core::session::Face as _;
use crate::keeper::boot_id;
use crate::net::auth::{Caller, Scopes};
use crate::observe::metrics::Transport;

/// Whether a request always needs an approval.
pub(super) fn is_gated(kind: &str) -> bool {
    matches!(kind, rpc::FS_WRITE | rpc::BASH)
}

/// The operations that wait or run, by run and request.
#[derive(Debug)]
pub(super) struct GatedCalls {
    dir: PendingDir,
    open: Mutex<HashMap<(String, String), PendingCall>>,
    /// Operations of an earlier boot. They continue once a hub has said which events it has: it may have events that are not
    /// in the journal.
    after_greeting: Mutex<Vec<PendingCall>>,
}

impl GatedCalls {
    pub(super) fn new(dir: PendingDir) -> GatedCalls {
        GatedCalls { dir, open: Mutex::default(), after_greeting: Mutex::default() }
    }

    fn open(&self) -> MutexGuard<'_, HashMap<(String, String), PendingCall>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn after_greeting(&self) -> MutexGuard<'_, Vec<PendingCall>> {
        self.after_greeting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The runs of operations that continue once a hub has said which of their events it has.
    pub(super) fn runs_after_greeting(&self) -> HashSet<String> {
        self.after_greeting().iter().map(|call| call.run_id.clone()).collect()
    }

    /// Adds an operation that begins, or continues after a restart.
    pub(super) fn add(&self, call: PendingCall) {
        self.open().insert((call.run_id.clone(), call.request_id.clone()), call);
    }

    /// The operation of a request.
    pub(super) fn get(&self, run_id: &str, request_id: &str) -> Option<PendingCall> {
        self.open().get(&(run_id.to_owned(), request_id.to_owned())).cloned()
    }

    /// Changes an operation and stores it. False if it has no such operation. Blocks.
    fn update(
        &self,
        run_id: &str,
        request_id: &str,
        change: impl FnOnce(&mut PendingCall),
    ) -> std::io::Result<bool> {
        let mut open = self.open();
        let Some(call) = open.get_mut(&(run_id.to_owned(), request_id.to_owned())) else { return Ok(false) };
        change(call);
        // Under the lock, so that states are stored in their order.
        self.dir.save(call)?;
        Ok(true)
    }

    /// Stores that an approval was requested. Blocks.
    pub(super) fn asked(
        &self,
        run_id: &str,
        request_id: &str,
        identity: &ApprovalIdentity,
    ) -> std::io::Result<()> {
        let identity = StoredIdentity::from(identity);
        self.update(run_id, request_id, |call| call.approval = Some(identity)).map(drop)
    }

    /// Notes a decision. Its event has to follow what it causes: a hub repeats a decision until it has the event, so a host that
    /// is killed before the operation begins learns of it again. True if the event can be written now.
    pub(super) fn decided(&self, decided: &PermissionDecided, run_id: &str) -> bool {
        let mut open = self.open();
        let call = open.get_mut(&(run_id.to_owned(), decided.request_id.clone()));
        match call.filter(|call| call.state == CallState::Waiting) {
            Some(call) => {
                call.decided = Some(decided.clone());
                false
            }
            None => true,
        }
    }

    /// Whether an operation waits for a decision.
    pub(super) fn is_waiting(&self, run_id: &str, request_id: &str) -> bool {
        self.get(run_id, request_id).is_some_and(|call| call.state == CallState::Waiting)
    }

    /// Stores the answer of an operation, or that its event is in the journal. Blocks.
    fn store(&self, run_id: &str, request_id: &str, change: impl FnOnce(&mut PendingCall)) {
        if let Err(error) = self.update(run_id, request_id, change) {
            tracing::warn!(%error, "cannot store the answer of an operation");
        }
    }

    /// The answer that an earlier daemon has stored. Blocks.
    fn earlier_answer(&self, run_id: &str, kind: &str, request_id: &str) -> Option<Answer> {
        let call = self.dir.find(run_id, kind, request_id)?;
        let has_answer = matches!(call.state, CallState::Done | CallState::Reported);
        call.answer.filter(|_| has_answer).map(StoredAnswer::answer)
    }
}

/// Marks an operation as begun, on disk, before it changes anything.
#[derive(Debug)]
pub(super) struct RunningMark {
    pub(super) host: Arc<Host>,
    pub(super) run_id: String,
    pub(super) request_id: String,
}

impl RunningMark {
    /// Stores the mark; without it the operation must not begin. Blocks.
    pub(super) fn set(self) -> Result<(), RpcError> {
        let stored =
            self.host.gated.update(&self.run_id, &self.request_id, |call| call.state = CallState::Running);
        let failed =
            |error| RpcError::invalid_request(format!("cannot store the operation before it runs: {error}"));
        stored.map_err(failed)?;
        write_decided(&self.host, &self.run_id, &self.request_id);
        Ok(())
    }
}

/// Writes the event of a decision whose effect is stored. Blocks.
fn write_decided(host: &Host, run_id: &str, request_id: &str) {
    let decided = host.gated.get(run_id, request_id).and_then(|call| call.decided);
    if let (Some(run), Some(Ok(data))) = (host.runs.get(run_id), decided.as_ref().map(to_raw_value)) {
        run.append_encoded_once(kind::RUN_PERMISSION_DECIDED, request_id, data);
    }
}

/// An answer of an earlier daemon to this request, or the operation as a new one.
pub(super) async fn enter(host: &Arc<Host>, request: &HostRequest, request_id: &str) -> Option<Answer> {
    let run_id = request.run_id.clone().unwrap_or_default();
    let (owner, kind, id) = (host.clone(), request.kind.clone(), request_id.to_owned());
    let run = run_id.clone();
    let earlier = tokio::task::spawn_blocking(move || owner.gated.earlier_answer(&run, &kind, &id)).await;
    if let Ok(Some(answer)) = earlier {
        return Some(answer);
    }
    let text = String::from_utf8_lossy(&request.data).into_owned();
    if let Ok(data) = RawValue::from_string(text) {
        host.gated.add(PendingCall {
            run_id,
            kind: request.kind.clone(),
            request_id: request_id.to_owned(),
            data,
            caller: request.context.caller.name.to_string(),
            state: CallState::Waiting,
            approval: None,
            answer: None,
            decided: None,
        });
    }
    None
}

/// Stores the answer of an operation, before its event: what the journal says is what a repeated request gets.
pub(super) async fn finish(host: &Arc<Host>, run_id: &str, request_id: &str, answer: &Answer) {
    let (owner, run, id, answer) = (host.clone(), run_id.to_owned(), request_id.to_owned(), answer.clone());
    let store = move || {
        owner.gated.store(&run, &id, |call| {
            call.state = CallState::Done;
            call.answer = Some(StoredAnswer::new(&answer));
        });
        write_decided(&owner, &run, &id);
    };
    // Fails only while the runtime ends.
    tokio::task::spawn_blocking(store).await.ok();
}

/// Stores that the event of an answer is in the journal. The operation is over.
pub(super) async fn leave(host: &Arc<Host>, run_id: &str, request_id: &str) {
    let (owner, run, id) = (host.clone(), run_id.to_owned(), request_id.to_owned());
    let store = move || {
        owner.gated.store(&run, &id, |call| call.state = CallState::Reported);
        owner.gated.open().remove(&(run, id));
    };
    // Fails only while the runtime ends.
    tokio::task::spawn_blocking(store).await.ok();
}

/// Whether an operation only ended because the daemon does.
pub(super) fn is_interrupted(host: &Host, run_id: &str, request_id: &str) -> bool {
    let is_waiting = |call: &PendingCall| call.state == CallState::Waiting && call.approval.is_some();
    host.core().stop.is_cancelled() && host.gated.get(run_id, request_id).as_ref().is_some_and(is_waiting)
}

/// Continues the operations that an earlier daemon has left: questions wait again, and what had begun is in doubt.
pub(super) async fn resume_all(host: &Arc<Host>) {
    let owner = host.clone();
    let left = tokio::task::spawn_blocking(move || owner.gated.dir.unfinished()).await.unwrap_or_default();
    for call in left {
        let call = match call.state {
            CallState::Running => in_doubt(host, call).await,
            CallState::Waiting | CallState::Done | CallState::Reported => call,
        };
        host.gated.add(call.clone());
        let run = host.runs.get(&call.run_id);
        match run.is_some_and(|run| run.record.boot != boot_id()) {
            true => host.gated.after_greeting().push(call),
            false => resume(host, call).await,
        }
    }
}

/// Continues the operations of an earlier boot. Called when a hub has said which events it has.
pub(super) async fn resume_after_greeting(host: &Arc<Host>) {
    let left = std::mem::take(&mut *host.gated.after_greeting());
    for call in left {
        resume(host, call).await;
    }
}

async fn resume(host: &Arc<Host>, call: PendingCall) {
    if call.state != CallState::Waiting {
        return report_answer(host, call).await;
    }
    let earlier = call.approval.as_ref().map(StoredIdentity::identity);
    let request = HostRequest {
        kind: call.kind.clone(),
        run_id: Some(call.run_id.clone()),
        data: String::from(Box::<str>::from(call.data.clone())).into(),
        context: ConnectionContext::new(caller(&call.caller), Transport::Ws),
    };
    host.core().tasks.spawn(super::calls::resume(host.clone(), request, earlier));
}

/// The caller of an earlier daemon's request.
fn caller(name: &str) -> Caller {
    match (name.strip_prefix("user:"), name.strip_prefix("uid:").and_then(|uid| uid.parse().ok())) {
        (_, Some(uid)) => Caller::user(uid),
        (user, None) => Caller::of_hub(user, Scopes::DEFAULT),
    }
}

/// An operation that was running when the host ended. It is never repeated: its answer is stored at once.
async fn in_doubt(host: &Arc<Host>, call: PendingCall) -> PendingCall {
    let message = "in doubt: the host ended while the operation ran; check its effect before you repeat it";
    let decided = PermissionDecided {
        request_id: call.request_id.clone(),
        decision: "in_doubt".to_owned(),
        actor: Some("system".to_owned()),
        user: None,
        reason: Some(message.to_owned()),
    };
    let answer = StoredAnswer::new(&Err(RpcError::invalid_request(message)));
    let call = PendingCall { state: CallState::Done, decided: Some(decided), answer: Some(answer), ..call };
    let (owner, stored) = (host.clone(), call.clone());
    let store = move || {
        if let Err(error) = owner.gated.dir.save(&stored) {
            tracing::warn!(%error, "cannot store the answer of an operation");
        }
    };
    // Fails only while the runtime ends.
    tokio::task::spawn_blocking(store).await.ok();
    call
}

/// Reports the answer of an operation, unless the host that ended has done so.
async fn report_answer(host: &Arc<Host>, call: PendingCall) {
    let answer = call.answer.clone().map(StoredAnswer::answer);
    if let Some((run, answer)) = host.runs.get(&call.run_id).zip(answer) {
        // The decision may not have been noted before the host was killed.
        let decision = if answer.is_ok() { "approve" } else { "withdrawn" };
        let decided = call.decided.clone().unwrap_or_else(|| PermissionDecided {
            request_id: call.request_id.clone(),
            decision: decision.to_owned(),
            actor: Some("system".to_owned()),
            user: None,
            reason: None,
        });
        run.append_once(kind::RUN_PERMISSION_DECIDED, &call.request_id, &decided).await;
        super::calls::append_result(host, &run, &call, &answer).await;
    }
    leave(host, &call.run_id, &call.request_id).await;
}
