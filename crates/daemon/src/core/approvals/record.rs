//! The stored form of an approval and of a grant. Fields are only ever added.

use std::sync::Arc;
use std::time::SystemTime;

use engine::approval::{
    Approval, ApprovalAnswer, ApprovalRequest, Choice, Diff, Grant, GrantHolder, GrantKey, Operation,
    Resolution, Scope,
};
use engine::process::Program;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::core::state::to_ms;
use crate::observe::audit::{redact_argv, redact_text};

/// One approval as it is stored.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct ApprovalRecord {
    pub(super) state: ApprovalState,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) by: Option<String>,
    /// The name of the requests to which the answer also applies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) scope: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) reason: Option<String>,
    pub(super) caller: String,
    pub(super) client: String,
    pub(super) face: String,
    pub(super) session: String,
    pub(super) operation: String,
    pub(super) summary: String,
    /// The size of the diff that the approver saw.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) diff_bytes: Option<u64>,
    pub(super) rule: String,
    pub(super) asked_at_ms: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) settled_at_ms: Option<u64>,
    /// The daemon whose request waits for it.
    pub(super) daemon: DaemonId,
}

/// A process, identified by its pid and start time: pids are reused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct DaemonId {
    pub(super) pid: u32,
    pub(super) started: u64,
}

/// Whether an approval is pending, or how it was settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum ApprovalState {
    Pending,
    Approved,
    Denied,
    Expired,
    Withdrawn,
    Abandoned,
}

/// An answer that applies until its rule changes.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct GrantRecord {
    pub(super) caller: String,
    pub(super) rule: String,
    pub(super) rule_mark: u64,
    pub(super) approve: bool,
    pub(super) by: String,
    pub(super) granted_at_ms: u64,
}

impl ApprovalRecord {
    pub(super) fn new(approval: &Approval, daemon: DaemonId) -> ApprovalRecord {
        let ApprovalRequest { requester, method, operation, rule, .. } = &approval.request;
        let diff = match operation {
            Operation::Files { diff: Some(Diff { text, cut_bytes }), .. } => {
                Some(text.len() as u64 + cut_bytes)
            }
            _ => None,
        };
        ApprovalRecord {
            state: ApprovalState::Pending,
            by: None,
            scope: None,
            reason: None,
            caller: requester.caller.to_string(),
            client: redact_text(&requester.client).into_owned(),
            face: requester.face.to_owned(),
            session: requester.session.to_string(),
            operation: (*method).to_owned(),
            summary: redacted_summary(operation),
            diff_bytes: diff,
            rule: rule.clone(),
            asked_at_ms: to_ms(approval.requested_at),
            settled_at_ms: None,
            daemon,
        }
    }

    pub(super) fn settle(&mut self, outcome: &Resolution) {
        self.settled_at_ms = Some(to_ms(SystemTime::now()));
        self.state = match outcome {
            Resolution::Answered(ApprovalAnswer { choice: Choice::Approve, .. }) => ApprovalState::Approved,
            Resolution::Answered(ApprovalAnswer { choice: Choice::Deny, .. }) => ApprovalState::Denied,
            Resolution::Expired => ApprovalState::Expired,
            Resolution::Withdrawn => ApprovalState::Withdrawn,
            Resolution::Abandoned => ApprovalState::Abandoned,
        };
        if let Resolution::Answered(answer) = outcome {
            self.by = Some(answer.by.to_string());
            self.scope = Some(answer.scope.name().to_owned());
            self.reason = answer.reason.as_deref().map(str::to_owned);
        }
    }

    /// How it was settled; `None` while it is pending.
    pub(super) fn outcome(&self) -> Option<Resolution> {
        let answered = |choice| {
            let scopes = [Scope::Session, Scope::Rule];
            let scope = scopes.into_iter().find(|scope| Some(scope.name()) == self.scope.as_deref());
            let scope = scope.unwrap_or(Scope::Once);
            Resolution::Answered(ApprovalAnswer {
                choice,
                scope,
                by: Arc::from(self.by.as_deref().unwrap_or_default()),
                reason: self.reason.as_deref().map(Arc::from),
            })
        };
        Some(match self.state {
            ApprovalState::Pending => return None,
            ApprovalState::Approved => answered(Choice::Approve),
            ApprovalState::Denied => answered(Choice::Deny),
            ApprovalState::Expired => Resolution::Expired,
            ApprovalState::Withdrawn => Resolution::Withdrawn,
            ApprovalState::Abandoned => Resolution::Abandoned,
        })
    }
}

impl GrantRecord {
    /// The stored form; `None` for a grant that ends with its session and for one without a rule of the configuration.
    pub(super) fn new(grant: &Grant) -> Option<GrantRecord> {
        let GrantHolder::Caller(caller) = &grant.holder else { return None };
        let GrantKey::Rule { name, fingerprint } = &grant.key else { return None };
        Some(GrantRecord {
            caller: caller.to_string(),
            rule: name.clone(),
            rule_mark: *fingerprint,
            approve: grant.choice == Choice::Approve,
            by: grant.by.to_string(),
            granted_at_ms: to_ms(SystemTime::now()),
        })
    }

    pub(super) fn grant(self) -> Grant {
        Grant {
            holder: GrantHolder::Caller(Arc::from(self.caller)),
            key: GrantKey::Rule { name: self.rule, fingerprint: self.rule_mark },
            choice: if self.approve { Choice::Approve } else { Choice::Deny },
            by: Arc::from(self.by),
        }
    }

    /// The name of the file. A later grant for the same caller and rule replaces an earlier one.
    pub(super) fn name(&self) -> String {
        let mut digest = Sha256::new();
        for part in [&self.caller, &self.rule] {
            digest.update(part.as_bytes());
            digest.update([0]);
        }
        hex::encode(&digest.finalize()[..8])
    }
}

/// The operation in one line, with probable secrets replaced.
fn redacted_summary(operation: &Operation) -> String {
    let mut operation = operation.clone();
    if let Operation::Run { program, .. } = &mut operation {
        match program {
            Program::Argv(argv) => *argv = redact_argv(argv),
            Program::Shell { line, .. } => *line = redact_text(line).into_owned(),
        }
    }
    operation.summary().chars().take(MAX_SUMMARY).collect()
}

/// The maximal length of a stored summary, in characters.
const MAX_SUMMARY: usize = 4_096;
