//! Input to a running command, and a kill that says who died.
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use client::{Command, ProcessEventKind, Session, SessionOptions, Target};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let target: Target = std::env::args().nth(1).as_deref().unwrap_or("local").parse()?;
    let session = Session::open(target, SessionOptions::default()).await?;
    let mut process =
        session.start(Command::line("read word; echo heard $word; sleep 1000 & exec sleep 1000")).await?;
    let control = process.control();
    control.input(b"hello\n").await?;
    // Output comes in pieces of any size: a line is whole when its end is there.
    let mut heard = Vec::new();
    while !heard.ends_with(b"\n") {
        match process.next().await?.map(|event| event.kind) {
            Some(ProcessEventKind::Stdout(bytes)) => heard.extend_from_slice(&bytes),
            Some(_) => {}
            None => break,
        }
    }
    print!("{}", String::from_utf8_lossy(&heard));
    let ended = control.kill(None).await?;
    for dead in &ended.killed {
        println!("ended {}", dead.name);
    }
    println!("left {}", ended.left.len());
    session.close().await?;
    Ok(())
}
