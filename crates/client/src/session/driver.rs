//! The one task that owns a session's link: it sends what handles ask, and hands on what arrives.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use link::Incoming;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep_until};
use wire::jsonrpc::{self, Item, Message, Response, RpcError, code};
use wire::rexd::v1::{Cancel, SessionClose, SessionOpenResult, codes};

use super::greet::rpc_error;
use super::letter::{Call, Farewell, Letter, Opens};
use super::routes::Routes;
use crate::connection::{Connection, Inbox, Post, Turn};
use crate::dial::{Carrier, Dialed};
use crate::error::Error;
use crate::options::SessionOptions;
use crate::target::Target;

/// When a request that is still under way is asked for again.
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(50);

pub(super) struct Driver {
    pub(super) connection: Connection,
    pub(super) carrier: Carrier,
    pub(super) target: Arc<Target>,
    pub(super) options: SessionOptions,
    pub(super) inbox: Inbox<Letter, Farewell>,
    pub(super) opened: watch::Sender<Arc<SessionOpenResult>>,
    pub(super) pending: BTreeMap<u64, Call>,
    pub(super) routes: Routes,
    /// Requests that were sent again while the first was still under way, and when to ask once more.
    pub(super) waiting: Vec<(Instant, Call)>,
    next_id: Arc<AtomicU64>,
    drained: Arc<Notify>,
}

/// Why a link is no longer served.
pub(super) enum Over {
    /// The session was closed here.
    Closed(Option<Farewell>),
    /// The link was cut, for this reason.
    Cut(String),
}

impl Driver {
    pub(super) fn new(
        dialed: Dialed,
        (target, options): (Arc<Target>, SessionOptions),
        (inbox, opened): (Inbox<Letter, Farewell>, watch::Sender<Arc<SessionOpenResult>>),
        (next_id, drained): (Arc<AtomicU64>, Arc<Notify>),
    ) -> Box<Driver> {
        let (connection, carrier) = dialed.into_connection();
        Box::new(Driver {
            connection,
            carrier,
            target,
            inbox,
            opened,
            pending: BTreeMap::new(),
            routes: Routes::new(options.output),
            options,
            waiting: Vec::new(),
            next_id,
            drained,
        })
    }

    pub(super) fn next_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    /// Serves the session in a task of its own.
    pub(super) fn start(self: Box<Self>) {
        tokio::spawn(self.run());
    }

    async fn run(mut self: Box<Self>) {
        loop {
            let over = self.serve_link().await;
            let cut = match over {
                Over::Closed(done) => return self.say_goodbye(done).await,
                Over::Cut(cut) => cut,
            };
            match Box::pin(self.recover(&cut)).await {
                Ok(None) => {}
                Ok(Some(done)) => return self.say_goodbye(done).await,
                Err(error) => return self.give_up(&error).await,
            }
        }
    }

    async fn serve_link(&mut self) -> Over {
        loop {
            let is_stalled = self.routes.is_stalled(self.pending.is_empty());
            let takes_letters = self.connection.takes_requests(self.pending.len());
            let again_at = self.waiting.first().map(|(at, _)| *at);
            tokio::select! {
                post = self.inbox.next(takes_letters) => match post {
                    Post::Letter(letter) => self.open_letter(letter),
                    Post::Farewell(farewell) => {
                        while let Some(letter) = self.inbox.left() {
                            self.open_letter(letter);
                        }
                        return Over::Closed(farewell);
                    }
                },
                turn = self.connection.next(!is_stalled) => match turn {
                    Turn::Message(line) => self.take(&line),
                    Turn::TooLong(bytes) => self.fail_waiting(bytes),
                    Turn::Sent => {}
                    Turn::Cut => return Over::Cut(self.carrier.last_words()),
                },
                () = self.drained.notified(), if is_stalled => {}
                () = sleep_until(again_at.unwrap_or_else(Instant::now)), if again_at.is_some() => {
                    let (_, call) = self.waiting.remove(0);
                    self.send_call(call);
                }
            }
        }
    }

    fn open_letter(&mut self, letter: Letter) {
        match letter {
            Letter::Call(call) => self.send_call(call),
            Letter::Withdraw(id) => self.withdraw(id),
            Letter::Attend(events) => self.routes.attend(events),
        }
    }

    pub(super) fn send_call(&mut self, mut call: Call) {
        call.sent += 1;
        self.connection.send(call.message.clone());
        self.pending.insert(call.id, call);
    }

    fn withdraw(&mut self, id: u64) {
        let is_pending = self.pending.remove(&id).is_some();
        let id = serde_json::value::RawValue::from_string(id.to_string());
        if let (true, Ok(id)) = (is_pending, id) {
            self.connection.send(jsonrpc::notification("$/cancel", &Cancel { id }).into());
        }
    }

    fn take(&mut self, line: &Bytes) {
        match jsonrpc::parse(line) {
            Ok(Message::Single(Item::Response(response))) => self.answer(line, &response),
            Ok(Message::Single(Item::Call(call))) => {
                let starts = |call: &Call| matches!(call.opens, Opens::Process(_));
                let has_starts = self.pending.values().any(starts);
                self.routes.event(line, &call, has_starts);
            }
            Ok(Message::Batch(_)) => tracing::debug!("the server sent a batch nobody asked for"),
            Err(fault) => tracing::debug!(error = %fault.error, "the server sent what is no message"),
        }
    }

    /// A message that cannot be taken may have been any answer: nobody is left waiting for it.
    fn fail_waiting(&mut self, bytes: u64) {
        let error = Error::Protocol(format!("an answer of {bytes} bytes is longer than any may be"));
        for (_, call) in std::mem::take(&mut self.pending) {
            call.answer.send(Err(error.clone())).ok();
        }
    }

    fn answer(&mut self, line: &Bytes, response: &Response<'_>) {
        if let (None, Some(error)) = (&response.id, response.error) {
            return self.fail_unread(rpc_error(error.get()));
        }
        let id = response.id.as_ref().and_then(|id| id.to_string().parse::<u64>().ok());
        let Some(call) = id.and_then(|id| self.pending.remove(&id)) else { return };
        let result = match (response.result, response.error) {
            (Some(result), _) => {
                self.routes.open(call.opens, result.get());
                Ok(line.slice_ref(result.get().as_bytes()))
            }
            (None, error) => {
                let error = Error::from(rpc_error(error.map_or("null", |raw| raw.get())));
                if call.sent > 1 && is_under_way(&error) {
                    return self.waiting.push((Instant::now() + ASK_AGAIN_AFTER, call));
                }
                if let Opens::Process(route) = call.opens {
                    route.lose(&error);
                }
                Err(error)
            }
        };
        // Whoever asked may have gone.
        call.answer.send(result).ok();
    }

    /// The server could not read a message and so cannot say which. If it was too long, it was the longest; else it may
    /// have been any, and nobody is left waiting for it.
    fn fail_unread(&mut self, error: RpcError) {
        let longest = self.pending.values().max_by_key(|call| call.message.len()).map(|call| call.id);
        let unread = match (error.code, longest.and_then(|id| self.pending.remove(&id))) {
            (code::RESOURCE_LIMIT, Some(call)) => vec![call],
            (_, longest) => {
                longest.into_iter().chain(std::mem::take(&mut self.pending).into_values()).collect()
            }
        };
        for call in unread {
            call.answer.send(Err(Error::from(error.clone()))).ok();
        }
    }

    /// Ends the session on the server, and whoever waits for that hears it.
    async fn say_goodbye(self, farewell: Option<Farewell>) {
        let session_id = self.opened.borrow().session_id.clone();
        let closing_id = self.next_id();
        if let Ok(message) = jsonrpc::request(closing_id, "session.close", &SessionClose { session_id }) {
            // A bridge lives in this program: what is to end there must have ended when we do.
            let is_ours = matches!(self.carrier, Carrier::Bridge(_));
            let waits = is_ours || farewell.as_ref().is_none_or(|farewell| farewell.waits);
            // A server that does not answer ends the session with its link.
            let saying = async |mut link: link::Link| {
                link.outgoing.respond_written(message.into()).await.ok()?;
                if !waits {
                    return Some(());
                }
                let closing = Some(closing_id.into());
                while let Some(incoming) = link.incoming.recv().await {
                    let Incoming::Message(line) = incoming else { continue };
                    if let Ok(Message::Single(Item::Response(response))) = jsonrpc::parse(&line)
                        && response.id == closing
                    {
                        break;
                    }
                }
                Some(())
            };
            self.connection.part(saying).await;
        }
        drop(self.carrier);
        if let Some(farewell) = farewell {
            farewell.done.send(()).ok();
        }
    }

    /// The session is lost: everybody hears why.
    async fn give_up(mut self, error: &Error) {
        self.fail_everything(error);
        let (letters, farewells) = self.inbox.close().await;
        for letter in letters {
            if let Letter::Call(call) = letter {
                call.answer.send(Err(error.clone())).ok();
            }
        }
        for farewell in farewells {
            farewell.done.send(()).ok();
        }
    }

    fn fail_everything(&mut self, error: &Error) {
        for (_, call) in std::mem::take(&mut self.waiting) {
            call.answer.send(Err(error.clone())).ok();
        }
        for (_, call) in std::mem::take(&mut self.pending) {
            call.answer.send(Err(error.clone())).ok();
        }
        self.routes.lose_all(error);
    }
}

/// Whether the server says that a request with this key is still being done.
fn is_under_way(error: &Error) -> bool {
    error.rpc().is_some_and(|error| {
        error.code == codes::CONCURRENCY_CONFLICT && error.data["field"] == "idempotency_key"
    })
}
