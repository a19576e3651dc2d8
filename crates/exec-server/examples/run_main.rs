//! A server of one's own, on a port that it prints.
//!
//! `cargo run --example run_main`

use exec_server::{DEFAULT_LISTEN_URL, ExecServerRuntimePaths, run_main};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    run_main(DEFAULT_LISTEN_URL, ExecServerRuntimePaths::default()).await?;
    Ok(())
}
