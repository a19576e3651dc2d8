//! What handles of a session write to its task.

use bytes::{Buf as _, Bytes};
use tokio::sync::oneshot;

use crate::approvals::ApprovalEvent;
use crate::error::Error;
use crate::files::WatchEvent;
use crate::process::{Heard, OutputLoss, ProcessEvent, ProcessEventKind};
use crate::queue;

/// A letter to the session's task.
#[derive(Debug)]
pub(crate) enum Letter {
    /// Something is asked of the server.
    Call(Call),
    /// Whoever asked has gone.
    Withdraw(u64),
    /// Somebody wants to hear what waits for a decision.
    Attend(queue::Sender<ApprovalEvent>),
}

/// How a session is to end; answered when it has, or when that was said.
#[derive(Debug)]
pub(crate) struct Farewell {
    pub(crate) done: oneshot::Sender<()>,
    /// Whether to wait until what it started has ended.
    pub(crate) waits: bool,
}

/// Something that is asked of the server.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) id: u64,
    pub(crate) method: &'static str,
    /// The whole request.
    pub(crate) message: Bytes,
    pub(crate) again: Again,
    pub(crate) opens: Opens,
    /// Gets the text of the result.
    pub(crate) answer: oneshot::Sender<Result<Bytes, Error>>,
    /// How often it was sent.
    pub(crate) sent: u32,
}

/// Whether asking twice does it once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Again {
    /// It only looks, or the server knows it by its key.
    Safe,
    /// A second time would do it a second time.
    Never,
}

/// What an answer brings into being. It has to be known before the next message is read.
#[derive(Debug)]
pub(crate) enum Opens {
    Nothing,
    /// A process whose events go there.
    Process(ProcessRoute),
    /// A watch whose events go there.
    Watch(queue::Sender<WatchEvent>),
}

/// Where the events of a process go.
#[derive(Debug)]
pub(crate) struct ProcessRoute {
    pub(crate) events: queue::Sender<Heard>,
    /// The end of what has been handed on.
    pub(crate) cursor: u64,
    /// Whether it outlives the session, so that another can follow it.
    pub(crate) is_detached: bool,
    /// Output that its reader will not see, as it is too far behind.
    pub(crate) skipped: u64,
}

impl ProcessRoute {
    /// Hands on a piece of output or what happened, once: what was handed on before is left out.
    pub(crate) fn push(&mut self, mut event: ProcessEvent) {
        if let Some(bytes) = event.kind.bytes_mut() {
            let length = bytes.len() as u64;
            let end = event.cursor.unwrap_or(self.cursor + length);
            let known = self.cursor.saturating_sub(end.saturating_sub(length)).min(length);
            if known > 0 && known == length {
                return;
            }
            // What is known is at most the piece's length, which is a usize.
            bytes.advance(usize::try_from(known).unwrap_or(0));
            self.cursor = end;
            if self.events.is_flooded() {
                self.skipped += bytes.len() as u64;
                return;
            }
        }
        if self.skipped > 0 {
            let lost =
                OutputLoss::Bytes { stream: "output".to_owned(), bytes: std::mem::take(&mut self.skipped) };
            self.events
                .push(Ok(ProcessEvent { kind: ProcessEventKind::Lost(lost), cursor: None, line: None }), 0);
        }
        let weight = event.kind.weight() + event.line.as_ref().map_or(0, Bytes::len);
        self.events.push(Ok(event), weight);
    }

    /// There will be nothing more, for this reason.
    pub(crate) fn lose(self, error: &Error) {
        self.events.push(Err(error.clone()), 0);
    }
}
