//! Connects to a server over streams that already exist: here those of a child.
//!
//! `cargo run --example connect_stdio -- rexd exec-server --listen stdio`
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::process::{Command, Stdio};

use exec_server::{ExecServerClient, ExecServerClientConnectOptions};
use tokio::net::unix::pipe;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let program = arguments.next().ok_or("name a program that speaks exec-server on its standard streams")?;
    let mut child =
        Command::new(program).args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
        return Err("no streams".into());
    };
    let stdin = pipe::Sender::from_owned_fd(stdin.into())?;
    let stdout = pipe::Receiver::from_owned_fd(stdout.into())?;
    let options = ExecServerClientConnectOptions::default();
    let client = ExecServerClient::connect_stdio(stdin, stdout, options).await?;
    println!("{}", client.environment_info().await?.shell.path);
    // It ends when its input does.
    client.close().await?;
    child.wait()?;
    Ok(())
}
