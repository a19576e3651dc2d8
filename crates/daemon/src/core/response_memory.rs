//! Memory for large responses: a share for each session, within `server.max_buffered_bytes` of the daemon.

use std::sync::Arc;

use engine::{RootedPath, files};
use link::{Allowance, ByteBudget};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use wire::jsonrpc::{RpcError, code};

use super::request::off_thread;
use super::responder::Responder;

/// The share of one session, so that a client that does not read takes nothing from the others.
const SESSION_BYTES: u32 = 64 * 1024 * 1024;

/// Memory for the responses of one session. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ResponseMemory {
    session: Arc<Semaphore>,
    budget: ByteBudget,
}

/// Memory that was reserved for one response.
#[derive(Debug)]
pub struct ReservedMemory {
    /// Returned when the response is queued.
    pub(super) session: OwnedSemaphorePermit,
    /// Returned when the response was written.
    pub(super) daemon: Allowance,
}

impl ResponseMemory {
    /// A share of this budget.
    pub fn new(budget: &ByteBudget) -> ResponseMemory {
        ResponseMemory { session: Arc::new(Semaphore::new(SESSION_BYTES as usize)), budget: budget.clone() }
    }

    /// Reserves memory for the response of a request; `None` if there is none, and the request was refused.
    pub async fn reserve_for(&self, mut responder: Responder, bytes: u64) -> Option<Responder> {
        match self.reserve(bytes).await {
            Ok(memory) => {
                responder.hold_memory(memory);
                Some(responder)
            }
            Err(error) => {
                responder.reject(error).await;
                None
            }
        }
    }

    /// Reserves memory before it is used. Waits for other responses of the session, and for a limited time for those of
    /// other sessions.
    pub async fn reserve(&self, bytes: u64) -> Result<ReservedMemory, RpcError> {
        let mut daemon = self.budget.allowance();
        let wanted = usize::try_from(bytes).unwrap_or(usize::MAX);
        if let Err(error) = daemon.check(wanted) {
            let message = format!(
                "the response needs {bytes} bytes of memory, and server.max_buffered_bytes is {}; request less at a time",
                error.limit
            );
            return Err(RpcError::new(code::RESOURCE_LIMIT, message));
        }
        let share = u32::try_from(bytes).unwrap_or(u32::MAX).min(SESSION_BYTES);
        let session = self.session.clone().acquire_many_owned(share).await;
        // The semaphore is never closed.
        let session = session.map_err(|_closed| RpcError::internal("the session has ended"))?;
        daemon.hold(wanted).await.map_err(|error| {
            let message = format!(
                "responses that clients have not read take all memory for messages (server.max_buffered_bytes is {}); \
                 try again later",
                error.limit
            );
            RpcError::new(code::RESOURCE_LIMIT, message)
        })?;
        Ok(ReservedMemory { session, daemon })
    }
}

/// The size of a file whose content will be a response. One that cannot be examined fails when it is read.
pub async fn file_size(path: RootedPath) -> u64 {
    let found = off_thread(move || Ok(files::stat_followed(&path).ok().flatten())).await;
    found.ok().flatten().map_or(0, |(found, _)| found.size)
}
