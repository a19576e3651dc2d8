//! The messages that handles of a session send to its task, and where the events of processes go.

use bytes::{Buf as _, Bytes};
use tokio::sync::oneshot;

use crate::approvals::ApprovalEvent;
use crate::connection::ReplayPolicy;
use crate::error::Error;
use crate::files::WatchEvent;
use crate::process::{EventResult, OutputLoss, ProcessEvent, ProcessEventKind};
use crate::queue;

/// A message to the session's task.
#[derive(Debug)]
pub(crate) enum ClientMessage {
    /// Send a request to the server.
    Request(ClientRequest),
    /// Cancel the request with this id: its caller was dropped.
    Cancel(u64),
    /// Send approval events to this queue.
    SubscribeApprovals(queue::Sender<ApprovalEvent>),
}

/// A request and the sender for its response.
#[derive(Debug)]
pub(crate) struct ClientRequest {
    pub(crate) id: u64,
    pub(crate) method: &'static str,
    /// The encoded request.
    pub(crate) message: Bytes,
    pub(crate) replay: ReplayPolicy,
    pub(crate) route: NewRoute,
    /// Receives the result.
    pub(crate) response: oneshot::Sender<Result<Received, Error>>,
    /// The number of times it was sent.
    pub(crate) sent: u32,
}

/// JSON text from the server, and the payload of the [binary message](wire::binary) that contained it.
#[derive(Debug)]
pub(crate) struct Received {
    pub(crate) text: Bytes,
    pub(crate) payload: Option<Bytes>,
}

impl ClientRequest {
    /// Fails the request, and the events of the process that it was to continue.
    pub(crate) fn fail(self, error: &Error) {
        if let NewRoute::Process(route) | NewRoute::Reattached { route, .. } = self.route {
            route.fail(error);
        }
        // The caller may have been dropped.
        self.response.send(Err(error.clone())).ok();
    }
}

/// The route that a successful response creates, before the next message is read.
#[derive(Debug)]
pub(crate) enum NewRoute {
    None,
    Process(ProcessRoute),
    /// The process of a route of the lost session: its reader does not see the response, so the route reports what was
    /// dropped.
    Reattached {
        process_id: String,
        route: ProcessRoute,
    },
    Watch(queue::Sender<WatchEvent>),
}

/// Where the events of a process go.
#[derive(Debug)]
pub(crate) struct ProcessRoute {
    pub(crate) events: queue::Sender<EventResult>,
    /// The end of the output that was delivered.
    pub(crate) cursor: u64,
    /// Whether the process outlives the session, so that another session can attach to it.
    pub(crate) is_detached: bool,
    /// Bytes of output that were dropped because the queue is over its limit.
    pub(crate) skipped: u64,
}

impl ProcessRoute {
    /// Delivers an event; output that was delivered before is left out.
    pub(crate) fn push(&mut self, mut event: ProcessEvent) {
        if let Some(bytes) = event.kind.bytes_mut() {
            let length = bytes.len() as u64;
            let end = event.cursor.unwrap_or(self.cursor + length);
            let delivered = self.cursor.saturating_sub(end.saturating_sub(length)).min(length);
            if delivered > 0 && delivered == length {
                return;
            }
            // At most the length of the chunk, which is a usize.
            bytes.advance(usize::try_from(delivered).unwrap_or(0));
            self.cursor = end;
            if self.events.is_over_limit() {
                self.skipped += bytes.len() as u64;
                return;
            }
        }
        let skipped = std::mem::take(&mut self.skipped);
        self.report_loss(skipped);
        let bytes = event.kind.size() + event.line.as_ref().map_or(0, Bytes::len);
        self.events.push(Ok(event), bytes);
    }

    /// Reports so many lost bytes of output, if any.
    pub(crate) fn report_loss(&mut self, bytes: u64) {
        if bytes > 0 {
            let lost = OutputLoss::Bytes { stream: "output".to_owned(), bytes };
            let event = ProcessEvent { kind: ProcessEventKind::Lost(lost), cursor: None, line: None };
            self.events.push(Ok(event), 0);
        }
    }

    /// Ends the events with an error.
    pub(crate) fn fail(self, error: &Error) {
        self.events.push(Err(error.clone()), 0);
    }
}
