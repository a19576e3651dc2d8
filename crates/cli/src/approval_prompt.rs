//! Prompts for approval requests on the terminal.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};

use client::{ApprovalEvent, Session, v1};
use serde_json::Value;

use crate::output;
use crate::table::sanitize;

/// An approval request as it is shown on the terminal.
#[derive(Debug, Clone)]
pub struct ApprovalPrompt {
    id: String,
    summary: String,
    reason: Option<String>,
    requester: Option<String>,
    /// The change of a file as a diff.
    diff: Option<String>,
}

/// Prompts for every approval request of this session until the session ends.
pub async fn prompt_for_session(session: Session) {
    let Ok(mut approvals) = session.subscribe_approvals().await else { return };
    while let Some(event) = approvals.next().await {
        if let ApprovalEvent::Requested(request) = event {
            prompt(&session, &ApprovalPrompt::from(*request)).await;
        }
    }
}

/// Prompts for one approval and sends the decision to the server.
pub async fn prompt(session: &Session, approval: &ApprovalPrompt) {
    let shown = approval.clone();
    let decision = tokio::task::spawn_blocking(move || read_decision(&shown)).await.ok().flatten();
    let Some((approve, scope)) = decision else { return };
    if let Err(error) = session.decide(&approval.id, approve, scope).await {
        output::note(error);
    }
}

/// Reads the decision from the terminal; `None` without a terminal or at end of file.
fn read_decision(approval: &ApprovalPrompt) -> Option<(bool, Option<&'static str>)> {
    let mut terminal = File::options().read(true).write(true).open("/dev/tty").ok()?;
    write!(terminal, "{}", approval.text()).ok()?;
    let mut answer = String::new();
    BufReader::new(terminal).read_line(&mut answer).ok().filter(|read| *read > 0)?;
    Some(match answer.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" => (true, None),
        "s" | "session" => (true, Some("session")),
        _ => (false, None),
    })
}

impl ApprovalPrompt {
    fn text(&self) -> String {
        let mut text = format!("\nrex: approval required: {}\n", sanitize(&self.summary));
        for (word, value) in [("reason", &self.reason), ("requested by", &self.requester)] {
            if let Some(value) = value {
                text.push_str(&format!("  {word}: {}\n", sanitize(value)));
            }
        }
        for line in self.diff.iter().flat_map(|diff| diff.lines()) {
            text.push_str(&format!("  {}\n", sanitize(line)));
        }
        text.push_str("approve? [y]es, once; for this [s]ession; [N]o: ");
        text
    }
}

fn diff_of(operation: &Value) -> Option<String> {
    operation["diff"].as_str().map(str::to_owned)
}

impl From<v1::Approval> for ApprovalPrompt {
    fn from(pending: v1::Approval) -> ApprovalPrompt {
        let diff = diff_of(&pending.operation);
        let requester = pending.asked_by.map(|by| by.client_name);
        ApprovalPrompt {
            id: pending.approval_id,
            summary: pending.summary,
            reason: pending.reason,
            requester,
            diff,
        }
    }
}

impl From<v1::ApprovalRequested> for ApprovalPrompt {
    fn from(request: v1::ApprovalRequested) -> ApprovalPrompt {
        let diff = diff_of(&request.operation);
        let requester = request.asked_by.map(|by| by.client_name);
        ApprovalPrompt {
            id: request.approval_id,
            summary: request.summary,
            reason: request.reason,
            requester,
            diff,
        }
    }
}
