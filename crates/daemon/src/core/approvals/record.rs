//! What a file says about a question or a grant. Fields are only ever added.

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

/// One question.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct ApprovalRecord {
    pub(super) state: ApprovalState,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) by: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) scope: Option<StoredScope>,
    pub(super) caller: String,
    pub(super) client: String,
    pub(super) face: String,
    pub(super) session: String,
    pub(super) operation: String,
    pub(super) summary: String,
    /// How large the change was that the approver saw.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) diff_bytes: Option<u64>,
    pub(super) rule: String,
    pub(super) asked_at_ms: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) settled_at_ms: Option<u64>,
    /// Which daemon waits for it.
    pub(super) daemon: DaemonId,
}

/// A process, named so that another one with its number is not taken for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct DaemonId {
    pub(super) pid: u32,
    pub(super) started: u64,
}

/// How far a question is.
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

/// For what else an answer holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum StoredScope {
    Once,
    Session,
    Rule,
}

/// An answer that holds until its rule changes.
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
            caller: requester.caller.to_string(),
            client: redact_text(&requester.client).into_owned(),
            face: requester.face.to_owned(),
            session: requester.session.to_string(),
            operation: (*method).to_owned(),
            summary: redacted(operation),
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
            self.scope = Some(match answer.scope {
                Scope::Once => StoredScope::Once,
                Scope::Session => StoredScope::Session,
                Scope::Rule => StoredScope::Rule,
            });
        }
    }

    /// How it was settled; nothing while it waits.
    pub(super) fn outcome(&self) -> Option<Resolution> {
        let answered = |choice| {
            let scope = match self.scope {
                None | Some(StoredScope::Once) => Scope::Once,
                Some(StoredScope::Session) => Scope::Session,
                Some(StoredScope::Rule) => Scope::Rule,
            };
            Resolution::Answered(ApprovalAnswer {
                choice,
                scope,
                by: Arc::from(self.by.as_deref().unwrap_or_default()),
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
    /// Nothing for what ends with its session anyway, and for what names no written rule.
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

    /// A file name: the same grant given again takes the place of the one before.
    pub(super) fn name(&self) -> String {
        let mut digest = Sha256::new();
        for part in [&self.caller, &self.rule] {
            digest.update(part.as_bytes());
            digest.update([0]);
        }
        digest.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
    }
}

/// The operation in one line, with what looks like a secret hidden.
fn redacted(operation: &Operation) -> String {
    let mut operation = operation.clone();
    if let Operation::Run { program, .. } = &mut operation {
        match program {
            Program::Argv(argv) => *argv = redact_argv(argv),
            Program::Shell { line, .. } => *line = redact_text(line).into_owned(),
        }
    }
    operation.summary().chars().take(MAX_SUMMARY).collect()
}

/// The longest summary that is kept.
const MAX_SUMMARY: usize = 4_096;
