//! Approvals: operations that run only after a person has approved them.
//!
//! Each approval is resolved exactly once: by the first answer, by its deadline, or because the requester no longer
//! waits. Every approver that may answer is notified of the request and of its resolution. The store keeps requests,
//! resolutions and grants across restarts; the operation itself does not survive its requester.

mod grants;
mod pending;
mod request;

pub use grants::{Grant, GrantHolder, GrantKey};
pub use request::{ApprovalRequest, Diff, FileAction, InputPreview, Operation, Requester};

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::Error;
use pending::{PendingApprovals, ResolvedApproval};

/// Limit on pending approvals; beyond it an operation that needs an approval is refused.
pub const MAX_PENDING: usize = 256;

/// The decision of an approver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// The operation runs.
    Approve,
    /// The operation is refused.
    Deny,
}

/// The operations that an answer applies to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Scope {
    /// This operation only.
    #[default]
    Once,
    /// All operations that the same rule asks about in the same session.
    Session,
    /// All operations of the same caller that the same rule asks about, until the rule changes.
    Rule,
}

impl Scope {
    /// The name used on the wire and in the audit.
    pub fn name(self) -> &'static str {
        match self {
            Scope::Once => "once",
            Scope::Session => "session",
            Scope::Rule => "rule",
        }
    }
}

/// An approver's answer to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalAnswer {
    /// The approver's decision.
    pub choice: Choice,
    /// Operations that the answer applies to.
    pub scope: Scope,
    /// Authenticated name of the approver.
    pub by: Arc<str>,
    /// Why, in the words of the approver; for the agent.
    pub reason: Option<Arc<str>>,
}

/// How an approval ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resolution {
    /// An approver answered.
    Answered(ApprovalAnswer),
    /// The deadline passed without an answer.
    Expired,
    /// The requester stopped waiting.
    Withdrawn,
    /// The daemon stopped while the approval was pending.
    Abandoned,
}

impl fmt::Display for Resolution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Resolution::Answered(ApprovalAnswer { choice: Choice::Approve, by, .. }) => {
                write!(f, "approved by {by}")
            }
            Resolution::Answered(ApprovalAnswer { choice: Choice::Deny, by, .. }) => {
                write!(f, "denied by {by}")
            }
            Resolution::Expired => f.write_str("expired without an answer"),
            Resolution::Withdrawn => f.write_str("withdrawn by the requester"),
            Resolution::Abandoned => f.write_str("abandoned: the daemon stopped while it was pending"),
        }
    }
}

/// A request with its id and deadline.
#[derive(Debug, Clone)]
pub struct Approval {
    /// Random id that cannot be guessed.
    pub id: Arc<str>,
    /// The operation and its requester.
    pub request: ApprovalRequest,
    /// Time of the request.
    pub requested_at: SystemTime,
    /// Deadline for an answer.
    pub expires_at: SystemTime,
}

/// The part of an approval that a later daemon needs to continue it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalIdentity {
    /// Id of the approval.
    pub id: Arc<str>,
    /// Time of the request.
    pub requested_at: SystemTime,
    /// Deadline for an answer.
    pub expires_at: SystemTime,
}

impl Approval {
    /// What a later daemon needs to continue it.
    pub fn identity(&self) -> ApprovalIdentity {
        let Approval { id, requested_at, expires_at, .. } = self;
        ApprovalIdentity { id: id.clone(), requested_at: *requested_at, expires_at: *expires_at }
    }
}

/// A change that approvers are notified of.
#[derive(Debug, Clone)]
pub enum ApprovalUpdate {
    /// An approval is pending.
    Requested(Arc<Approval>),
    /// An approval was resolved.
    Resolved(Arc<Approval>, Resolution),
}

/// A session that may answer requests while its [`ApproverRegistration`] is held.
pub trait Approver: Send + Sync {
    /// Whether it may see and answer the request.
    fn may_answer(&self, request: &ApprovalRequest) -> bool;
    /// Whether a client is connected now.
    fn is_connected(&self) -> bool;
    /// Delivers an update. Must not block.
    fn notify(&self, update: &ApprovalUpdate);
}

/// Storage that outlives the daemon. Its methods are called on blocking threads.
pub trait ApprovalStore: Send + Sync {
    /// Writes a request before approvers are notified; on failure the operation is refused.
    fn record_request(&self, approval: &Approval) -> std::io::Result<()>;
    /// Writes how an approval ended.
    fn record_resolution(&self, approval: &Approval, resolution: &Resolution);
    /// Writes a grant that is valid until its rule changes.
    fn record_grant(&self, grant: &Grant);
    /// Reads how an approval of an earlier daemon ended.
    fn find_resolution(&self, id: &str) -> Option<Resolution>;
}

/// All approvals of one daemon. Cheap to clone.
#[derive(Clone)]
pub struct Approvals {
    shared: Arc<Shared>,
}

struct Shared {
    pending: Mutex<PendingApprovals>,
    store: Option<Arc<dyn ApprovalStore>>,
}

impl Approvals {
    /// Starts without pending approvals; `grants` of earlier daemons stay valid.
    pub fn new(store: Option<Arc<dyn ApprovalStore>>, grants: Vec<Grant>) -> Approvals {
        Approvals { shared: Arc::new(Shared { pending: Mutex::new(PendingApprovals::new(grants)), store }) }
    }

    /// Notifies the approver of requests until the registration is dropped.
    pub fn register_approver(&self, approver: Arc<dyn Approver>) -> ApproverRegistration {
        ApproverRegistration { id: self.pending_approvals().register(approver), approvals: self.clone() }
    }

    /// The earlier answer that applies to this request too.
    pub fn find_grant(&self, request: &ApprovalRequest) -> Option<Grant> {
        self.pending_approvals().find_grant(request)
    }

    /// Notifies all approvers that may answer. Fails at once if none is connected or [`MAX_PENDING`] is reached.
    pub async fn request(
        &self,
        request: ApprovalRequest,
        timeout: Duration,
    ) -> Result<ApprovalHandle, Error> {
        let requested_at = SystemTime::now();
        let id = Arc::from(format!("a_{}", crate::session::random_name()?));
        let expires_at = requested_at + timeout;
        self.request_again(request, ApprovalIdentity { id, requested_at, expires_at }).await
    }

    /// The same for a request that an earlier daemon has made: it keeps its id and its deadline.
    pub async fn request_again(
        &self,
        request: ApprovalRequest,
        identity: ApprovalIdentity,
    ) -> Result<ApprovalHandle, Error> {
        let ApprovalIdentity { id, requested_at, expires_at } = identity;
        let left = expires_at.duration_since(SystemTime::now()).unwrap_or_default();
        // A clock that was set back does not make the wait longer than it was at first.
        let timeout = left.min(expires_at.duration_since(requested_at).unwrap_or_default());
        let approval = Arc::new(Approval { id, request, requested_at, expires_at });
        self.pending_approvals().check_request(&approval.request)?;
        self.record_request(&approval).await?;
        let (sender, receiver) = oneshot::channel();
        // Created before the approval is added: dropping the handle always resolves it.
        let handle = ApprovalHandle {
            approval: approval.clone(),
            resolution: receiver,
            approvals: self.clone(),
            timeout,
        };
        let added = self.pending_approvals().add(approval.clone(), sender);
        let approvers = match added {
            Ok(approvers) => approvers,
            Err(error) => {
                // The last approver disconnected while the request was written.
                drop(self.record_resolution(approval, Resolution::Withdrawn, None));
                return Err(error);
            }
        };
        let update = ApprovalUpdate::Requested(approval);
        approvers.iter().for_each(|approver| approver.notify(&update));
        Ok(handle)
    }

    async fn record_request(&self, approval: &Arc<Approval>) -> Result<(), Error> {
        let Some(store) = self.shared.store.clone() else { return Ok(()) };
        let record = approval.clone();
        let written = tokio::task::spawn_blocking(move || store.record_request(&record)).await;
        written.unwrap_or_else(|_| Err(std::io::ErrorKind::Interrupted.into())).map_err(|source| {
            let reason = format!("the approval request cannot be stored: {source}");
            Error::NoApprover { rule: approval.request.rule.clone(), reason }
        })
    }

    /// Pending approvals for which `may_see` returns true, oldest first.
    pub fn pending(&self, may_see: impl Fn(&ApprovalRequest) -> bool) -> Vec<Arc<Approval>> {
        let mut pending = self.pending_approvals().list();
        pending.retain(|approval| may_see(&approval.request));
        pending.sort_by_key(|approval| approval.requested_at);
        pending
    }

    /// Answers a request and returns after the answer was stored. The second of two concurrent answers fails with the
    /// resolution that the first one caused.
    pub async fn answer(
        &self,
        id: &str,
        answer: ApprovalAnswer,
        may_answer: impl Fn(&ApprovalRequest) -> bool,
    ) -> Result<Arc<Approval>, Error> {
        let resolved = self.pending_approvals().answer(id, answer, may_answer);
        match resolved {
            Ok(resolved) => {
                let approval = resolved.approval.clone();
                if let Some(written) = self.publish(resolved) {
                    // An approver relies on a stored grant. The store has logged a failure.
                    written.await.ok();
                }
                Ok(approval)
            }
            Err(Error::NoSuchApproval(id)) => Err(self.unknown_approval(id).await),
            Err(error) => Err(error),
        }
    }

    /// The error for an id that is not an approval of this daemon: an earlier daemon may have resolved it.
    async fn unknown_approval(&self, id: String) -> Error {
        let Some(store) = self.shared.store.clone() else { return Error::NoSuchApproval(id) };
        let find = {
            let id = id.clone();
            move || store.find_resolution(&id)
        };
        match tokio::task::spawn_blocking(find).await {
            Ok(Some(outcome)) => Error::AlreadySettled { id, outcome },
            Ok(None) | Err(_) => Error::NoSuchApproval(id),
        }
    }

    /// How an approval of an earlier daemon ended, if an approver has answered it.
    pub async fn earlier_answer(&self, id: &str) -> Option<ApprovalAnswer> {
        let (store, id) = (self.shared.store.clone()?, id.to_owned());
        match tokio::task::spawn_blocking(move || store.find_resolution(&id)).await {
            Ok(Some(Resolution::Answered(answer))) => Some(answer),
            Ok(_) | Err(_) => None,
        }
    }

    /// Drops the grants of a session that has ended.
    pub fn remove_session(&self, session: &str) {
        self.pending_approvals().remove_session(session);
    }

    /// Resolves a pending approval without an answer; returns false if it was resolved before.
    fn resolve(&self, id: &str, resolution: Resolution) -> bool {
        let resolved = self.pending_approvals().resolve(id, resolution);
        let is_resolved = resolved.is_some();
        if let Some(resolved) = resolved {
            drop(self.publish(resolved));
        }
        is_resolved
    }

    /// Stores a resolution and notifies the approvers. The returned task ends when it is stored.
    fn publish(&self, resolved: ResolvedApproval) -> Option<JoinHandle<()>> {
        let ResolvedApproval { approval, resolution, approvers, grant } = resolved;
        let written = self.record_resolution(approval.clone(), resolution.clone(), grant);
        let update = ApprovalUpdate::Resolved(approval, resolution);
        approvers.iter().for_each(|approver| approver.notify(&update));
        written
    }

    fn record_resolution(
        &self,
        approval: Arc<Approval>,
        resolution: Resolution,
        grant: Option<Grant>,
    ) -> Option<JoinHandle<()>> {
        let store = self.shared.store.clone()?;
        let write = move || {
            store.record_resolution(&approval, &resolution);
            grant.iter().for_each(|grant| store.record_grant(grant));
        };
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => Some(runtime.spawn_blocking(write)),
            // A handle may be dropped after the runtime has stopped.
            Err(_none) => {
                write();
                None
            }
        }
    }

    fn pending_approvals(&self) -> MutexGuard<'_, PendingApprovals> {
        // No method panics between two changes, so the state is consistent even if the lock is poisoned.
        self.shared.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Approvals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pending = self.pending_approvals().list().len();
        f.debug_struct("Approvals").field("pending", &pending).finish_non_exhaustive()
    }
}

/// Registration of an approver; dropping it stops the notifications.
pub struct ApproverRegistration {
    id: u64,
    approvals: Approvals,
}

impl Drop for ApproverRegistration {
    fn drop(&mut self) {
        self.approvals.pending_approvals().unregister(self.id);
    }
}

impl fmt::Debug for ApproverRegistration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ApproverRegistration").field(&self.id).finish()
    }
}

/// A request whose resolution is awaited. Dropping the handle withdraws the request.
#[derive(Debug)]
pub struct ApprovalHandle {
    approval: Arc<Approval>,
    resolution: oneshot::Receiver<Resolution>,
    approvals: Approvals,
    timeout: Duration,
}

impl ApprovalHandle {
    /// The request with its id and deadline.
    pub fn approval(&self) -> &Arc<Approval> {
        &self.approval
    }

    /// Waits for the resolution, at most until the deadline of the request.
    pub async fn resolution(mut self) -> Resolution {
        let in_time = tokio::time::timeout(self.timeout, &mut self.resolution).await;
        if let Ok(resolution) = in_time {
            return resolution.unwrap_or(Resolution::Withdrawn);
        }
        if self.approvals.resolve(&self.approval.id, Resolution::Expired) {
            return Resolution::Expired;
        }
        // An answer arrived at the deadline: it is in the channel.
        self.resolution.try_recv().unwrap_or(Resolution::Expired)
    }
}

impl Drop for ApprovalHandle {
    fn drop(&mut self) {
        self.approvals.resolve(&self.approval.id, Resolution::Withdrawn);
    }
}

#[cfg(test)]
mod tests;
