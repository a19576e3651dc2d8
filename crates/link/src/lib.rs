//! Message transport: stdio, byte streams, WebSockets, memory, listeners, and the JSON-RPC peer.
//!
//! A [`Link`] is one connection as a pair of message channels, independent of its transport. A message is JSON text without
//! its newline. Faces do not access sockets: they receive from [`Receiver`] (or from [`rpc::Requests`], which parses) and
//! send through [`Outgoing`].
//!
//! | carrier | made by |
//! |---|---|
//! | stdin and stdout | [`stdio::open`] |
//! | a child's stdin and stdout, so also ssh's | [`child::spawn`] |
//! | any pair of byte streams | [`ndjson::link`] |
//! | a WebSocket, after its handshake | [`websocket::link`], [`websocket::binary`] |
//! | a WebSocket to a URL | [`dial::websocket`] |
//! | a carrier of single requests | [`posted`] |
//! | one of many streams over one link | [`mux`] |
//! | a test in the same process | [`memory::pair`] |
//!
//! [`listen`] is the server side: accepting, limits, TLS, HTTP and upgrades. [`task::OwnedTask`] is a spawned task with an
//! owner.

mod budget;
pub mod child;
pub mod dial;
mod intake;
mod lanes;
pub mod listen;
pub mod memory;
pub mod mux;
pub mod ndjson;
pub mod packing;
mod posted;
mod queue;
mod reader;
pub mod rpc;
pub mod stdio;
pub mod task;
mod tcp;
pub mod websocket;
mod writer;

use std::fmt;
use std::pin::Pin;

use bytes::Bytes;
use futures_util::{Stream, StreamExt};

pub use budget::{Allowance, BudgetExhausted, ByteBudget, FREE_BYTES};
pub use lanes::{Closed, Outgoing, TryRespondError};
pub use posted::{Answers, posted};
use task::OwnedTask;

/// One connection as a pair of message channels.
#[derive(Debug)]
pub struct Link {
    /// Messages of the peer.
    pub incoming: Receiver,
    /// Messages to the peer.
    pub outgoing: Outgoing,
    /// The task that writes; ends when every [`Outgoing`] is dropped and all is written, or when the connection fails.
    pub writing: Writing,
}

/// An item received on a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Incoming {
    /// A whole message.
    Message(Bytes),
    /// A message over the limit. It was skipped without being stored; the next one arrives as usual.
    TooLong {
        /// The length of the message.
        bytes: u64,
    },
}

/// The limits of a link.
#[derive(Debug, Clone)]
pub struct Limits {
    /// The length of a received message; a longer one is skipped and reported.
    pub line_bytes: usize,
    /// Queued responses; beyond it, senders wait, and so does reading.
    pub control_slots: usize,
    /// The bytes of queued responses; a larger one is queued alone.
    pub control_bytes: usize,
    /// Queued events; beyond it, senders wait. Few, so that a response overtakes almost all output.
    pub event_slots: usize,
    /// The bytes of received messages, together with other links.
    pub budget: ByteBudget,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            line_bytes: wire::limits::MAX_LINE_BYTES,
            control_slots: 1_024,
            control_bytes: 16 * 1024 * 1024,
            event_slots: 4,
            budget: ByteBudget::default(),
        }
    }
}

/// The messages of a link in the order they arrive. Ends when the peer closes its side.
pub struct Receiver {
    source: Pin<Box<dyn Stream<Item = Incoming> + Send>>,
}

impl Receiver {
    /// Receives from any stream.
    pub fn new(source: impl Stream<Item = Incoming> + Send + 'static) -> Receiver {
        Receiver { source: Box::pin(source) }
    }

    /// The next message; `None` at the end. Nothing is lost if this future is dropped.
    pub async fn recv(&mut self) -> Option<Incoming> {
        self.source.next().await
    }
}

impl fmt::Debug for Receiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Receiver")
    }
}

/// The task that writes to the peer. It ends when every [`Outgoing`] is dropped and all messages are written, or when
/// the connection fails; dropping this handle does not stop it, so that queued messages are still written.
#[derive(Debug)]
pub struct Writing {
    task: Option<OwnedTask<std::io::Result<()>>>,
}

impl Writing {
    pub(crate) fn spawn(task: impl Future<Output = std::io::Result<()>> + Send + 'static) -> Writing {
        Writing { task: Some(OwnedTask::spawn(task)) }
    }

    /// Discards the messages that are not written yet and ends the connection.
    pub fn abort(&self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }

    /// Waits until all messages are written, or returns the error that ended the connection.
    pub async fn finished(mut self) -> std::io::Result<()> {
        match self.task.take() {
            Some(task) => task.join().await.unwrap_or_else(|error| Err(std::io::Error::other(error))),
            None => Ok(()),
        }
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        if let Some(task) = self.task.take() {
            task.detach();
        }
    }
}
