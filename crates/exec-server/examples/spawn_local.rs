//! Starts a server as a child and lists a directory through it.
//!
//! `cargo run --example spawn_local -- rexd /tmp`
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use exec_server::{
    ExecServerClientConnectOptions, ExecServerLaunchCommand, FsReadDirectoryParams, spawn_local_exec_server,
};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(program), Some(path)) = (arguments.next(), arguments.next()) else {
        return Err("name a program and a directory".into());
    };
    let command = ExecServerLaunchCommand::exec_server(program);
    let server = spawn_local_exec_server(command, ExecServerClientConnectOptions::default()).await?;
    let params = FsReadDirectoryParams { path: format!("file://{path}"), sandbox: None };
    for entry in server.client().fs_read_directory(params).await?.entries {
        println!("{}", entry.file_name);
    }
    server.shut_down().await?;
    Ok(())
}
