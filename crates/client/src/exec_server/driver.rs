//! The one task that owns the link: it sends what handles ask, and hands on what arrives.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use link::Link;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};
use wire::exec_server::envelope::{self, Message};
use wire::exec_server::v1::{self, InitializeResponse};
use wire::exec_server::{ErrorObject, code};
use wire::jsonrpc::Id;

use super::connect::Reach;
use super::error::ExecServerError;
use super::letter::{Again, Call, Farewell, Letter};
use super::listeners::Listeners;
use super::routes::{Heed, Routes, read_params, slice};
use crate::connection::{Connection, Inbox, Post, Turn};

/// When a start is asked for again that may still be under way.
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(20);
/// How often a start is asked for.
const MOST_STARTS: u32 = 250;

pub(super) struct Driver {
    pub(super) connection: Connection,
    pub(super) reach: Reach,
    pub(super) answered: Arc<InitializeResponse>,
    pub(super) inbox: Inbox<Letter, Farewell>,
    pub(super) pending: BTreeMap<u64, Waits>,
    pub(super) routes: Routes,
    pub(super) listeners: Listeners,
    /// Starts that are asked for again, and when.
    pub(super) later: VecDeque<(Instant, Call)>,
    next_id: Arc<AtomicU64>,
    drained: Arc<Notify>,
}

/// Who waits for an answer.
#[derive(Debug)]
pub(super) enum Waits {
    /// Somebody who asked.
    Asker(Call),
    /// The process whose facts are missing.
    Process(String),
    /// Somebody whose start was refused when it was asked again, with that refusal: was it done the first time?
    Starter(Call, String, ExecServerError),
}

/// Why a link is no longer served.
pub(super) enum Over {
    /// The connection was closed here.
    Closed(Option<Farewell>),
    /// The link was cut.
    Cut,
}

impl Driver {
    pub(super) fn new(
        (link, answered): (Link, Arc<InitializeResponse>),
        reach: Reach,
        inbox: Inbox<Letter, Farewell>,
        (next_id, drained): (Arc<AtomicU64>, Arc<Notify>),
    ) -> Driver {
        Driver {
            connection: Connection::new(link, reach.socket.is_some()),
            reach,
            answered,
            inbox,
            pending: BTreeMap::new(),
            routes: Routes::default(),
            listeners: Listeners::default(),
            later: VecDeque::new(),
            next_id,
            drained,
        }
    }

    pub(super) async fn run(mut self) {
        let done = loop {
            let over = match self.serve_link().await {
                Over::Cut => self.recover().await,
                closed => Ok(Some(closed)),
            };
            match over {
                Ok(None) => {}
                Ok(Some(Over::Closed(done))) => break done,
                Ok(Some(Over::Cut)) => {}
                Err(error) => return self.give_up(&error).await,
            }
        };
        self.fail_everything(&ExecServerError::Closed);
        let writing_ends = async |Link { incoming, outgoing, writing }| {
            drop((incoming, outgoing));
            writing.finished().await.ok()
        };
        self.connection.part(writing_ends).await;
        if let Some(done) = done {
            done.send(()).ok();
        }
    }

    async fn serve_link(&mut self) -> Over {
        loop {
            let nobody_waits = self.pending.is_empty();
            let is_stalled = self.routes.is_stalled(nobody_waits) || self.listeners.is_stalled(nobody_waits);
            let takes_letters = self.connection.takes_requests(self.pending.len());
            let again_at = self.later.front().map(|(at, _)| *at);
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
                    Turn::Cut => return Over::Cut,
                },
                () = self.drained.notified(), if is_stalled => {}
                () = sleep_until(again_at.unwrap_or_else(Instant::now)), if again_at.is_some() => {
                    if let Some((_, call)) = self.later.pop_front() {
                        self.send_call(call);
                    }
                }
            }
        }
    }

    pub(super) fn open_letter(&mut self, letter: Letter) {
        match letter {
            Letter::Call(call) => self.send_call(*call),
            Letter::Listen(ear) => self.listeners.add(ear),
        }
    }

    pub(super) fn send_call(&mut self, mut call: Call) {
        if let Again::Starts(process_id, route) = &mut call.again
            && let Some(route) = route.take()
        {
            if self.routes.has(process_id) {
                let error = ErrorObject::invalid_request(format!("process {process_id} runs already"));
                call.answer.send(Err(error.into())).ok();
                return;
            }
            // Its first facts may come before the answer to its start.
            self.routes.open(process_id, route);
        }
        call.sent += 1;
        self.connection.send(call.message.clone());
        self.pending.insert(call.id, Waits::Asker(call));
    }

    /// Asks for facts of a process on behalf of whoever waits.
    pub(super) fn read(&mut self, process_id: String, after: u64, waits: Waits) {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        if let Ok(message) = envelope::request(id, v1::PROCESS_READ, &read_params(process_id, after)) {
            self.connection.send(message.into());
            self.pending.insert(id, waits);
        }
    }

    fn take(&mut self, line: &Bytes) {
        match envelope::parse(line) {
            Ok(Message::Response { id, result }) => {
                let result = result.map(|text| slice(line, text.get())).map_err(ExecServerError::from);
                self.answer(&id, result);
            }
            Ok(Message::Notification { method, params }) => {
                let params = params.map_or("null", |raw| raw.get());
                match self.routes.hear(&method, params) {
                    Ok(Heed::Elsewhere) => self.listeners.tell(&method, &slice_or_empty(line, params)),
                    Ok(heed) => self.heed(heed),
                    Err(error) => self.lose_unreadable(params, &error),
                }
            }
            Ok(Message::Request { id, method, .. }) => {
                let error = ErrorObject::new(code::METHOD_NOT_FOUND, format!("unknown method: {method}"));
                self.connection.send(envelope::error_response(&id, &error).into());
            }
            Err(error) => tracing::debug!(error, "the exec-server sent what is no message"),
        }
    }

    pub(super) fn heed(&mut self, heed: Heed) {
        if let Heed::Read { process_id, after } = heed {
            self.read(process_id.clone(), after, Waits::Process(process_id));
        }
    }

    /// A fact that cannot be read leaves a hole that nothing fills.
    fn lose_unreadable(&mut self, params: &str, error: &serde_json::Error) {
        let odd = ExecServerError::Protocol(format!("a fact of a process that cannot be read: {error}"));
        match Routes::name(params) {
            Some(process_id) => self.routes.lose(&process_id, &odd),
            None => tracing::debug!(%error, "a notification that cannot be read"),
        }
    }

    /// A message that cannot be taken may have been any answer: nobody is left waiting for it.
    fn fail_waiting(&mut self, bytes: u64) {
        let error = format!("an answer of {bytes} bytes is longer than any may be");
        self.fail_pending(&ExecServerError::Protocol(error));
    }

    fn answer(&mut self, id: &Id, result: Result<Bytes, ExecServerError>) {
        let Some(waits) = id.to_string().parse().ok().and_then(|id: u64| self.pending.remove(&id)) else {
            return;
        };
        match waits {
            Waits::Asker(call) => self.answer_call(call, result),
            Waits::Process(process_id) => self.answer_read(process_id, result),
            Waits::Starter(call, process_id, refusal) => match result {
                // The server knows the process: the first start was done, and its answer is known.
                Ok(page) => {
                    call.answer.send(Ok(started(&process_id))).ok();
                    self.answer_read(process_id, Ok(page));
                }
                // It is being started: soon it is there, or has failed.
                Err(_) if call.sent < MOST_STARTS => {
                    self.later.push_back((Instant::now() + ASK_AGAIN_AFTER, call));
                }
                Err(_) => {
                    let cut = format!("its name is taken since: {refusal}");
                    let ambiguous = ExecServerError::Ambiguous { method: call.method, cut };
                    self.routes.lose(&process_id, &ambiguous);
                    call.answer.send(Err(ambiguous)).ok();
                }
            },
        }
    }

    fn answer_call(&mut self, call: Call, result: Result<Bytes, ExecServerError>) {
        if let (Again::Starts(process_id, _), Err(refusal)) = (&call.again, &result) {
            let (process_id, refusal) = (process_id.clone(), refusal.clone());
            let is_taken = refusal.code() == Some(code::INVALID_REQUEST);
            if call.sent > 1 && is_taken {
                match self.routes.read_one_anew(&process_id) {
                    Some(after) => {
                        self.read(process_id.clone(), after, Waits::Starter(call, process_id, refusal))
                    }
                    // Everything about it has come already, to its end.
                    None => drop(call.answer.send(Ok(started(&process_id)))),
                }
                return;
            }
            self.routes.lose(&process_id, &refusal);
        }
        // Whoever asked may have gone.
        call.answer.send(result).ok();
    }

    fn answer_read(&mut self, process_id: String, result: Result<Bytes, ExecServerError>) {
        let page = result.and_then(|text| {
            serde_json::from_slice::<v1::ReadResponse>(&text)
                .map_err(|error| ExecServerError::Protocol(format!("a page of output is odd: {error}")))
        });
        match page {
            Ok(page) => {
                let heed = self.routes.page(process_id, page);
                self.heed(heed);
            }
            Err(error) => self.routes.lose(&process_id, &error),
        }
    }

    /// The session is lost: everybody hears why.
    async fn give_up(mut self, error: &ExecServerError) {
        self.fail_everything(error);
        let (letters, farewells) = self.inbox.close().await;
        for letter in letters {
            if let Letter::Call(call) = letter {
                call.answer.send(Err(error.clone())).ok();
            }
        }
        for farewell in farewells {
            farewell.send(()).ok();
        }
    }

    fn fail_pending(&mut self, error: &ExecServerError) {
        let later = std::mem::take(&mut self.later).into_iter().map(|(_, call)| Waits::Asker(call));
        for waits in std::mem::take(&mut self.pending).into_values().chain(later) {
            match waits {
                Waits::Asker(call) | Waits::Starter(call, ..) => {
                    if let Again::Starts(process_id, _) = &call.again {
                        self.routes.lose(process_id, error);
                    }
                    call.answer.send(Err(error.clone())).ok();
                }
                Waits::Process(process_id) => self.routes.lose(&process_id, error),
            }
        }
    }

    fn fail_everything(&mut self, error: &ExecServerError) {
        self.fail_pending(error);
        self.routes.lose_all(error);
        self.listeners.clear();
    }
}

/// What a server answers to a start.
fn started(process_id: &str) -> Bytes {
    serde_json::json!({ "processId": process_id }).to_string().into()
}

fn slice_or_empty(line: &Bytes, params: &str) -> Bytes {
    match params {
        "null" => Bytes::from_static(b"null"),
        params => slice(line, params),
    }
}
