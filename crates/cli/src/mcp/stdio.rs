//! MCP on stdin and stdout, for one client, until it closes stdin.

use std::sync::Arc;

use client::stdio;
use rmcp::ServiceExt as _;
use rmcp::service::ServerInitializeError;
use rmcp::transport::async_rw::AsyncRwTransport;
use tokio::signal::unix::SignalKind;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::caller::McpCaller;
use super::server::McpServer;
use crate::failure::Failure;
use crate::interrupt;
use crate::output;
use crate::tools::ToolboxOptions;

/// The maximum size of a message; a written file is one message.
const MAX_MESSAGE_BYTES: usize = 64 * 1024 * 1024;

/// Serves until stdin is closed or a signal arrives, then ends all started processes. After stdin is closed, running
/// calls have a few seconds to finish.
pub async fn serve(options: ToolboxOptions) -> Result<(), Failure> {
    let stop = CancellationToken::new();
    let _signal_tasks = stop_on_signals(&stop)?;
    let caller = Arc::new(McpCaller::new(options, None));
    let server = McpServer::on_connection(caller.clone(), stop.child_token());
    let input = stdio::input(rustix::stdio::stdin())?;
    let output = stdio::output(rustix::stdio::stdout())?;
    let transport = AsyncRwTransport::new_server(input, output).with_max_line_length(MAX_MESSAGE_BYTES);
    match server.serve_with_ct(transport, stop).await {
        // The reason for the end does not matter.
        Ok(running) => drop(running.waiting().await),
        // A client that disconnects before initialization started nothing.
        Err(ServerInitializeError::ConnectionClosed(_) | ServerInitializeError::Cancelled) => {}
        Err(error) => output::note(format_args!("MCP initialization failed: {error}")),
    }
    caller.close().await;
    Ok(())
}

/// Cancels `stop` on SIGINT, SIGTERM and SIGHUP, as long as the returned tasks are held.
pub(super) fn stop_on_signals(stop: &CancellationToken) -> Result<JoinSet<()>, Failure> {
    let signals = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
    interrupt::cancel_on_signals(&signals, stop)
}
