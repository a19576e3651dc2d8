//! One connection: reads requests and hands them to the sessions they belong to, which end with it or wait for another.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use link::rpc::{Request, Requests, RpcLimits};
use link::{Link, Outgoing};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use wire::rexd::v1;

use super::answer::Answer;
use super::call::Call;
use super::desk;
use super::errors::{session_not_found, unknown_session};
use super::mailbox::{Asked, Handle, Letter, OnLink, Resume};
use super::methods::{open, ping};
use super::{Arrival, FAREWELL, Service};
use crate::net::auth::Caller;
use crate::observe::metrics::Transport;

/// Sessions of one connection among which those that ended are looked for; a client may open and close any number.
const SEATS_SWEPT_AT: usize = 64;
/// How long a peer that comes for one session may take to say so.
const RESUME_WITHIN: Duration = Duration::from_secs(10);
/// How long a peer that has closed its side may take to read the rest.
const LAST_WORDS: Duration = Duration::from_secs(30);

/// A session on this connection.
struct Seat {
    handle: Handle,
    /// Which of its links this one is.
    attachment: u64,
    /// Whether it waits for its client when the link is gone.
    may_wait: bool,
}

/// One connection and the sessions it speaks for.
pub(super) struct Connection {
    service: Arc<Service>,
    arrival: Arc<Arrival>,
    caller: Arc<Caller>,
    outgoing: Outgoing,
    seats: HashMap<Arc<str>, Seat>,
    sweep_at: usize,
    tasks: TaskTracker,
    /// Cancelled when another link has taken the place of this one.
    hang_up: CancellationToken,
    /// Whether it has to take up its session before anything else.
    has_to_resume: bool,
}

impl Connection {
    pub(super) fn new(service: Arc<Service>, arrival: Arrival, link: &Link) -> Connection {
        Connection {
            service,
            caller: Arc::new(arrival.caller.clone()),
            has_to_resume: arrival.resumes.is_some(),
            arrival: Arc::new(arrival),
            outgoing: link.outgoing.clone(),
            seats: HashMap::new(),
            sweep_at: SEATS_SWEPT_AT,
            tasks: TaskTracker::new(),
            hang_up: CancellationToken::new(),
        }
    }

    /// Serves until the peer is done, the link is gone or `stop` is cancelled; then ends what is left, but for the
    /// sessions that wait for their client.
    pub(super) async fn run(mut self, link: Link, stop: CancellationToken) {
        let Link { incoming, outgoing, writing } = link;
        let mut requests = Requests::new(incoming, outgoing, RpcLimits::default());
        self.listen(&mut requests, &stop).await;
        if let Some(lingering) = &self.service.lingering {
            lingering.hurry();
        }
        if self.hang_up.is_cancelled() {
            // Its sessions go on elsewhere; what is still to be written here is read by nobody.
            writing.abort();
        }
        let is_ending = self.service.stop.is_cancelled();
        if !is_ending && self.seats.values().any(|seat| seat.may_wait) {
            // Their answers would keep the link open for somebody who is gone.
            requests.withdraw_all();
        }
        drop(requests);
        // Who asks the daemon to end does not want to wait for a client that reads no more.
        let patience = if is_ending || stop.is_cancelled() { FAREWELL } else { LAST_WORDS };
        let said = async {
            self.end(is_ending).await;
            writing.finished().await
        };
        match tokio::time::timeout(patience, said).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(%error, "the peer did not take everything"),
            Err(_late) => tracing::warn!("the peer reads no more: what it was to be told is dropped"),
        }
    }

    /// Answers requests until there is nobody to answer, or nothing to be said to them.
    async fn listen(&mut self, requests: &mut Requests, stop: &CancellationToken) {
        let (peer, hang_up) = (self.outgoing.clone(), self.hang_up.clone());
        let service_stop = self.service.stop.clone();
        let too_late = Instant::now() + RESUME_WITHIN;
        loop {
            tokio::select! {
                biased;
                request = requests.next() => match request {
                    Some(request) => self.answer(request).await,
                    None => return,
                },
                () = peer.closed() => return,
                () = hang_up.cancelled() => return,
                () = stop.cancelled() => return,
                () = service_stop.cancelled() => return,
                () = sleep_until(too_late), if self.has_to_resume => return,
            }
            if self.has_to_resume {
                // It was told no, and there is nothing else here for it.
                return;
            }
        }
    }

    async fn answer(&mut self, request: Request) {
        let find = |id: &str| self.seats.get(id).map(|seat| seat.handle.clone());
        let (asked, handle) = match desk::receive(&self.service, (&self.arrival, &self.caller), request, find)
        {
            Ok(received) => received,
            Err(turned) => return self.reply(turned.answer, turned.error),
        };
        let Asked { call, answer, .. } = asked;
        if self.has_to_resume && !self.comes_for(&call) {
            return self.reply(answer, unknown_session(call.session_id().unwrap_or_default()));
        }
        match (call, handle) {
            (Call::SessionOpen(params), _) => self.open(&params, answer),
            (Call::SessionResume(params), _) => self.resume(params, answer).await,
            (Call::ServerPing(_), _) => drop(self.tasks.spawn(ping(answer))),
            (call, Some(handle)) => {
                if let Err(Asked { call, answer, .. }) = handle.ask(Asked::new(call, answer)).await {
                    self.seats.remove(&handle.id);
                    self.reply(answer, session_not_found(call.session_id().unwrap_or_default()));
                }
            }
            (call, None) => self.reply(answer, session_not_found(call.session_id().unwrap_or_default())),
        }
    }

    /// Whether this request takes up the session that this connection came for.
    fn comes_for(&self, call: &Call) -> bool {
        let wanted = self.arrival.resumes.as_deref();
        matches!(call, Call::SessionResume(params) if Some(params.session_id.as_str()) == wanted)
    }

    /// This link, as a session has it. One of standard streams can be taken the place of.
    fn on_link(&self) -> OnLink {
        let is_stdio = self.arrival.transport == Transport::Stdio;
        OnLink { outgoing: self.outgoing.clone(), hang_up: is_stdio.then(|| self.hang_up.clone()) }
    }

    fn open(&mut self, params: &v1::SessionOpen, answer: Answer) {
        match open(&self.service, &self.caller, params, Some(self.on_link())) {
            Ok(opened) => {
                let may_wait = opened.result.resume_token.is_some();
                let handle = opened.handle.clone();
                if let Some(lingering) = self.service.lingering.as_ref().filter(|_| may_wait) {
                    let (session, handle) = (handle.id.clone(), handle.clone());
                    lingering.attend(&self.service, session, async move { handle.ended().await });
                }
                self.seat(Seat { handle, attachment: 0, may_wait });
                self.tasks.spawn(opened.answer(params.clone(), answer, Some(self.outgoing.clone())));
            }
            Err(error) => self.reply(answer, error),
        }
    }

    /// Has a session that waits for its client continue on this link.
    async fn resume(&mut self, params: v1::SessionResume, answer: Answer) {
        let Some(handle) = self.service.sessions.find(&params.session_id, &self.caller) else {
            return self.reply(answer, unknown_session(&params.session_id));
        };
        let (verdict, heard) = oneshot::channel();
        let mut link = self.on_link();
        if self.seats.contains_key(&*params.session_id) {
            // It would take its own place.
            link.hang_up = None;
        }
        let resume = Resume {
            seen: u64::try_from(params.last_event_id).unwrap_or(0),
            token: params.resume_token,
            link: Some(link),
            answer,
            verdict,
        };
        handle.tell(Letter::Resume(Box::new(resume))).await;
        if let Ok(Some(attachment)) = heard.await {
            self.has_to_resume = false;
            self.seat(Seat { handle, attachment, may_wait: true });
        }
    }

    /// Adds a session. Those that are over go when there are twice as many as were alive the last time.
    fn seat(&mut self, seat: Seat) {
        if self.seats.len() >= self.sweep_at {
            self.seats.retain(|_, seat| !seat.handle.is_over());
            self.sweep_at = (self.seats.len() * 2).max(SEATS_SWEPT_AT);
        }
        self.seats.insert(seat.handle.id.clone(), seat);
    }

    fn reply(&self, answer: Answer, error: wire::jsonrpc::RpcError) {
        self.tasks.spawn(answer.send(Err::<(), _>(error)));
    }

    /// Lets go of every session: those that may wait do, the others end, and are waited for.
    async fn end(self, is_ending: bool) {
        let Connection { seats, tasks, outgoing, .. } = self;
        drop(outgoing);
        let mut ending = Vec::new();
        for (_, seat) in seats {
            if seat.may_wait && !is_ending {
                seat.handle.tell(Letter::Cut(seat.attachment)).await;
            } else {
                seat.handle.tell(Letter::End).await;
                ending.push(seat.handle);
            }
        }
        for handle in ending {
            handle.ended().await;
        }
        tasks.close();
        tasks.wait().await;
    }
}
