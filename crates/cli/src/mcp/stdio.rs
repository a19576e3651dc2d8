//! MCP on stdin and stdout, for one client, until its end of the pipe closes.

use client::stdio;
use rmcp::ServiceExt as _;
use rmcp::service::ServerInitializeError;
use rmcp::transport::async_rw::AsyncRwTransport;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::server::McpServer;
use crate::failure::Failure;
use crate::output;
use crate::tools::ToolboxOptions;

/// The longest message that is taken: a file to write comes in one.
const LONGEST_MESSAGE: usize = 64 * 1024 * 1024;

/// Serves until stdin ends or a signal comes; everything that was started has ended then. Calls that are under way when
/// stdin ends have a few seconds to be answered.
pub async fn serve(options: ToolboxOptions) -> Result<(), Failure> {
    let stop = CancellationToken::new();
    stop_on_signals(&stop)?;
    let server = McpServer::new(options, stop.child_token());
    let toolbox = server.toolbox_slot();
    let input = stdio::input(rustix::stdio::stdin())?;
    let output = stdio::output(rustix::stdio::stdout())?;
    let transport = AsyncRwTransport::new_server(input, output).with_max_line_length(LONGEST_MESSAGE);
    match server.serve_with_ct(transport, stop).await {
        // How it came to an end is nothing anybody waits for.
        Ok(running) => drop(running.waiting().await),
        // A client that leaves before it has said hello leaves nothing behind.
        Err(ServerInitializeError::ConnectionClosed(_) | ServerInitializeError::Cancelled) => {}
        Err(error) => output::note(format_args!("the client did not begin as MCP says: {error}")),
    }
    if let Some(toolbox) = toolbox.get() {
        toolbox.close().await;
    }
    Ok(())
}

/// Ends with a signal as with the end of stdin, but at once.
pub(super) fn stop_on_signals(stop: &CancellationToken) -> Result<(), Failure> {
    for kind in [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()] {
        let (mut signals, stop) = (signal(kind)?, stop.clone());
        tokio::spawn(async move {
            signals.recv().await;
            stop.cancel();
        });
    }
    Ok(())
}
