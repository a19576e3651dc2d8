//! A session as an approver: receives requests for approval that its caller may decide.

use std::path::PathBuf;

use engine::approval::{ApprovalRequest, ApprovalUpdate, Approver};

use super::{Face, SessionHandle, SessionMessage};
use crate::core::runtime_policy::{RuntimePolicy, RuntimePolicyHandle};
use crate::net::auth::{Caller, Scope};

/// Decides which requests for approval a session may see and answer.
pub struct SessionApprover<F: Face> {
    handle: SessionHandle<F>,
    policy: RuntimePolicyHandle,
    /// The directories that its caller is confined to, if any.
    roots: Option<Vec<PathBuf>>,
}

impl<F: Face> SessionApprover<F> {
    pub(super) fn new(
        handle: SessionHandle<F>,
        policy: RuntimePolicyHandle,
        roots: Option<Vec<PathBuf>>,
    ) -> SessionApprover<F> {
        SessionApprover { handle, policy, roots }
    }

    /// Whether every path of the operation is inside the caller's directories.
    pub fn may_see(&self, request: &ApprovalRequest) -> bool {
        let Some(roots) = &self.roots else { return true };
        request.operation.paths().iter().all(|path| roots.iter().any(|root| path.starts_with(root)))
    }

    /// Why the session may not answer; `None` if it may.
    pub fn reason_against(&self, request: &ApprovalRequest) -> Option<String> {
        reason_against(&self.policy.current(), &self.handle.requester.caller, request)
    }
}

/// Why a caller may not answer a request for approval; `None` if it may.
pub fn reason_against(policy: &RuntimePolicy, caller: &Caller, request: &ApprovalRequest) -> Option<String> {
    if !caller.scopes.allow(Scope::Exec) {
        return Some(format!("{} has only the scope \"read\"", caller.name));
    }
    if !policy.approvals.approvers.iter().any(|glob| glob.matches(&caller.name)) {
        return Some(format!("{} is not among approvals.approvers", caller.name));
    }
    if !policy.approvals.self_approval && request.requester.caller == caller.name {
        return Some("the requester may not answer its own request (approvals.self_approval)".to_owned());
    }
    None
}

impl<F: Face> Approver for SessionApprover<F> {
    fn may_answer(&self, request: &ApprovalRequest) -> bool {
        self.may_see(request) && self.reason_against(request).is_none()
    }

    fn is_connected(&self) -> bool {
        self.handle.is_connected()
    }

    fn notify(&self, update: &ApprovalUpdate) {
        let update = update.clone();
        self.handle.send_soon(SessionMessage::update(move |session| F::approval_update(session, &update)));
    }
}

impl<F: Face> std::fmt::Debug for SessionApprover<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SessionApprover").field("session", &self.handle.id).finish_non_exhaustive()
    }
}
