//! Runs a command on a server that listens, and shows what it writes.
//!
//! `cargo run --example connect_websocket -- ws://127.0.0.1:7000 uname -a`
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::io::Write as _;

use exec_server::{ExecParams, ExecServerClient, ExecServerEvent, RemoteExecServerConnectArgs};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let url = arguments.next().ok_or("name the URL that the server printed")?;
    let args = RemoteExecServerConnectArgs::new(url, "example");
    let client = ExecServerClient::connect_websocket(args).await?;
    let params = ExecParams {
        process_id: "command".to_owned(),
        argv: arguments.collect(),
        cwd: "file:///".to_owned(),
        env: std::env::vars().filter(|(name, _)| name == "PATH").collect(),
        ..ExecParams::default()
    };
    let mut process = client.start(params).await?;
    while let Some(event) = process.next().await? {
        match event {
            ExecServerEvent::Output { bytes, .. } => std::io::stdout().write_all(&bytes)?,
            ExecServerEvent::Exited { exit_code, .. } => println!("ended with {exit_code}"),
            _ => {}
        }
    }
    client.close().await?;
    Ok(())
}
