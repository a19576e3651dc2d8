//! `rex approvals -t hub:`: requests for permission of all hosts of a hub, or of one.

use std::collections::HashSet;

use client::hub::v1::{Envelope, PermissionDecided, PermissionRequested, kind};
use client::hub::{ApprovalDecision, ApprovalRow, HubConnection, HubError, HubEvent, approvals_path};
use http::StatusCode;
use serde_json::json;
use serde_json::value::RawValue;

use crate::approval_description::ApprovalDescription;
use crate::approval_prompt;
use crate::args::ApprovalsCommand;
use crate::failure::{CommandStatus, Failure};
use crate::hub::selection::SelectedHub;
use crate::output;
use crate::table::TextTable;

/// Runs a subcommand of `rex approvals` for a hub.
pub(super) async fn run(
    hub: &SelectedHub,
    json: bool,
    command: ApprovalsCommand,
) -> Result<CommandStatus, Failure> {
    match command {
        ApprovalsCommand::List => list(hub, json).await?,
        ApprovalsCommand::Approve { id, scope } => {
            let decision = match scope.as_deref() {
                None | Some("once") => ApprovalDecision::Approve,
                Some("session") => ApprovalDecision::ApproveForSession,
                Some(other) => {
                    return Err(Failure::new(format!("unknown scope `{other}` for a request at a hub"))
                        .hint("use once or session; session approves the same for the rest of the run"));
                }
            };
            decide(hub, json, &id, decision).await?;
        }
        ApprovalsCommand::Deny { id } => decide(hub, json, &id, ApprovalDecision::Deny).await?,
        ApprovalsCommand::Watch => watch(hub).await?,
    }
    Ok(CommandStatus::OK)
}

async fn list(hub: &SelectedHub, json: bool) -> Result<(), Failure> {
    let host = hub.host_id().await?;
    if json {
        return output::json_line(&hub.client.get::<Box<RawValue>>(&approvals_path(host.as_deref())).await?);
    }
    let pending = hub.client.approvals(host.as_deref()).await?;
    if pending.is_empty() {
        output::note("no pending approvals");
        return Ok(());
    }
    let mut table = TextTable::new(&["ID", "HOST", "RISK", "EXPIRES", "OPERATION"]);
    for one in &pending {
        let shown = with_true_text(hub, one).await?;
        let risk = one.request.as_ref().and_then(|request| request["risk"].as_str()).unwrap_or_default();
        let expires = one.expires_at.as_deref().and_then(|time| time.get(11..19)).unwrap_or_default();
        table.row(&[
            one.request_id.clone(),
            one.host_id.clone(),
            risk.to_owned(),
            expires.to_owned(),
            ApprovalDescription::from(&shown).summary,
        ]);
    }
    table.print()
}

/// The request with the text of its host, as far as the role of the user permits it.
async fn with_true_text(hub: &SelectedHub, row: &ApprovalRow) -> Result<ApprovalRow, Failure> {
    match hub.client.approval(&row.run_id, &row.request_id).await {
        Ok(shown) => Ok(shown),
        Err(HubError::Refused { status, message, .. })
            if [StatusCode::FORBIDDEN, StatusCode::NOT_FOUND].contains(&status) =>
        {
            Ok(ApprovalRow { shown_error: Some(message), ..row.clone() })
        }
        Err(error) => Err(error.into()),
    }
}

async fn decide(hub: &SelectedHub, json: bool, id: &str, decision: ApprovalDecision) -> Result<(), Failure> {
    let host = hub.host_id().await?;
    let pending = hub.client.approvals(host.as_deref()).await?;
    let mut meant = pending.into_iter().filter(|one| !id.is_empty() && one.request_id.starts_with(id));
    let row = match (meant.next(), meant.next()) {
        (Some(row), None) => row,
        (None, _) => {
            return Err(Failure::new(format!("no pending approval {id}"))
                .hint("`rex approvals list` shows the pending ones; this one may be answered or expired"));
        }
        (Some(_), Some(_)) => {
            return Err(Failure::new(format!("ambiguous approval id {id}: several start with it"))
                .hint("use more characters of the id"));
        }
    };
    let description = ApprovalDescription::from(&with_true_text(hub, &row).await?);
    hub.client.decide(&row.run_id, &row.request_id, decision).await?;
    if json {
        return output::json_line(
            &json!({ "ok": true, "approval_id": row.request_id, "run_id": row.run_id }),
        );
    }
    let word = if decision == ApprovalDecision::Deny { "denied" } else { "approved" };
    output::line(format_args!("{word}: {}", output::name(&description.summary)))
}

/// Prompts for each request as it arrives, until Ctrl-C.
async fn watch(hub: &SelectedHub) -> Result<(), Failure> {
    let host = hub.host_id().await?;
    let mut connection = HubConnection::open(hub.client.clone()).await?;
    let mut prompted = HashSet::new();
    let mut needs_list = true;
    output::note("waiting for approval requests; press Ctrl-C to stop");
    loop {
        if needs_list {
            connection.ignore_output().await?;
            for row in hub.client.approvals(host.as_deref()).await? {
                prompt(hub, row, &mut prompted).await?;
            }
            needs_list = false;
        }
        let message = match connection.next().await? {
            HubEvent::Message(message) => message,
            HubEvent::Resync => {
                needs_list = true;
                continue;
            }
        };
        if host.as_ref().is_some_and(|host| message.host_id.as_ref() != Some(host)) {
            continue;
        }
        match message.kind.as_str() {
            kind::RUN_PERMISSION_REQUESTED => {
                if let Some(row) = requested(&message) {
                    prompt(hub, row, &mut prompted).await?;
                }
            }
            kind::RUN_PERMISSION_DECIDED => note_decision(&message, &mut prompted),
            _ => {}
        }
    }
}

/// The request of an event.
fn requested(message: &Envelope) -> Option<ApprovalRow> {
    let request: PermissionRequested = message.decode().ok()?;
    Some(ApprovalRow {
        run_id: message.run_id.clone()?,
        host_id: message.host_id.clone().unwrap_or_default(),
        request_id: request.request_id.clone(),
        expires_at: request.expires_at.clone(),
        request: message.decode().ok(),
        ..ApprovalRow::default()
    })
}

async fn prompt(
    hub: &SelectedHub,
    row: ApprovalRow,
    prompted: &mut HashSet<(String, String)>,
) -> Result<(), Failure> {
    if !prompted.insert((row.run_id.clone(), row.request_id.clone())) {
        return Ok(());
    }
    let shown = with_true_text(hub, &row).await?;
    let decision = match approval_prompt::ask(&ApprovalDescription::from(&shown)).await {
        None => return Ok(()),
        Some((false, _)) => ApprovalDecision::Deny,
        Some((true, None)) => ApprovalDecision::Approve,
        Some((true, Some(_session))) => ApprovalDecision::ApproveForSession,
    };
    // Another approver may have been faster; the next request is still shown.
    if let Err(error) = hub.client.decide(&row.run_id, &row.request_id, decision).await {
        output::note(Failure::from(error));
    }
    Ok(())
}

fn note_decision(message: &Envelope, prompted: &mut HashSet<(String, String)>) {
    let Ok(decided) = message.decode::<PermissionDecided>() else { return };
    let by = decided.user.as_deref().or(decided.actor.as_deref()).unwrap_or("timeout");
    output::note(format_args!("{}: {} by {by}", decided.request_id, decided.decision));
    prompted.remove(&(message.run_id.clone().unwrap_or_default(), decided.request_id));
}
