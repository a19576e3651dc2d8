//! Starts a detached process in one session, then finds it and reads its output from the beginning in another.
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use client::{Command, ProcessEventKind, Session, SessionOptions, Target};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let target: Target = std::env::args().nth(1).as_deref().unwrap_or("local").parse()?;
    let id = {
        let session = Session::open(target.clone(), SessionOptions::default()).await?;
        let process = session.start(Command::line("echo one; sleep 1; echo two").detach()).await?;
        session.close().await?;
        process.id().to_owned()
    };
    let session = Session::open(target, SessionOptions::default()).await?;
    let is_listed = session.processes().await?.iter().any(|process| process.process_id == id);
    println!("listed: {is_listed}");
    let mut process = session.attach(&id, 0).await?;
    while let Some(event) = process.next().await? {
        match event.kind {
            ProcessEventKind::Stdout(bytes) => print!("{}", String::from_utf8_lossy(&bytes)),
            ProcessEventKind::Exit(exit) => println!("ended with {}", exit.status()),
            _ => {}
        }
    }
    session.close().await?;
    Ok(())
}
