//! The executor registry and its rendezvous: executors connect to it, and harnesses connect to executors through it.
//!
//! The path of a request names the executor; frames are routed by `stream_id`, and their payload is not read. Each executor
//! has a router task (`router`), which owns its connections and streams.

mod connection;
mod executor;
mod harness;
mod queue;
mod rexd;
mod router;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use link::task::Tasks;
use tokio_util::sync::CancellationToken;

use crate::api_error::ApiError;
use crate::auth::{Credential, Tokens};
use crate::config::Limits;
use crate::store::TokenId;
use connection::CloseReason;
use link::ByteBudget;
use link::listen::{HttpConnection, WebSocketHandshake};
use router::{StreamRouterHandle, WeakStreamRouterHandle};

/// The limit on the length of an executor's id, in bytes.
const MAX_ID_BYTES: usize = 128;

/// The id of an executor: not blank, of bounded length, of characters that look different from each other.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct ExecutorId(Arc<str>);

impl ExecutorId {
    pub(crate) fn parse(text: &str) -> Result<ExecutorId, ApiError> {
        let invalid = |why: &str| Err(ApiError::bad("bad_executor_id", format!("the executor id {why}")));
        match text.trim() {
            "" => invalid("is blank"),
            id if id.len() > MAX_ID_BYTES => invalid(&format!("is longer than {MAX_ID_BYTES} bytes")),
            "." | ".." => invalid("is the name of a directory"),
            id if !id.chars().all(crate::is_name_character) => {
                invalid("may contain only letters and digits of ASCII and any of - _ . : @")
            }
            id => Ok(ExecutorId(id.into())),
        }
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// The registry and the routers.
#[derive(Debug)]
pub(crate) struct Rendezvous {
    limits: Arc<Limits>,
    /// The bytes of all frames.
    budget: ByteBudget,
    tokens: Tokens,
    /// The running routers. Their connections keep them running, not this map.
    routers: Mutex<HashMap<ExecutorId, WeakStreamRouterHandle>>,
    stop: CancellationToken,
    tasks: Tasks,
}

impl Rendezvous {
    pub(crate) fn new(
        limits: Arc<Limits>,
        budget: ByteBudget,
        tokens: Tokens,
        stop: CancellationToken,
        tasks: Tasks,
    ) -> Rendezvous {
        Rendezvous { limits, budget, tokens, routers: Mutex::default(), stop, tasks }
    }

    /// The router of an executor; started if it is not running.
    fn router(&self, executor: &ExecutorId) -> StreamRouterHandle {
        let mut routers = self.routers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(router) = routers.get(executor).and_then(WeakStreamRouterHandle::upgrade) {
            return router;
        }
        routers.retain(|_, router| !router.is_closed());
        let (router, run) = router::router(self.limits.clone());
        routers.insert(executor.clone(), router.downgrade());
        self.tasks.spawn(run);
        router
    }

    /// Waits until a connection of this token has to end, and returns the reason.
    async fn ended(&self, credential: &Credential) -> CloseReason {
        tokio::select! {
            () = self.stop.cancelled() => CloseReason::HUB_STOPS,
            () = self.tokens.removed(credential) => CloseReason::TOKEN_REMOVED,
        }
    }
}

/// A token as the caller whose connections are counted.
fn caller(token: TokenId) -> Arc<str> {
    Arc::from(token.0.to_string())
}

/// A request that asks for a WebSocket, and its connection.
#[derive(Debug)]
pub(crate) struct UpgradeRequest {
    pub(crate) handshake: WebSocketHandshake,
    pub(crate) connection: Arc<HttpConnection>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_not_blank_not_long_and_of_plain_characters() {
        assert_eq!(ExecutorId::parse(" my-executor ").unwrap().as_str(), "my-executor");
        assert!(ExecutorId::parse(&"x".repeat(MAX_ID_BYTES)).is_ok());
        for wrong in [
            "",
            "  ",
            "\u{a0}",
            "a\nb",
            "\u{1b}[2J",
            "..",
            ".",
            "a/b",
            "а",
            "a\u{200b}",
            &"x".repeat(MAX_ID_BYTES + 1),
        ] {
            assert!(ExecutorId::parse(wrong).is_err(), "{wrong:?}");
        }
    }
}
