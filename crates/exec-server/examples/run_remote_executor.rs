//! An executor of one's own, registered at a hub.
//!
//! `cargo run --example run_remote_executor -- http://HUB EXECUTOR-ID TOKEN`

use exec_server::{ExecServerRuntimePaths, RemoteExecutorConfig, run_remote_executor};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(url), Some(id), Some(token)) = (arguments.next(), arguments.next(), arguments.next()) else {
        return Err("name the registry, the executor's id and its token".into());
    };
    let config = RemoteExecutorConfig::with_bearer_token(&url, &id, &token)?;
    run_remote_executor(config, ExecServerRuntimePaths::default()).await?;
    Ok(())
}
