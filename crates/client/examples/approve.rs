//! Hearing what waits for a decision, and deciding it: here for a command of our own that a rule asks about.
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
                ApprovalEvent::Requested(asked) => {
                    println!("asked: {}", asked.summary);
                    decider.decide(&asked.approval_id, true, None).await?;
                }
                ApprovalEvent::Decided(decided) => {
                    println!("decided: {}", decided.decision);
                    break;
                }
            }
        }
        Ok::<(), client::Error>(())
    });
    // It is answered when it runs, so after somebody has decided.
    let exit = session.start(Command::argv(["rm", "-f", "nothing"])).await?.wait().await?;
    println!("ended with {}", exit.status());
    deciding.await??;
    session.close().await?;
    Ok(())
}
