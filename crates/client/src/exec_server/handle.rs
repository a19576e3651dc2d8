//! ExecServerClient: a handle to one connection. Cheap to clone; its task owns the link and the state.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::{Notify, mpsc, oneshot};
use wire::exec_server::envelope;
use wire::exec_server::v1::{EnvironmentInfo, InitializeResponse};

use super::error::ExecServerError;
use super::letter::{Again, Call, Farewell, Letter};
use crate::queue::{self, queue};

/// Letters that wait for the task; past it whoever writes waits.
pub(super) const LETTERS: usize = 256;

/// A connection to an exec-server. When the last handle is gone, and every process's, it is closed: the server ends what
/// runs in the session unless somebody resumes it in time.
#[derive(Debug, Clone)]
pub struct ExecServerClient {
    pub(super) letters: mpsc::Sender<Letter>,
    pub(super) farewells: mpsc::Sender<Farewell>,
    pub(super) answered: Arc<InitializeResponse>,
    pub(super) next_id: Arc<AtomicU64>,
    pub(super) drained: Arc<Notify>,
    /// What the names of this client's writes begin with.
    pub(super) names: Arc<str>,
}

/// Something that the server says and that belongs to no process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notification {
    /// What it is about.
    pub method: String,
    /// The text of its params.
    pub params: Bytes,
}

/// Everything that belongs to no process, from when this was made.
#[derive(Debug)]
pub struct Notifications(queue::Receiver<Result<Notification, ExecServerError>>);

impl Notifications {
    /// The next one; nothing when the connection is over. [`ExecServerError::Missed`] stands where some are missing, and
    /// more come after it. While they are not taken the connection is read no further, unless answers are waited for.
    /// Nothing is lost if this future is dropped.
    pub async fn next(&mut self) -> Result<Option<Notification>, ExecServerError> {
        self.0.recv().await.transpose()
    }
}

/// An answer that has been asked for and will come.
pub(crate) struct Answer<R> {
    method: &'static str,
    answered: oneshot::Receiver<Result<Bytes, ExecServerError>>,
    result: std::marker::PhantomData<fn() -> R>,
}

impl<R: DeserializeOwned> Answer<R> {
    /// Waits for it.
    pub(crate) async fn wait(self) -> Result<R, ExecServerError> {
        let text = self.answered.await.map_err(|_| ExecServerError::Closed)??;
        serde_json::from_slice(&text).map_err(|error| {
            ExecServerError::Protocol(format!(
                "the answer to {} is not what it should be: {error}",
                self.method
            ))
        })
    }
}

impl ExecServerClient {
    /// The session that can be resumed; nothing if the server knows none.
    pub fn session_id(&self) -> Option<&str> {
        self.answered.session_id.as_deref()
    }

    /// What the machine is like, if the server said so in the handshake; see
    /// [`environment_info`](ExecServerClient::environment_info).
    pub fn environment(&self) -> Option<&EnvironmentInfo> {
        self.answered.environment_info.as_ref()
    }

    /// Hears everything that belongs to no process.
    pub async fn notifications(&self) -> Result<Notifications, ExecServerError> {
        let (events, receiver) = queue(self.drained.clone());
        self.letters.send(Letter::Listen(events)).await.map_err(|_| ExecServerError::Closed)?;
        Ok(Notifications(receiver))
    }

    /// Closes the connection. The session lives on at the server for as long as that keeps it.
    pub async fn close(&self) -> Result<(), ExecServerError> {
        let (done, is_done) = oneshot::channel();
        self.farewells.send(done).await.map_err(|_| ExecServerError::Closed)?;
        is_done.await.map_err(|_| ExecServerError::Closed)
    }

    pub(super) async fn ask<P: Serialize, R: DeserializeOwned>(
        &self,
        method: &'static str,
        params: &P,
        again: Again,
    ) -> Result<R, ExecServerError> {
        self.post(method, params, again).await?.wait().await
    }

    /// Puts a request in line; requests leave in the order in which this returns.
    pub(super) async fn post<P: Serialize, R>(
        &self,
        method: &'static str,
        params: &P,
        again: Again,
    ) -> Result<Answer<R>, ExecServerError> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let message = envelope::request(id, method, params).map_err(|error| {
            ExecServerError::Protocol(format!("the params of {method} are not JSON: {error}"))
        })?;
        let (answer, answered) = oneshot::channel();
        let call = Call { id, method, message: Bytes::from(message), again, answer, sent: 0 };
        self.letters.send(Letter::Call(Box::new(call))).await.map_err(|_| ExecServerError::Closed)?;
        Ok(Answer { method, answered, result: std::marker::PhantomData })
    }

    /// A name that no other write, process or handle of the session has.
    pub(crate) fn fresh_name(&self) -> String {
        format!("{}-{}", self.names, self.next_id.fetch_add(1, Ordering::Relaxed))
    }
}
