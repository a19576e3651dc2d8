//! Subscribes to approval requests and approves one: here for a command that a rule asks about.
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use client::{ApprovalEvent, Command, Session, SessionOptions, Target};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let target: Target = std::env::args().nth(1).as_deref().unwrap_or("local").parse()?;
    let options = SessionOptions { approvals: true, ..SessionOptions::default() };
    let session = Session::open(target, options).await?;
    let mut approvals = session.subscribe_approvals().await?;
    let decider = session.clone();
    let deciding = tokio::spawn(async move {
        while let Some(event) = approvals.next().await {
            match event {
                ApprovalEvent::Requested(request) => {
                    println!("asked: {}", request.summary);
                    decider.decide(&request.approval_id, true, None).await?;
                }
                ApprovalEvent::Decided(decided) => {
                    println!("decided: {}", decided.decision);
                    break;
                }
            }
        }
        Ok::<(), client::Error>(())
    });
    // The start returns when the command runs, which is after the approval.
    let exit = session.start(Command::argv(["rm", "-f", "nothing"])).await?.wait().await?;
    println!("ended with {}", exit.status());
    deciding.await??;
    session.close().await?;
    Ok(())
}
