//! What handles write to the task that owns the link.

use bytes::Bytes;
use tokio::sync::oneshot;

use super::error::ExecServerError;
use super::listeners::Ear;
use super::routes::Route;

/// A letter to the task.
#[derive(Debug)]
pub(super) enum Letter {
    /// Something is asked of the server.
    Call(Box<Call>),
    /// Somebody wants to hear what belongs to no process.
    Listen(Ear),
}

/// The connection is to end; answered when it has.
pub(super) type Farewell = oneshot::Sender<()>;

/// Something that is asked of the server.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) id: u64,
    pub(super) method: &'static str,
    /// The whole request.
    pub(super) message: Bytes,
    pub(super) again: Again,
    /// Gets the text of the result.
    pub(super) answer: oneshot::Sender<Result<Bytes, ExecServerError>>,
    /// How often it was sent.
    pub(super) sent: u32,
}

/// What may be done with a request whose answer was cut off.
#[derive(Debug)]
pub(super) enum Again {
    /// It only looks, or the server knows it by its name: asking twice does it once.
    Safe,
    /// A second time would do it a second time.
    Never,
    /// It starts the process of this name, whose facts go there. A second start by that name is refused, which tells
    /// that the first one was done.
    Starts(String, Option<Route>),
}
