//! A session as an approver: hears what waits for a decision, if its caller may decide.

use std::path::PathBuf;
use std::sync::atomic::Ordering;

use engine::approval::{ApprovalRequest, ApprovalUpdate, Approver};
use tokio::sync::mpsc;

use super::mailbox::{Handle, Letter, Notice};
use crate::core::runtime_policy::RuntimePolicyHandle;
use crate::net::auth::Scope;

/// What decides whether a session may see and answer a question.
pub(super) struct SessionApprover {
    handle: Handle,
    runtime_policy: RuntimePolicyHandle,
    /// The directories its caller is confined to, if it is.
    roots: Option<Vec<PathBuf>>,
}

impl SessionApprover {
    pub(super) fn new(
        handle: Handle,
        runtime_policy: RuntimePolicyHandle,
        roots: Option<Vec<PathBuf>>,
    ) -> SessionApprover {
        SessionApprover { handle, runtime_policy, roots }
    }

    /// Whether everything a question is about lies where its caller may look.
    pub(super) fn may_see(&self, request: &ApprovalRequest) -> bool {
        let Some(roots) = &self.roots else { return true };
        request.operation.paths().iter().all(|path| roots.iter().any(|root| path.starts_with(root)))
    }

    /// Nothing if it may answer, else why not.
    pub(super) fn reason_against(&self, request: &ApprovalRequest) -> Option<String> {
        let (caller, runtime_policy) = (&self.handle.asker.caller, self.runtime_policy.current());
        if !caller.scopes.allow(Scope::Exec) {
            return Some(format!("{} may only look", caller.name));
        }
        if !runtime_policy.approvals.approvers.iter().any(|glob| glob.matches(&caller.name)) {
            return Some(format!("{} is not among approvals.approvers", caller.name));
        }
        if !runtime_policy.approvals.self_approval && request.requester.caller == caller.name {
            return Some("whoever asks may not answer here (approvals.self_approval)".to_owned());
        }
        None
    }
}

impl Approver for SessionApprover {
    fn may_answer(&self, request: &ApprovalRequest) -> bool {
        self.may_see(request) && self.reason_against(request).is_none()
    }

    fn is_connected(&self) -> bool {
        self.handle.silent_since.load(Ordering::Relaxed) == 0
    }

    fn notify(&self, update: &ApprovalUpdate) {
        let letter = Letter::Notice(Notice::ApprovalUpdate(Box::new(update.clone())));
        if let Err(mpsc::error::TrySendError::Full(letter)) = self.handle.letters.try_send(letter) {
            let letters = self.handle.letters.clone();
            // Lives until the session has read what came before; as many as questions may wait.
            tokio::spawn(async move { letters.send(letter).await.ok() });
        }
    }
}

impl std::fmt::Debug for SessionApprover {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SessionApprover").field("session", &self.handle.id).finish_non_exhaustive()
    }
}
