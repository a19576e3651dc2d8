//! One connection: the handshake, the order of requests, and what becomes of its session when it is gone.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use link::{Incoming, Link, Outgoing};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use wire::exec_server::envelope::{self, Message};
use wire::exec_server::{ErrorObject, code, v0, v1};
use wire::jsonrpc::Id;

use super::answer::{Answer, Asker, LargeAnswers};
use super::environment;
use super::methods::{decode, perform};
use super::session::Session;
use super::shelf::Unavailable;
use super::{Arrival, FAREWELL, Service};
use crate::observe::metrics::Transport;

/// Requests that run at the same time, beside those that end or look at processes.
const IN_FLIGHT: usize = 256;
/// Requests that wait for one of those places; past it nothing is read.
const WAITING: usize = 1_024;
/// Bytes of theirs together; past it nothing is read.
const WAITING_BYTES: usize = 256 * 1024 * 1024;
/// What waits for processes, in bytes: input that nobody has read yet, reads that wait for output.
const FOR_PROCESSES: usize = 256 * 1024 * 1024;
/// What such a request counts for at least, however short it is.
const AT_LEAST: usize = 64 * 1024;
/// How long a peer may take to read the last answers.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// How far the handshake has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    New,
    Greeted,
    Ready,
}

/// What bounds how many requests of a kind may be under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lane {
    /// Nothing: it is done at once.
    Free,
    /// A place among those that run; without one it waits.
    Paths,
    /// A share of what may wait for processes; without one it is refused, since what ends them comes behind it.
    Processes,
}

impl Lane {
    fn of(method: &str) -> Lane {
        match method {
            v1::PROCESS_START | v0::method::EXEC => Lane::Paths,
            v1::PROCESS_WRITE | v0::method::WRITE | v1::PROCESS_READ => Lane::Processes,
            v1::FS_CLOSE => Lane::Free,
            method if method.starts_with("fs/") || method.starts_with("http/") => Lane::Paths,
            _ => Lane::Free,
        }
    }
}

/// A request as it came.
#[derive(Debug)]
struct Request {
    id: Id,
    method: String,
    params: Option<Bytes>,
}

/// Whether the connection goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Then {
    GoOn,
    HangUp,
}

/// One connection and its session.
pub(super) struct Connection {
    service: Arc<Service>,
    asker: Asker,
    transport: Transport,
    outgoing: Outgoing,
    phase: Phase,
    session: Option<Box<Session>>,
    paths: Arc<Semaphore>,
    /// Bytes of [`FOR_PROCESSES`] that are free.
    spare: Arc<Semaphore>,
    answers: LargeAnswers,
    waiting: VecDeque<Request>,
    waiting_bytes: usize,
    /// Cancelled when nobody can read answers any more.
    gone: CancellationToken,
    /// Cancelled when another connection wants the session.
    hang_up: CancellationToken,
}

impl Connection {
    pub(super) fn new(service: Arc<Service>, arrival: Arrival, link: &Link) -> Connection {
        let asker = Asker { caller: Arc::new(arrival.caller), client: Arc::from(""), session: None };
        Connection {
            service,
            asker,
            transport: arrival.transport,
            outgoing: link.outgoing.clone(),
            phase: Phase::New,
            session: None,
            paths: Arc::new(Semaphore::new(IN_FLIGHT)),
            spare: Arc::new(Semaphore::new(FOR_PROCESSES)),
            answers: LargeAnswers::new(),
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            gone: CancellationToken::new(),
            hang_up: CancellationToken::new(),
        }
    }

    /// Serves until the peer is done, the link is gone or `stop` is cancelled.
    pub(super) async fn run(mut self, link: Link, stop: CancellationToken) {
        let Link { mut incoming, outgoing, writing } = link;
        drop(outgoing);
        self.listen(&mut incoming, &stop).await;
        self.gone.cancel();
        if self.hang_up.is_cancelled() || self.outgoing.is_closed() {
            // What is still to be written is read by nobody.
            writing.abort();
        }
        let is_ending = self.service.stop.is_cancelled() || stop.is_cancelled();
        let Connection { service, session, transport, outgoing, .. } = self;
        drop(outgoing);
        let patience = if is_ending { FAREWELL } else { LAST_WORDS };
        let ends = async {
            if let Some(mut session) = session {
                // On standard streams nobody can come back.
                let unkept = match transport == Transport::Stdio || is_ending {
                    true => Some(session),
                    false => {
                        session.detach();
                        service.shelf.park(&service, session).err()
                    }
                };
                if let Some(session) = unkept {
                    session.close().await;
                }
            }
            writing.finished().await
        };
        match tokio::time::timeout(patience, ends).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(%error, "the peer did not take everything"),
            Err(_late) => tracing::debug!("the peer reads no more: what it was to be told is dropped"),
        }
    }

    async fn listen(&mut self, incoming: &mut link::Receiver, stop: &CancellationToken) {
        let (peer, hang_up, ending) =
            (self.outgoing.clone(), self.hang_up.clone(), self.service.stop.clone());
        loop {
            // Who does not take answers is not asked for more.
            let is_full = peer.is_full();
            let has_room = self.waiting.len() < WAITING && self.waiting_bytes < WAITING_BYTES && !is_full;
            let (paths, is_waiting) = (self.paths.clone(), !self.waiting.is_empty());
            let then = tokio::select! {
                biased;
                message = incoming.recv(), if has_room => match message {
                    Some(message) => self.take(message).await,
                    None => Then::HangUp,
                },
                Ok(place) = paths.acquire_owned(), if is_waiting && !is_full => self.next(place),
                () = peer.has_room(), if is_full => Then::GoOn,
                then = Self::attend(self.session.as_deref_mut()) => then,
                () = peer.closed() => Then::HangUp,
                () = hang_up.cancelled() => Then::HangUp,
                () = stop.cancelled() => Then::HangUp,
                () = ending.cancelled() => Then::HangUp,
            };
            if then == Then::HangUp {
                return;
            }
        }
    }

    /// Looks after the session between requests: goes on with starts that were asked about, forgets what is old.
    async fn attend(session: Option<&mut Session>) -> Then {
        let Some(session) = session else { return std::future::pending().await };
        let sweep = session.next_sweep().map(Instant::from_std);
        let swept = async {
            match sweep {
                Some(moment) => sleep_until(moment).await,
                None => std::future::pending().await,
            }
        };
        let settled = tokio::select! {
            settled = session.inquired.recv() => settled,
            () = swept => None,
        };
        match settled {
            Some(settled) => session.settled(settled),
            None => session.sweep(),
        }
        Then::GoOn
    }

    async fn take(&mut self, incoming: Incoming) -> Then {
        let line = match incoming {
            Incoming::Message(line) => line,
            Incoming::TooLong { bytes } => {
                let limit = super::link_limits().line_bytes;
                let message = format!("a message of {bytes} bytes is too long: the limit is {limit}");
                self.complain(&ErrorObject::invalid_request(message)).await;
                return Then::GoOn;
            }
        };
        match envelope::parse(&line) {
            Ok(Message::Request { id, method, params }) => {
                let params = params.map(|raw| line.slice_ref(raw.get().as_bytes()));
                let method = method.into_owned();
                self.ask(Request { id, method, params });
                Then::GoOn
            }
            Ok(Message::Notification { method, .. }) => match (&*method, self.phase) {
                (v1::INITIALIZED, Phase::Greeted | Phase::Ready) => {
                    self.phase = Phase::Ready;
                    Then::GoOn
                }
                (v1::INITIALIZED, Phase::New) => self.part("`initialized` before `initialize`").await,
                _ => self.part(&format!("unexpected notification {method:?}")).await,
            },
            Ok(Message::Response { .. }) => self.part("an answer to nothing that was asked").await,
            Err(reason) => {
                let message = format!("the message cannot be read: {reason}");
                self.complain(&ErrorObject::invalid_request(message)).await;
                Then::GoOn
            }
        }
    }

    /// Says what is wrong, and ends the connection.
    async fn part(&self, reason: &str) -> Then {
        self.complain(&ErrorObject::invalid_request(reason)).await;
        Then::HangUp
    }

    async fn complain(&self, error: &ErrorObject) {
        self.outgoing.respond(Bytes::from(envelope::error_to_nobody(error))).await.ok();
    }

    /// Does what was asked for, or has it wait for a place. What waits for a process must not keep others waiting, nor
    /// grow without end; what ends or interrupts one is always done.
    fn ask(&mut self, request: Request) {
        match Lane::of(&request.method) {
            Lane::Free => self.dispatch(request, None),
            Lane::Paths => {
                let is_next = self.waiting.is_empty();
                match is_next.then(|| self.paths.clone().try_acquire_owned().ok()).flatten() {
                    Some(place) => self.dispatch(request, Some(place)),
                    None => {
                        self.waiting_bytes += request.bytes();
                        self.waiting.push_back(request);
                    }
                }
            }
            Lane::Processes => {
                let bytes = request.bytes().clamp(AT_LEAST, FOR_PROCESSES);
                let spare = self.spare.clone();
                match u32::try_from(bytes).ok().and_then(|bytes| spare.try_acquire_many_owned(bytes).ok()) {
                    Some(share) => self.dispatch(request, Some(share)),
                    None => self.too_much(request),
                }
            }
        }
    }

    fn too_much(&self, request: Request) {
        let answer = self.answer(request.id, request.method);
        let error =
            "too much waits for processes that do not read or write: hear the answers before you ask on";
        self.service.tasks.spawn(answer.send(Err::<(), _>(ErrorObject::invalid_request(error))));
    }

    fn answer(&self, id: Id, method: String) -> Answer {
        let life = (self.transport, self.gone.clone());
        let way = (self.outgoing.clone(), self.answers.clone());
        Answer::new(&self.service, (id, method), way, self.asker.clone(), life)
    }

    fn next(&mut self, place: OwnedSemaphorePermit) -> Then {
        if let Some(request) = self.waiting.pop_front() {
            self.waiting_bytes -= request.bytes();
            self.dispatch(request, Some(place));
        }
        Then::GoOn
    }

    fn dispatch(&mut self, request: Request, place: Option<OwnedSemaphorePermit>) {
        let Request { id, method, params } = request;
        let mut answer = self.answer(id, method.clone());
        answer.holds(place);
        if method == v1::INITIALIZE {
            return self.initialize(params.as_ref(), answer);
        }
        let phase = self.phase;
        let Some(session) = self.session.as_deref_mut().filter(|_| phase == Phase::Ready) else {
            return self.too_early(&method, answer);
        };
        perform(session, (&method, params.as_ref()), &self.outgoing, answer);
    }

    fn too_early(&self, method: &str, answer: Answer) {
        let family = match method.split('/').next() {
            Some("fs") => "filesystem",
            Some("http") => "http",
            _ => "exec",
        };
        let wanted = match self.phase {
            Phase::New => format!("call `initialize` before {family} methods"),
            Phase::Greeted | Phase::Ready => format!("send `initialized` before {family} methods"),
        };
        self.service.tasks.spawn(answer.send(Err::<(), _>(ErrorObject::invalid_request(wanted))));
    }

    fn initialize(&mut self, params: Option<&Bytes>, mut answer: Answer) {
        match self.greet(params) {
            Ok(session) => {
                self.phase = Phase::Greeted;
                self.asker = session.asker.clone();
                answer.belongs_to(self.asker.clone());
                let response = v1::InitializeResponse {
                    protocol_version: Some(v0::PROTOCOL_VERSION.to_owned()),
                    session_id: Some(session.id.to_string()),
                    environment_info: Some(environment::info(&self.service.roots)),
                };
                let session = self.session.insert(session);
                session.reply(answer, Ok(response));
                session.attach(self.outgoing.clone());
            }
            Err(error) => drop(self.service.tasks.spawn(answer.send(Err::<(), _>(error)))),
        }
    }

    /// A new session, or the one that the client goes on with.
    fn greet(&mut self, params: Option<&Bytes>) -> Result<Box<Session>, ErrorObject> {
        if self.phase != Phase::New {
            return Err(ErrorObject::invalid_request("`initialize` was done already on this connection"));
        }
        let params: v1::InitializeParams = decode(params)?;
        let caller = self.asker.caller.name.clone();
        if let Some(id) = params.resume_session_id {
            let taken = self.service.shelf.take(&id, &caller, self.hang_up.clone());
            return taken.map_err(|why| match why {
                Unavailable::Unknown => {
                    ErrorObject::invalid_request(format!("there is no session {id:?} to resume"))
                }
                Unavailable::Attached => {
                    let message =
                        format!("session {id:?} is still attached to another connection; try again");
                    ErrorObject::new(code::SESSION_ATTACHED, message)
                }
            });
        }
        let id: Arc<str> = uuid()?.into();
        self.service.shelf.begin(&id, &caller, self.hang_up.clone());
        let client: Arc<str> = params.client_name.into();
        let asker = Asker { caller: self.asker.caller.clone(), client, session: Some(id.clone()) };
        Ok(Box::new(Session::new(id, self.service.clone(), asker)))
    }
}

impl Request {
    fn bytes(&self) -> usize {
        self.params.as_ref().map_or(0, Bytes::len)
    }
}

/// A random UUID, version 4.
fn uuid() -> Result<String, ErrorObject> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| ErrorObject::internal(error.to_string()))?;
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex = |part: &[u8]| part.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let parts = [&bytes[..4], &bytes[4..6], &bytes[6..8], &bytes[8..10], &bytes[10..]];
    Ok(parts.map(hex).join("-"))
}
