//! Progress notifications of a tool call, if the client requested them.

use std::time::Duration;

use rmcp::model::ProgressNotificationParam;
use rmcp::service::{RequestContext, RoleServer};
use tokio::time::{Instant, Interval, interval_at};

/// The interval of progress notifications.
const PROGRESS_EVERY: Duration = Duration::from_secs(2);

/// Sends progress notifications if the client requested them.
pub(super) struct Progress<'a> {
    context: &'a RequestContext<RoleServer>,
    ticks: Option<Interval>,
    started: Instant,
}

impl Progress<'_> {
    /// The notifications of one request.
    pub(super) fn of(context: &RequestContext<RoleServer>) -> Progress<'_> {
        let started = Instant::now();
        let wants = context.meta.get_progress_token().is_some();
        let ticks = wants.then(|| interval_at(started + PROGRESS_EVERY, PROGRESS_EVERY));
        Progress { context, ticks, started }
    }

    /// Waits until the next notification is due.
    pub(super) async fn due(&mut self) {
        match &mut self.ticks {
            Some(ticks) => drop(ticks.tick().await),
            None => std::future::pending().await,
        }
    }

    /// Sends a line, or for how long the call has been running.
    pub(super) async fn notify(&self, line: Option<String>) {
        let Some(token) = self.context.meta.get_progress_token() else { return };
        let seconds = self.started.elapsed().as_secs_f64();
        let message = line.unwrap_or_else(|| format!("running for {seconds:.0} s"));
        let told = ProgressNotificationParam::new(token, seconds).with_message(message);
        // The client may have disconnected.
        self.context.peer.notify_progress(told).await.ok();
    }
}
