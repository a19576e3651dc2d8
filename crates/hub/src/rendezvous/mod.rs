//! The executor registry and its rendezvous: executors dial in, harnesses reach them.
//!
//! The path names the executor; from there frames find their way by `stream_id` alone. What they carry is nobody's
//! business here. Each executor has a room (`routes`), a task that owns who is there and which stream is whose.

mod executor;
mod harness;
mod pulse;
mod queue;
mod routes;
mod socket;
mod ticket;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::auth::Tokens;
use crate::config::Limits;
use crate::refusal::Refusal;
use crate::store::TokenId;
use routes::{Door, Doorplate};
use socket::Farewell;
use ticket::Tickets;

/// The longest name of an executor, in bytes.
const LONGEST_ID: usize = 128;

/// The name of an executor: neither blank nor long, and nothing in it that would disturb a terminal.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct ExecutorId(Arc<str>);

impl ExecutorId {
    pub(crate) fn parse(text: &str) -> Result<ExecutorId, Refusal> {
        let wrong = |why: &str| Err(Refusal::bad("bad_executor_id", format!("the executor's id {why}")));
        match text.trim() {
            "" => wrong("is blank"),
            id if id.len() > LONGEST_ID => wrong(&format!("is longer than {LONGEST_ID} bytes")),
            id if id.chars().any(char::is_control) => wrong("has control characters in it"),
            id => Ok(ExecutorId(id.into())),
        }
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// The registry and every room.
#[derive(Debug)]
pub(crate) struct Rendezvous {
    limits: Arc<Limits>,
    tokens: Tokens,
    tickets: Tickets,
    /// Rooms that are open, by executor. Each is kept open by those who are in it, not by this.
    rooms: Mutex<HashMap<ExecutorId, Doorplate>>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl Rendezvous {
    pub(crate) fn new(
        limits: Arc<Limits>,
        tokens: Tokens,
        stop: CancellationToken,
        tasks: TaskTracker,
    ) -> Rendezvous {
        Rendezvous { limits, tokens, tickets: Tickets::default(), rooms: Mutex::default(), stop, tasks }
    }

    /// The room of an executor; opened if nobody is in it.
    fn room(&self, executor: &ExecutorId) -> Door {
        let mut rooms = self.rooms.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(door) = rooms.get(executor).and_then(Doorplate::door) {
            return door;
        }
        rooms.retain(|_, plate| !plate.is_closed());
        let (door, life) = routes::open(self.limits.clone());
        rooms.insert(executor.clone(), door.plate());
        self.tasks.spawn(life);
        door
    }

    /// Waits until a connection of this token has to end, whatever its peer does.
    async fn ended(&self, token: TokenId) -> Farewell {
        tokio::select! {
            () = self.stop.cancelled() => Farewell::HUB_ENDS,
            () = self.tokens.removed(token) => Farewell::TOKEN_REMOVED,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_neither_blank_nor_long_nor_a_mess() {
        assert_eq!(ExecutorId::parse(" my executor ").unwrap().as_str(), "my executor");
        assert!(ExecutorId::parse(&"x".repeat(LONGEST_ID)).is_ok());
        for wrong in ["", "  ", "\u{a0}", "a\nb", "\u{1b}[2J", &"x".repeat(LONGEST_ID + 1)] {
            assert!(ExecutorId::parse(wrong).is_err(), "{wrong:?}");
        }
    }
}
