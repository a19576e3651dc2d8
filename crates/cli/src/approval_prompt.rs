//! Prompts for approval requests on the terminal.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};

use client::{ApprovalEvent, Session};

use crate::approval_description::ApprovalDescription;
use crate::escape;
use crate::output;

/// Prompts for every approval request of this session until the session ends.
pub async fn prompt_for_session(session: Session) {
    let Ok(mut approvals) = session.subscribe_approvals().await else { return };
    while let Some(event) = approvals.next().await {
        if let ApprovalEvent::Requested(request) = event {
            prompt(&session, &ApprovalDescription::from(*request)).await;
        }
    }
}

/// Prompts for one approval and sends the decision to the server.
pub async fn prompt(session: &Session, approval: &ApprovalDescription) {
    let Some((approve, scope)) = ask(approval).await else { return };
    if let Err(error) = session.decide(&approval.id, approve, scope).await {
        output::note(error);
    }
}

/// Prompts for one approval: whether it is approved, and the scope. `None` without a terminal or at end of file.
pub async fn ask(approval: &ApprovalDescription) -> Option<(bool, Option<&'static str>)> {
    let shown = approval.clone();
    tokio::task::spawn_blocking(move || read_decision(&shown)).await.ok().flatten()
}

/// Reads the decision from the terminal; `None` without a terminal or at end of file.
fn read_decision(approval: &ApprovalDescription) -> Option<(bool, Option<&'static str>)> {
    let mut terminal = File::options().read(true).write(true).open("/dev/tty").ok()?;
    write!(terminal, "{}", text(approval)).ok()?;
    let mut answer = String::new();
    BufReader::new(terminal).read_line(&mut answer).ok().filter(|read| *read > 0)?;
    Some(match answer.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" => (true, None),
        "s" | "session" => (true, Some("session")),
        _ => (false, None),
    })
}

/// The text of the prompt.
fn text(approval: &ApprovalDescription) -> String {
    let mut text = "\nrex: approval required\n".to_owned();
    for fact in &approval.facts {
        text.push_str(&format!("  {}\n", escape::line(fact)));
    }
    for (title, part) in &approval.texts {
        text.push_str(&format!("  {title}:\n"));
        for line in part.lines() {
            text.push_str(&format!("    {}\n", escape::text(line)));
        }
    }
    text.push_str("approve? [y]es, once; for this [s]ession; [N]o: ");
    text
}
