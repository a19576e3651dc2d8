//! Writes to a running command, then ends it and prints the processes that ended.
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use client::{Command, ProcessEventKind, Session, SessionOptions, Target};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let target: Target = std::env::args().nth(1).as_deref().unwrap_or("local").parse()?;
    let session = Session::open(target, SessionOptions::default()).await?;
    let mut process =
        session.start(Command::line("read word; sleep 1000 & echo heard $word; exec sleep 1000")).await?;
    let control = process.control();
    control.input(b"hello\n").await?;
    // Output arrives in chunks of any size; a line is complete with its newline.
    let mut output = Vec::new();
    while !output.ends_with(b"\n") {
        match process.next().await?.map(|event| event.kind) {
            Some(ProcessEventKind::Stdout(bytes)) => output.extend_from_slice(&bytes),
            Some(_) => {}
            None => break,
        }
    }
    print!("{}", String::from_utf8_lossy(&output));
    let result = control.kill(None).await?;
    for process in &result.killed {
        println!("ended {}", process.name);
    }
    println!("left {}", result.left.len());
    session.close().await?;
    Ok(())
}
