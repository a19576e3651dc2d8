//! Asking the person at the terminal what policy wants decided.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};

use client::{ApprovalEvent, Session, v1};
use serde_json::Value;

use crate::output;
use crate::table::plain;

/// What is asked.
#[derive(Debug, Clone)]
pub struct Question {
    id: String,
    summary: String,
    reason: Option<String>,
    who: Option<String>,
    /// What a file looks like before and after.
    diff: Option<String>,
}

/// Asks at the terminal whenever something of this session waits for a decision. Ends with the session.
pub async fn attend(session: Session) {
    let Ok(mut approvals) = session.subscribe_approvals().await else { return };
    while let Some(event) = approvals.next().await {
        if let ApprovalEvent::Requested(request) = event {
            ask(&session, &Question::from(*request)).await;
        }
    }
}

/// Asks, and gives the answer to the server.
pub async fn ask(session: &Session, question: &Question) {
    let shown = question.clone();
    let answer = tokio::task::spawn_blocking(move || at_terminal(&shown)).await.ok().flatten();
    let Some((approve, scope)) = answer else { return };
    if let Err(error) = session.decide(&question.id, approve, scope).await {
        output::remark(error);
    }
}

/// The person's answer; nothing without a terminal or without an answer.
fn at_terminal(question: &Question) -> Option<(bool, Option<&'static str>)> {
    let mut terminal = File::options().read(true).write(true).open("/dev/tty").ok()?;
    write!(terminal, "{}", question.text()).ok()?;
    let mut answer = String::new();
    BufReader::new(terminal).read_line(&mut answer).ok().filter(|read| *read > 0)?;
    Some(match answer.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" => (true, None),
        "s" | "session" => (true, Some("session")),
        _ => (false, None),
    })
}

impl Question {
    fn text(&self) -> String {
        let mut text = format!("\nrex: policy asks: {}\n", plain(&self.summary));
        for (word, value) in [("why", &self.reason), ("who", &self.who)] {
            if let Some(value) = value {
                text.push_str(&format!("  {word}: {}\n", plain(value)));
            }
        }
        for line in self.diff.iter().flat_map(|diff| diff.lines()) {
            text.push_str(&format!("  {}\n", plain(line)));
        }
        text.push_str("allow it? [y]es once, [s]ession, [N]o: ");
        text
    }
}

fn diff_of(operation: &Value) -> Option<String> {
    operation["diff"].as_str().map(str::to_owned)
}

impl From<v1::Approval> for Question {
    fn from(waiting: v1::Approval) -> Question {
        let diff = diff_of(&waiting.operation);
        let who = waiting.asked_by.map(|by| by.client_name);
        Question { id: waiting.approval_id, summary: waiting.summary, reason: waiting.reason, who, diff }
    }
}

impl From<v1::ApprovalRequested> for Question {
    fn from(request: v1::ApprovalRequested) -> Question {
        let diff = diff_of(&request.operation);
        let who = request.asked_by.map(|by| by.client_name);
        Question { id: request.approval_id, summary: request.summary, reason: request.reason, who, diff }
    }
}
