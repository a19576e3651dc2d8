//! Pending approvals: requests without an answer, registered approvers, recent resolutions and grants.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use tokio::sync::oneshot;

use super::grants::{Grant, Grants};
use super::{Approval, ApprovalAnswer, ApprovalRequest, Approver, GrantHolder, MAX_PENDING, Resolution};
use crate::Error;

/// Limit on remembered resolutions, which late answers receive as an error; beyond it the oldest is dropped.
const MAX_RESOLVED: usize = 256;

#[derive(Default)]
pub(super) struct PendingApprovals {
    pending: HashMap<Arc<str>, PendingApproval>,
    resolved: VecDeque<(Arc<str>, Resolution)>,
    approvers: BTreeMap<u64, Arc<dyn Approver>>,
    next_registration: u64,
    grants: Grants,
}

struct PendingApproval {
    approval: Arc<Approval>,
    resolution: oneshot::Sender<Resolution>,
}

/// An approval that was just resolved, and the approvers to notify.
pub(super) struct ResolvedApproval {
    pub(super) approval: Arc<Approval>,
    pub(super) resolution: Resolution,
    pub(super) approvers: Vec<Arc<dyn Approver>>,
    /// Grant to write to the store.
    pub(super) grant: Option<Grant>,
}

impl PendingApprovals {
    pub(super) fn new(grants: Vec<Grant>) -> PendingApprovals {
        PendingApprovals { grants: Grants::new(grants), ..PendingApprovals::default() }
    }

    pub(super) fn register(&mut self, approver: Arc<dyn Approver>) -> u64 {
        self.next_registration += 1;
        self.approvers.insert(self.next_registration, approver);
        self.next_registration
    }

    pub(super) fn unregister(&mut self, registration: u64) {
        self.approvers.remove(&registration);
    }

    pub(super) fn find_grant(&self, request: &ApprovalRequest) -> Option<Grant> {
        self.grants.find(request)
    }

    pub(super) fn remove_session(&mut self, session: &str) {
        self.grants.remove_session(session);
    }

    pub(super) fn list(&self) -> Vec<Arc<Approval>> {
        self.pending.values().map(|pending| pending.approval.clone()).collect()
    }

    /// Fails unless a connected approver may answer the request and the limit is not reached.
    pub(super) fn check_request(&self, request: &ApprovalRequest) -> Result<(), Error> {
        if self.pending.len() >= MAX_PENDING {
            return Err(Error::LimitReached { what: "pending approvals", limit: MAX_PENDING as u64 });
        }
        match self.approvers_of(request).iter().any(|approver| approver.is_connected()) {
            true => Ok(()),
            false => Err(Error::NoApprover {
                rule: request.rule.clone(),
                reason: "it needs an approval, and no approver is connected".to_owned(),
            }),
        }
    }

    /// Adds a pending approval and returns the approvers to notify.
    pub(super) fn add(
        &mut self,
        approval: Arc<Approval>,
        resolution: oneshot::Sender<Resolution>,
    ) -> Result<Vec<Arc<dyn Approver>>, Error> {
        self.check_request(&approval.request)?;
        let approvers = self.approvers_of(&approval.request);
        self.pending.insert(approval.id.clone(), PendingApproval { approval, resolution });
        Ok(approvers)
    }

    /// Resolves an approval with an answer, unless it is resolved already.
    pub(super) fn answer(
        &mut self,
        id: &str,
        answer: ApprovalAnswer,
        may_answer: impl Fn(&ApprovalRequest) -> bool,
    ) -> Result<ResolvedApproval, Error> {
        let unknown = || Error::NoSuchApproval(id.to_owned());
        match self.pending.get(id) {
            // The error is the same as for an unknown id, so that it does not reveal the request.
            Some(pending) if !may_answer(&pending.approval.request) => return Err(unknown()),
            Some(_) => {}
            None => {
                let resolved = self.resolved.iter().find(|(name, _)| **name == *id);
                let (_, resolution) = resolved.ok_or_else(unknown)?;
                return Err(Error::AlreadySettled { id: id.to_owned(), outcome: resolution.clone() });
            }
        }
        let mut resolved = self.resolve(id, Resolution::Answered(answer.clone())).ok_or_else(unknown)?;
        let grant = self.grants.add(&resolved.approval.request, &answer);
        resolved.grant = grant.filter(|grant| matches!(grant.holder, GrantHolder::Caller(_)));
        Ok(resolved)
    }

    /// Resolves an approval; `None` if it is not pending.
    pub(super) fn resolve(&mut self, id: &str, resolution: Resolution) -> Option<ResolvedApproval> {
        let PendingApproval { approval, resolution: sender } = self.pending.remove(id)?;
        if self.resolved.len() >= MAX_RESOLVED {
            self.resolved.pop_front();
        }
        self.resolved.push_back((approval.id.clone(), resolution.clone()));
        // The receiver is gone when the request was withdrawn at the same time; then the operation does not run.
        sender.send(resolution.clone()).ok();
        let approvers = self.approvers_of(&approval.request);
        Some(ResolvedApproval { approval, resolution, approvers, grant: None })
    }

    fn approvers_of(&self, request: &ApprovalRequest) -> Vec<Arc<dyn Approver>> {
        self.approvers.values().filter(|approver| approver.may_answer(request)).cloned().collect()
    }
}
