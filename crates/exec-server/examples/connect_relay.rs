//! Reads a file on an executor that registered at a hub.
//!
//! `cargo run --example connect_relay -- ws://HUB/cloud/executor/ID/rendezvous TOKEN /etc/hostname`
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use exec_server::{ExecServerClient, FsReadFileParams, RemoteExecServerConnectArgs};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(url), Some(token), Some(path)) = (arguments.next(), arguments.next(), arguments.next()) else {
        return Err("name the rendezvous, a harness's token and a file".into());
    };
    let args = RemoteExecServerConnectArgs {
        bearer_token: Some(token),
        ..RemoteExecServerConnectArgs::new(url, "example")
    };
    let client = ExecServerClient::connect_relay(args).await?;
    let params = FsReadFileParams { path: format!("file://{path}"), ..FsReadFileParams::default() };
    println!("{}", client.fs_read_file(params).await?.data_base64);
    client.close().await?;
    Ok(())
}
