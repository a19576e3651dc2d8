//! Session: a handle to one session on a target. Cheap to clone; its task owns the link and the state.

mod driver;
mod greet;
pub(crate) mod letter;
mod recover;
mod routes;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use tokio::sync::{Notify, mpsc, oneshot, watch};
use wire::jsonrpc;
use wire::limits::MAX_LINE_BYTES;
use wire::rexd::v1::{self, Method, SessionOpenResult};

use crate::approvals::ApprovalSubscription;
use crate::connection::{Writers, inbox};
use crate::error::Error;
use crate::files::Files;
use crate::options::SessionOptions;
use crate::process::{Command, Process};
use crate::queue::queue;
use crate::target::Target;
use driver::Driver;
use letter::{Again, Call, Farewell, Letter, Opens, ProcessRoute};

/// Letters that wait for the session's task; past it whoever writes waits.
const LETTERS: usize = 256;

/// A session on a target. When the last handle is gone, and every process and watch with it, the session is closed.
#[derive(Debug, Clone)]
pub struct Session {
    letters: mpsc::Sender<Letter>,
    farewells: mpsc::Sender<Farewell>,
    opened: watch::Receiver<Arc<SessionOpenResult>>,
    next_id: Arc<AtomicU64>,
    drained: Arc<Notify>,
    target: Arc<Target>,
    /// What the keys of this session's requests begin with.
    keys: Arc<str>,
}

impl Session {
    /// Reaches the target and opens a session there. Must be called within a tokio runtime.
    pub async fn open(target: Target, options: SessionOptions) -> Result<Session, Error> {
        // On the heap, as the driver: what only the first moments need must not weigh on every later frame.
        let (dialed, opened) = Box::pin(greet::open(&target, &options)).await?;
        let opened = Arc::new(opened);
        let (Writers { letters, farewells }, inbox) = inbox(LETTERS);
        let (publish, published) = watch::channel(opened);
        let drained = Arc::new(Notify::new());
        let next_id = Arc::new(AtomicU64::new(greet::FIRST_FREE_ID));
        let target = Arc::new(target);
        let counted = (next_id.clone(), drained.clone());
        Driver::new(dialed, (target.clone(), options), (inbox, publish), counted).start();
        let keys = random_text()?.into();
        Ok(Session { letters, farewells, opened: published, next_id, drained, target, keys })
    }

    /// What the server said when the session was opened, or opened anew.
    pub fn open_result(&self) -> Arc<SessionOpenResult> {
        self.opened.borrow().clone()
    }

    /// The session's id, which every request names.
    pub fn id(&self) -> String {
        self.opened.borrow().session_id.clone()
    }

    /// Where it is.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Whether the server offers something, by the name it has in `capabilities`.
    pub fn has_capability(&self, capability: &str) -> bool {
        self.opened.borrow().capabilities.iter().any(|offered| offered == capability)
    }

    /// Asks anything. What changes nothing is asked again after a cut; anything else then fails as
    /// [`Error::Ambiguous`]. Dropping this future withdraws the request.
    pub async fn call<M: Method>(&self, params: &M) -> Result<M::Result, Error> {
        let again = match v1::method(M::NAME).is_some_and(|info| !info.changes) {
            true => Again::Safe,
            false => Again::Never,
        };
        self.ask(params, again, Opens::Nothing).await
    }

    /// Starts a command. It ends with the session, unless it is detached.
    pub async fn start(&self, command: Command) -> Result<Process, Error> {
        let (events, receiver) = queue(self.drained.clone());
        let is_detached = command.is_detached();
        let opens = Opens::Process(ProcessRoute { events, cursor: 0, is_detached, skipped: 0 });
        let (process_id, pty_id) = command.start(self, opens).await?;
        Ok(Process::new(self.clone(), process_id, pty_id, receiver))
    }

    /// Follows a process that somebody started, from a place in its output; 0 is the beginning.
    pub async fn attach(&self, process_id: &str, cursor: u64) -> Result<Process, Error> {
        let (events, receiver) = queue(self.drained.clone());
        let opens = Opens::Process(ProcessRoute { events, cursor, is_detached: true, skipped: 0 });
        let params = v1::ExecAttach {
            session_id: self.id(),
            process_id: process_id.to_owned(),
            cursor: i64::try_from(cursor).unwrap_or(i64::MAX),
        };
        let attached = self.ask(&params, Again::Safe, opens).await?;
        Ok(Process::attached(self.clone(), attached, receiver))
    }

    /// Every process of this daemon and the user's keepers.
    pub async fn processes(&self) -> Result<Vec<v1::ListedProcess>, Error> {
        Ok(self.call(&v1::ExecList { session_id: self.id() }).await?.processes)
    }

    /// Files there.
    pub fn files(&self) -> Files<'_> {
        Files::new(self)
    }

    /// Hears what waits for a decision from now on. The session must have been opened with [`Options::approvals`].
    pub async fn subscribe_approvals(&self) -> Result<ApprovalSubscription, Error> {
        let (events, receiver) = queue(self.drained.clone());
        self.letters.send(Letter::Attend(events)).await.map_err(|_| Error::Closed)?;
        Ok(ApprovalSubscription::new(self.clone(), receiver))
    }

    /// Closes the session: attached processes have ended when this returns.
    pub async fn close(&self) -> Result<(), Error> {
        self.end(true).await
    }

    /// Closes the session without waiting for what is still cleaned up there.
    pub async fn close_without_waiting(&self) -> Result<(), Error> {
        self.end(false).await
    }

    async fn end(&self, waits: bool) -> Result<(), Error> {
        let (done, is_done) = oneshot::channel();
        self.farewells.send(Farewell { done, waits }).await.map_err(|_| Error::Closed)?;
        is_done.await.map_err(|_| Error::Closed)
    }

    pub(crate) async fn ask<M: Method>(
        &self,
        params: &M,
        again: Again,
        opens: Opens,
    ) -> Result<M::Result, Error> {
        self.ask_written::<M>(|id| jsonrpc::request(id, M::NAME, params), again, opens).await
    }

    /// The same, where the caller writes the whole request.
    pub(crate) async fn ask_written<M: Method>(
        &self,
        write: impl FnOnce(u64) -> serde_json::Result<Vec<u8>>,
        again: Again,
        opens: Opens,
    ) -> Result<M::Result, Error> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let message = write(id)
            .map_err(|error| Error::Protocol(format!("the params of {} are not JSON: {error}", M::NAME)))?;
        let (method, bytes) = (M::NAME, message.len());
        if bytes > MAX_LINE_BYTES {
            return Err(Error::TooLong { method, bytes, most: MAX_LINE_BYTES });
        }
        let (answer, answered) = oneshot::channel();
        let call = Call { id, method, message: Bytes::from(message), again, opens, answer, sent: 0 };
        self.letters.send(Letter::Call(call)).await.map_err(|_| Error::Closed)?;
        let mut withdrawal = Withdrawal { id, letters: Some(&self.letters) };
        let text = answered.await.map_err(|_| Error::Closed);
        withdrawal.letters = None;
        serde_json::from_slice(&text??).map_err(|error| {
            Error::Protocol(format!("the answer to {} is not what it should be: {error}", M::NAME))
        })
    }

    /// A key by which the server knows a request that is asked twice.
    pub(crate) fn key(&self) -> String {
        format!("{}-{}", self.keys, self.next_id.fetch_add(1, Ordering::Relaxed))
    }

    /// Whether input may be sent twice: a server that does not know its key would take it twice.
    pub(crate) fn input_again(&self) -> Again {
        match self.has_capability("input_key") {
            true => Again::Safe,
            false => Again::Never,
        }
    }

    pub(crate) fn drained(&self) -> Arc<Notify> {
        self.drained.clone()
    }
}

/// Tells the session's task when whoever asked has gone.
struct Withdrawal<'a> {
    id: u64,
    letters: Option<&'a mpsc::Sender<Letter>>,
}

impl Drop for Withdrawal<'_> {
    fn drop(&mut self) {
        if let Some(letters) = self.letters {
            // With a full box the answer comes and nobody takes it.
            letters.try_send(Letter::Withdraw(self.id)).ok();
        }
    }
}

pub(crate) fn random_text() -> Result<String, Error> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(|error| Error::Protocol(format!("no random numbers: {error}")))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
