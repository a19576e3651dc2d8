//! `rex approvals`: what waits for a decision, and deciding it.

use client::v1::Approval;
use client::{ApprovalEvent, Session, SessionOptions};

use crate::app::App;
use crate::args::ApprovalsAsk;
use crate::asking;
use crate::failure::{Failure, Status};
use crate::output;
use crate::table::{Table, plain};

/// Lists, decides, or watches and asks.
pub(super) async fn run(app: &App, ask: ApprovalsAsk) -> Result<Status, Failure> {
    let options = SessionOptions { approvals: true, ..app.options() };
    let session = Session::open(app.choice.target.clone(), options).await?;
    match ask {
        ApprovalsAsk::List => list(app, &session).await?,
        ApprovalsAsk::Approve { id, scope } => {
            let waiting = find(&session, &id).await?;
            session.decide(&waiting.approval_id, true, scope.as_deref()).await?;
            told(app, "approved", &waiting)?;
        }
        ApprovalsAsk::Deny { id } => {
            let waiting = find(&session, &id).await?;
            session.decide(&waiting.approval_id, false, None).await?;
            told(app, "denied", &waiting)?;
        }
        ApprovalsAsk::Watch => watch(&session).await?,
    }
    session.close().await.ok();
    Ok(Status::OK)
}

async fn list(app: &App, session: &Session) -> Result<(), Failure> {
    let waiting = session.pending_approvals().await?;
    if app.json {
        return output::json_line(&waiting);
    }
    if waiting.approvals.is_empty() {
        output::remark("nothing waits for a decision");
        return Ok(());
    }
    let mut table = Table::new(&["ID", "RISK", "WHO", "UNTIL", "WHAT"]);
    for one in &waiting.approvals {
        let until = one.expires_at.as_deref().and_then(|time| time.get(11..19)).unwrap_or_default();
        let who = one.asked_by.as_ref().map(|by| by.client_name.clone()).unwrap_or_default();
        let risk = one.risk.clone().unwrap_or_default();
        table.row(&[one.approval_id.clone(), risk, who, until.to_owned(), one.summary.clone()]);
    }
    table.print()
}

async fn find(session: &Session, id: &str) -> Result<Approval, Failure> {
    let waiting = session.pending_approvals().await?.approvals;
    let mut meant: Vec<Approval> =
        waiting.into_iter().filter(|one| !id.is_empty() && one.approval_id.starts_with(id)).collect();
    match (meant.pop(), meant.is_empty()) {
        (Some(one), true) => Ok(one),
        (None, _) => Err(Failure::new(format!("nothing that waits is called {id}"))
            .hint("`rex approvals list` shows what waits; it may have been decided or have expired")),
        (Some(_), false) => {
            Err(Failure::new(format!("more than one begins with {id}")).hint("give more of the id"))
        }
    }
}

fn told(app: &App, decision: &str, waiting: &Approval) -> Result<(), Failure> {
    match app.json {
        true => output::json_line(&serde_json::json!({ "ok": true, "approval_id": waiting.approval_id })),
        false => output::line(format_args!("{decision}: {}", plain(&waiting.summary))),
    }
}

/// Shows what comes and asks at the terminal, until Ctrl-C.
async fn watch(session: &Session) -> Result<(), Failure> {
    let mut approvals = session.subscribe_approvals().await?;
    for waiting in session.pending_approvals().await?.approvals {
        asking::ask(session, &asking::Question::from(waiting)).await;
    }
    output::remark("waiting for questions; Ctrl-C ends this");
    while let Some(event) = approvals.next().await {
        match event {
            ApprovalEvent::Requested(request) => {
                asking::ask(session, &asking::Question::from(*request)).await
            }
            ApprovalEvent::Decided(decided) => {
                let by = decided.by.as_deref().unwrap_or("nobody");
                output::remark(format_args!(
                    "{}: {} by {}",
                    decided.approval_id,
                    decided.decision,
                    plain(by)
                ));
            }
        }
    }
    Ok(())
}
