//! Operations that always need an approval: what they are while they wait and run, and how they continue after a restart.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use engine::approval::ApprovalIdentity;
use serde_json::value::RawValue;
use wire::hub::v1::{PermissionDecided, kind, rpc};
use wire::jsonrpc::RpcError;

use super::Host;
use super::calls::{Answer, HostRequest};
use super::pending::{CallState, PendingCall, PendingDir, StoredAnswer, StoredIdentity};
use crate::core::request::ConnectionContext;
use crate::core::session::Face as _;
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
}

impl GatedCalls {
    pub(super) fn new(dir: PendingDir) -> GatedCalls {
        GatedCalls { dir, open: Mutex::default() }
    }

    fn open(&self) -> MutexGuard<'_, HashMap<(String, String), PendingCall>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// Stores that an approval was requested. Returns false if an earlier daemon has stored it. Blocks.
    pub(super) fn asked(
        &self,
        run_id: &str,
        request_id: &str,
        identity: &ApprovalIdentity,
    ) -> std::io::Result<bool> {
        let identity = StoredIdentity::from(identity);
        let mut is_new = true;
        self.update(run_id, request_id, |call| {
            is_new = call.approval.as_ref() != Some(&identity);
            call.approval = Some(identity);
        })?;
        Ok(is_new)
    }

    /// Stores the answer of an operation. Blocks.
    fn finish(&self, run_id: &str, request_id: &str, answer: &Answer) {
        let stored = self.update(run_id, request_id, |call| {
            call.state = CallState::Done;
            call.answer = Some(StoredAnswer::new(answer));
        });
        if let Err(error) = stored {
            tracing::warn!(%error, "cannot store the answer of an operation");
        }
        self.open().remove(&(run_id.to_owned(), request_id.to_owned()));
    }

    /// The answer that an earlier daemon has stored. Blocks.
    fn earlier_answer(&self, run_id: &str, kind: &str, request_id: &str) -> Option<Answer> {
        let call = self.dir.find(run_id, kind, request_id)?;
        call.answer.filter(|_| call.state == CallState::Done).map(StoredAnswer::answer)
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
        stored.map(drop).map_err(failed)
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
        });
    }
    None
}

/// Stores the answer of an operation. While the daemon ends, an operation that waits is left for the next one.
pub(super) async fn leave(host: &Arc<Host>, run_id: &str, request_id: &str, answer: &Answer) {
    let (owner, run, id, answer) = (host.clone(), run_id.to_owned(), request_id.to_owned(), answer.clone());
    // Fails only while the runtime ends.
    tokio::task::spawn_blocking(move || owner.gated.finish(&run, &id, &answer)).await.ok();
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
        host.gated.add(call.clone());
        match (call.state, &call.approval) {
            (CallState::Running, _) => report_doubt(host, &call).await,
            (CallState::Waiting | CallState::Done, approval) => {
                let earlier = approval.as_ref().map(StoredIdentity::identity);
                let request = HostRequest {
                    kind: call.kind.clone(),
                    run_id: Some(call.run_id.clone()),
                    data: String::from(Box::<str>::from(call.data.clone())).into(),
                    context: ConnectionContext::new(caller(&call.caller), Transport::Ws),
                };
                host.core().tasks.spawn(super::calls::resume(host.clone(), request, earlier));
            }
        }
    }
}

/// The caller of an earlier daemon's request.
fn caller(name: &str) -> Caller {
    match (name.strip_prefix("user:"), name.strip_prefix("uid:").and_then(|uid| uid.parse().ok())) {
        (_, Some(uid)) => Caller::user(uid),
        (user, None) => Caller::of_hub(user, Scopes::DEFAULT),
    }
}

/// Reports an operation that was running when the host ended. It is never repeated.
async fn report_doubt(host: &Arc<Host>, call: &PendingCall) {
    let message = "in doubt: the host ended while the operation ran; check its effect before you repeat it";
    let answer: Answer = Err(RpcError::invalid_request(message));
    if let Some(run) = host.runs.get(&call.run_id) {
        let decided = PermissionDecided {
            request_id: call.request_id.clone(),
            decision: "in_doubt".to_owned(),
            actor: Some("system".to_owned()),
            user: None,
            reason: Some(message.to_owned()),
        };
        run.append(kind::RUN_PERMISSION_DECIDED, &decided).await;
        super::calls::append_result(host, &run, call, &answer).await;
    }
    leave(host, &call.run_id, &call.request_id, &answer).await;
}
