//! One connection: reads requests, owns the sessions they belong to, and ends them with itself.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use engine::files::Watch;
use engine::process::ProcessId;
use link::rpc::{Request, Requests, RpcLimits};
use link::{Link, Outgoing};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::Service;
use super::answer::Answer;
use super::call::Call;
use super::errors::session_not_found;
use super::methods::details;
use super::order::{Order, Turn};
use super::session::Session;

/// Notices that wait for the connection; past it the task that has one waits.
const NOTICES_WAITING: usize = 256;

/// How long a peer that has closed its side may take to read the rest.
const LAST_WORDS: Duration = Duration::from_secs(30);
/// How long it may take when the daemon was asked to end: longer than any tree takes to die.
const FAREWELL: Duration = Duration::from_secs(3);

/// What a task tells the connection it works for.
pub(super) enum Notice {
    /// A process has ended and its events are out.
    Finished { session_id: Arc<str>, process: ProcessId },
    /// A process could not be started.
    NeverRan { session_id: Arc<str>, process: ProcessId },
    /// A request's turn has come.
    Turn { session_id: Arc<str>, call: Box<Call>, answer: Answer, turn: Turn },
    /// A watch was set up.
    Watching { session_id: Arc<str>, watch_id: String, watch: Watch },
    /// A session's directory was found to be one.
    Cwd { session_id: Arc<str>, path: PathBuf, turn: Turn },
}

/// One connection and everything that lives on it.
pub(super) struct Connection {
    pub(super) service: Arc<Service>,
    pub(super) outgoing: Outgoing,
    pub(super) sessions: HashMap<Arc<str>, Session>,
    pub(super) notices: mpsc::Sender<Notice>,
    pub(super) tasks: TaskTracker,
    inbox: mpsc::Receiver<Notice>,
}

impl Connection {
    pub(super) fn new(service: Arc<Service>, link: &Link) -> Connection {
        let (notices, inbox) = mpsc::channel(NOTICES_WAITING);
        let outgoing = link.outgoing.clone();
        Connection { service, outgoing, sessions: HashMap::new(), notices, tasks: TaskTracker::new(), inbox }
    }

    /// Serves until the peer is done, the link is gone or `stop` is cancelled; then ends what is left.
    pub(super) async fn run(mut self, link: Link, stop: CancellationToken) {
        let Link { incoming, outgoing, writing } = link;
        let mut requests = Requests::new(incoming, outgoing, RpcLimits::default());
        let peer = self.outgoing.clone();
        loop {
            tokio::select! {
                // What has happened goes first: an answered set_cwd is in force for the request that follows it.
                biased;
                Some(notice) = self.inbox.recv() => self.heed(notice),
                request = requests.next() => match request {
                    Some(request) => self.answer(request),
                    None => break,
                },
                () = peer.closed() => break,
                () = stop.cancelled() => break,
            }
        }
        drop((requests, peer));
        // Who asks the daemon to end does not want to wait for a client that reads no more.
        let patience = if stop.is_cancelled() { FAREWELL } else { LAST_WORDS };
        let said = async {
            self.end().await;
            writing.finished().await
        };
        match tokio::time::timeout(patience, said).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(%error, "the peer did not take everything"),
            Err(_late) => tracing::warn!("the peer reads no more: what it was to be told is dropped"),
        }
    }

    fn answer(&mut self, request: Request) {
        let Request { method, params, reply, cancel } = request;
        let call = Call::decode(&method, &params);
        let mut answer = Answer::new(reply, cancel, self.service.audit.clone(), method);
        if let Ok(call) = &call {
            let asker = call.session_id().and_then(|id| self.sessions.get(id)).map(Session::asker);
            answer.describe(asker.unwrap_or_default(), details(call));
        }
        match call {
            Err(error) => self.spawn(answer.send(Err::<(), _>(error))),
            Ok(Call::SessionOpen(params)) => self.open(params, answer),
            Ok(Call::SessionResume(_)) => self.refuse_resume(answer),
            Ok(Call::ServerPing(_)) => self.ping(answer),
            Ok(call) => {
                let id = call.session_id().unwrap_or_default().to_owned();
                match self.sessions.get_mut(id.as_str()) {
                    Some(session) => session.take(call, answer),
                    None => self.spawn(answer.send(Err::<(), _>(session_not_found(&id)))),
                }
            }
        }
    }

    fn heed(&mut self, notice: Notice) {
        match notice {
            Notice::Finished { session_id, process } => {
                if let Some(session) = self.sessions.get_mut(&session_id) {
                    session.finished(&process);
                }
            }
            Notice::NeverRan { session_id, process } => {
                if let Some(session) = self.sessions.get_mut(&session_id) {
                    session.engine.never_ran(&process);
                }
            }
            Notice::Turn { session_id, call, answer, turn } => {
                match (*call, self.sessions.get_mut(&session_id)) {
                    (Call::SessionClose(_), _) => self.close(&session_id, answer),
                    (call, Some(session)) => session.act(call, answer, turn),
                    (_, None) => self.spawn(answer.send(Err::<(), _>(session_not_found(&session_id)))),
                }
            }
            Notice::Watching { session_id, watch_id, watch } => {
                if let Some(session) = self.sessions.get_mut(&session_id) {
                    session.watches.insert(watch_id, watch);
                }
            }
            Notice::Cwd { session_id, path, turn } => {
                if let Some(session) = self.sessions.get_mut(&session_id) {
                    session.cwd = path;
                }
                // Only now may the next in line go on: it finds the new directory.
                drop(turn);
            }
        }
    }

    /// Runs a piece of work beside the connection; it is waited for when the connection ends.
    pub(super) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn(work);
    }

    /// Finishes what was received, ends every process, and waits until all is said.
    async fn end(mut self) {
        self.settle().await;
        let Connection { sessions, tasks, mut inbox, notices, outgoing, .. } = self;
        drop((notices, outgoing));
        let closing = TaskTracker::new();
        for (_, session) in sessions {
            closing.spawn(session.close());
        }
        closing.close();
        tasks.close();
        // Whoever still has a notice must be heard, or it would wait for ever; nothing has to be done about it.
        let listen = async { while inbox.recv().await.is_some() {} };
        let wait = async { tokio::join!(closing.wait(), tasks.wait()) };
        tokio::join!(listen, wait);
    }

    /// Lets every request that is in line have its turn.
    async fn settle(&mut self) {
        let orders: Vec<Order> = self.sessions.values().map(|session| session.order.clone()).collect();
        let settled = async {
            for order in orders {
                order.settled().await;
            }
        };
        tokio::pin!(settled);
        loop {
            tokio::select! {
                Some(notice) = self.inbox.recv() => self.heed(notice),
                () = &mut settled => break,
            }
        }
        while let Ok(notice) = self.inbox.try_recv() {
            self.heed(notice);
        }
    }
}
