//! One open session: its directory, its limits, its processes, and the order of its requests.

use std::collections::HashMap;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use engine::files::Watch;
use engine::process::{Process, ProcessId};
use engine::session::Memory;
use engine::{Limits, Roots};
use futures_util::FutureExt as _;
use link::Outgoing;
use tokio::sync::mpsc;
use tokio_util::task::TaskTracker;
use wire::rexd::v1::{Encoding, RpcError};

use super::Service;
use super::answer::{Answer, Asker};
use super::call::Call;
use super::connection::Notice;
use super::errors::process_not_found;
use super::events::{self, Events, Telling};
use super::keys::Keys;
use super::order::{Kind, Order, Turn};
use super::quirks::Quirks;

/// What a client said of itself and of what it can take.
#[derive(Debug, Clone)]
pub(super) struct Manners {
    pub(super) client: Arc<str>,
    pub(super) quirks: Quirks,
    pub(super) encoding: Encoding,
    pub(super) frame_bytes: Option<usize>,
}

/// A session of this face. The connection owns it and hands it requests one by one; whatever takes time goes on in a
/// task of its own.
pub(super) struct Session {
    pub(super) id: Arc<str>,
    pub(super) service: Arc<Service>,
    pub(super) engine: engine::Session,
    pub(super) manners: Manners,
    pub(super) roots: Roots,
    pub(super) reported_roots: Vec<String>,
    pub(super) cwd: PathBuf,
    pub(super) limits: Limits,
    pub(super) watches: HashMap<String, Watch>,
    pub(super) keys: Keys,
    pub(super) order: Order,
    outgoing: Outgoing,
    notices: mpsc::Sender<Notice>,
    events: Option<Events>,
    tasks: TaskTracker,
}

/// What a session is made from.
pub(super) struct Opening {
    pub(super) id: Arc<str>,
    pub(super) service: Arc<Service>,
    pub(super) engine: engine::Session,
    pub(super) manners: Manners,
    pub(super) reported_roots: Vec<String>,
    pub(super) limits: Limits,
}

impl Session {
    pub(super) fn new(
        opening: Opening,
        outgoing: Outgoing,
        notices: mpsc::Sender<Notice>,
        tasks: TaskTracker,
    ) -> Session {
        let Opening { id, service, engine, manners, reported_roots, limits } = opening;
        Session {
            cwd: reported_roots.first().map_or_else(|| PathBuf::from("/"), PathBuf::from),
            roots: service.roots.clone(),
            id,
            service,
            engine,
            manners,
            reported_roots,
            limits,
            watches: HashMap::new(),
            keys: Keys::default(),
            order: Order::default(),
            outgoing,
            notices,
            events: None,
            tasks,
        }
    }

    /// Who asks, for the audit.
    pub(super) fn asker(&self) -> Asker {
        Asker { client: self.manners.client.clone(), session: Some(self.id.clone()) }
    }

    /// Takes a request in its order: at once if nothing before it has to end first.
    pub(super) fn take(&mut self, call: Call, answer: Answer) {
        match self.order.turn(kind(&call)) {
            Ok(turn) => self.act(call, answer, turn),
            Err(place) => self.call_back(call, answer, place),
        }
    }

    /// Has the connection take the request up again when its turn comes.
    pub(super) fn call_back(
        &self,
        call: Call,
        answer: Answer,
        place: impl Future<Output = Turn> + Send + 'static,
    ) {
        let (session_id, notices, call) = (self.id.clone(), self.notices.clone(), Box::new(call));
        self.spawn(async move {
            let turn = place.await;
            // A connection that is gone drops the request, and with it the answer.
            notices.send(Notice::Turn { session_id, call, answer, turn }).await.ok();
        });
    }

    /// Goes on with a piece of work: here if it is done at once, else in a task.
    pub(super) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let mut work: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(work);
        if work.as_mut().now_or_never().is_none() {
            self.tasks.spawn(work);
        }
    }

    /// Answers at once with an error or a result that is at hand.
    pub(super) fn reply<T: serde::Serialize + Send + 'static>(
        &self,
        answer: Answer,
        result: Result<T, RpcError>,
    ) {
        self.spawn(answer.send(result));
    }

    /// The way to this session's events; the task behind it starts with the first one.
    pub(super) fn events(&mut self) -> Events {
        if let Some(events) = &self.events {
            return events.clone();
        }
        let (sender, orders) = events::channel();
        let telling = Telling {
            session_id: self.id.clone(),
            asker: self.asker(),
            outgoing: self.outgoing.clone(),
            encoding: self.manners.encoding,
            frame_bytes: self.manners.frame_bytes,
            audit: self.service.audit.clone(),
            notices: self.notices.clone(),
        };
        self.tasks.spawn(events::run(telling, orders));
        self.events.insert(sender).clone()
    }

    /// A way to tell the connection something.
    pub(super) fn notices(&self) -> mpsc::Sender<Notice> {
        self.notices.clone()
    }

    /// A process of this session.
    pub(super) fn process(&self, id: &str) -> Result<Process, RpcError> {
        self.engine.process(&ProcessId(id.to_owned())).cloned().map_err(|_unknown| process_not_found(id))
    }

    /// A process has ended and its events are out.
    pub(super) fn finished(&mut self, id: &ProcessId) {
        let memory = Memory { count: self.limits.finished_kept, time: self.limits.finished_for };
        self.engine.finished(id, memory);
    }

    /// Ends every process and waits until they are gone.
    pub(super) async fn close(self) {
        self.engine.close().await;
    }
}

/// How a request relates to others on the same files.
fn kind(call: &Call) -> Kind {
    match call {
        Call::FsWrite(_) | Call::FsEdit(_) | Call::FsPatch(_) => Kind::Changes,
        Call::FsMkdir(_) | Call::FsRemove(_) | Call::FsRename(_) | Call::FsCopy(_) => Kind::Changes,
        Call::SessionSetCwd(_) | Call::SessionClose(_) => Kind::Changes,
        Call::FsRead(_) | Call::FsStat(_) | Call::FsWatch(_) | Call::ExecStart(_) | Call::PtyOpen(_) => {
            Kind::Looks
        }
        Call::FsList(_) | Call::FsGlob(_) | Call::FsGrep(_) => Kind::Scans,
        Call::SessionOpen(_) | Call::SessionResume(_) | Call::SessionInfo(_) => Kind::Free,
        Call::ServerPing(_) | Call::ApprovalList(_) | Call::ApprovalAnswer(_) | Call::FsUnwatch(_) => {
            Kind::Free
        }
        Call::ExecWait(_)
        | Call::ExecKill(_)
        | Call::ExecInput(_)
        | Call::ExecList(_)
        | Call::ExecAttach(_) => Kind::Free,
        Call::PtyInput(_) | Call::PtyResize(_) | Call::PtyClose(_) => Kind::Free,
    }
}
