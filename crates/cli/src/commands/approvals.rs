//! `rex approvals`: lists, watches and answers approval requests.

mod hub;

use client::v1::Approval;
use client::{ApprovalEvent, Session, SessionOptions, Target};

use crate::app::App;
use crate::approval_description::ApprovalDescription;
use crate::approval_prompt;
use crate::args::ApprovalsCommand;
use crate::failure::{CommandStatus, Failure};
use crate::hub::selection::SelectedHub;
use crate::output;
use crate::table::TextTable;

/// Runs a subcommand of `rex approvals`.
pub(super) async fn run(app: &App, args: ApprovalsCommand) -> Result<CommandStatus, Failure> {
    if let Target::Hub(target) = &app.choice.target {
        return hub::run(&SelectedHub::of(target)?, app.json, args).await;
    }
    let options = SessionOptions { approvals: true, ..app.options() };
    let session = Session::open(app.choice.target.clone(), options).await?;
    match args {
        ApprovalsCommand::List => list(app, &session).await?,
        ApprovalsCommand::Approve { id, scope } => {
            let pending = find(&session, &id).await?;
            session.decide(&pending.approval_id, true, scope.as_deref()).await?;
            print_decision(app, "approved", &pending)?;
        }
        ApprovalsCommand::Deny { id } => {
            let pending = find(&session, &id).await?;
            session.decide(&pending.approval_id, false, None).await?;
            print_decision(app, "denied", &pending)?;
        }
        ApprovalsCommand::Watch => watch(&session).await?,
    }
    session.close().await.ok();
    Ok(CommandStatus::OK)
}

async fn list(app: &App, session: &Session) -> Result<(), Failure> {
    let pending = session.pending_approvals().await?;
    if app.json {
        return output::json_line(&pending);
    }
    if pending.approvals.is_empty() {
        output::note("no pending approvals");
        return Ok(());
    }
    let mut table = TextTable::new(&["ID", "RISK", "REQUESTER", "EXPIRES", "OPERATION"]);
    for one in &pending.approvals {
        let expires = one.expires_at.as_deref().and_then(|time| time.get(11..19)).unwrap_or_default();
        let requester = one.asked_by.as_ref().map(|by| by.client_name.clone()).unwrap_or_default();
        let risk = one.risk.clone().unwrap_or_default();
        table.row(&[one.approval_id.clone(), risk, requester, expires.to_owned(), one.summary.clone()]);
    }
    table.print()
}

async fn find(session: &Session, id: &str) -> Result<Approval, Failure> {
    let pending = session.pending_approvals().await?.approvals;
    let mut meant: Vec<Approval> =
        pending.into_iter().filter(|one| !id.is_empty() && one.approval_id.starts_with(id)).collect();
    match (meant.pop(), meant.is_empty()) {
        (Some(one), true) => Ok(one),
        (None, _) => Err(Failure::new(format!("no pending approval {id}"))
            .hint("`rex approvals list` shows the pending ones; this one may be answered or expired")),
        (Some(_), false) => Err(Failure::new(format!("ambiguous approval id {id}: several start with it"))
            .hint("use more characters of the id")),
    }
}

fn print_decision(app: &App, decision: &str, pending: &Approval) -> Result<(), Failure> {
    match app.json {
        true => output::json_line(&serde_json::json!({ "ok": true, "approval_id": pending.approval_id })),
        false => output::line(format_args!("{decision}: {}", output::name(&pending.summary))),
    }
}

/// Prompts for each request as it arrives, until Ctrl-C.
async fn watch(session: &Session) -> Result<(), Failure> {
    let mut approvals = session.subscribe_approvals().await?;
    for pending in session.pending_approvals().await?.approvals {
        approval_prompt::prompt(session, &ApprovalDescription::from(pending)).await;
    }
    output::note("waiting for approval requests; press Ctrl-C to stop");
    while let Some(event) = approvals.next().await {
        match event {
            ApprovalEvent::Requested(request) => {
                approval_prompt::prompt(session, &ApprovalDescription::from(*request)).await
            }
            ApprovalEvent::Decided(decided) => {
                let by = decided.by.as_deref().unwrap_or("timeout");
                output::note(format_args!("{}: {} by {}", decided.approval_id, decided.decision, by));
            }
        }
    }
    Ok(())
}
