//! Runs a command on a target and prints its output and exit status.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "an example shows what it does")]

use client::{Command, Error, ProcessEventKind, Session, SessionOptions, Target};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let target: Target = std::env::args().nth(1).as_deref().unwrap_or("local").parse()?;
    let session = Session::open(target, SessionOptions::default()).await?;
    let status = run(&session, Command::line("echo out; echo err >&2; exit 3")).await?;
    println!("ended with {status}");
    session.close().await?;
    Ok(())
}

/// Runs a command to its exit; returns its status as a shell reports it.
async fn run(session: &Session, command: Command) -> Result<i32, Error> {
    let mut process = session.start(command).await?;
    while let Some(event) = process.next().await? {
        match event.kind {
            ProcessEventKind::Stdout(bytes) | ProcessEventKind::Terminal(bytes) => {
                print!("{}", String::from_utf8_lossy(&bytes))
            }
            ProcessEventKind::Stderr(bytes) => eprint!("{}", String::from_utf8_lossy(&bytes)),
            ProcessEventKind::Lost(lost) => eprintln!("{lost}"),
            ProcessEventKind::Error(error) => eprintln!("{error}"),
            ProcessEventKind::Exit(exit) => return Ok(exit.status()),
        }
    }
    Err(Error::MissingExit { process_id: process.id().to_owned() })
}
