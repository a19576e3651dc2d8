//! Serves the process that starts it, on standard input and output.
//!
//! `cargo run --example spawn_local -- run_main_with_transport /tmp`

use exec_server::{ExecServerRuntimePaths, ExecServerTransport, run_main_with_transport};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    run_main_with_transport(ExecServerTransport::Stdio, ExecServerRuntimePaths::default()).await?;
    Ok(())
}
