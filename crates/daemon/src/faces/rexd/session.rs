//! One open session: its directory, its limits, its processes, and the order of its requests.

use std::collections::HashMap;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use engine::approval::ApproverRegistration;
use engine::files::FileWatcher;
use engine::process::{Process, ProcessId};
use engine::session::FinishedRetention;
use engine::{Limits, Roots};
use futures_util::FutureExt as _;
use link::Outgoing;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use wire::rexd::v1::{Encoding, RpcError};

use super::Service;
use super::answer::{Answer, Asker};
use super::approver::SessionApprover;
use super::call::Call;
use super::confining::Confining;
use super::errors::{process_not_found, session_not_found};
use super::events::{self, Changes, Events, Telling};
use super::keys::Keys;
use super::listener::Listener;
use super::mailbox::{Asked, Handle, Letter, Notice, OnLink};
use super::order::{Kind, Order, Turn};
use super::permission::Permit;
use super::presence::Presence;
use super::quirks::Quirks;
use crate::observe::metrics::{QueueGauge, SessionGauge};

/// Processes of others that one session has within reach; past it those that have ended are forgotten.
const GUESTS_KEPT: usize = 64;

/// What a client said of itself and of what it can take.
#[derive(Debug, Clone)]
pub(super) struct Manners {
    pub(super) quirks: Quirks,
    pub(super) encoding: Encoding,
    /// The same, if the client named it.
    pub(super) encoding_asked: Option<Encoding>,
    pub(super) frame_bytes: Option<usize>,
    /// Whether it would have its link compressed.
    pub(super) wants_zstd: bool,
    /// Whether it can answer what is asked.
    pub(super) attends: bool,
}

/// A session of this face. Its own task drives it, letter by letter; whatever takes time goes on in a task beside it.
pub(super) struct Session {
    pub(super) id: Arc<str>,
    pub(super) asker: Asker,
    pub(super) service: Arc<Service>,
    pub(super) engine: engine::Session,
    pub(super) manners: Manners,
    pub(super) roots: Roots,
    pub(super) reported_roots: Vec<String>,
    pub(super) cwd: PathBuf,
    pub(super) limits: Limits,
    pub(super) watches: HashMap<String, FileWatcher>,
    /// Processes of other sessions that this one has attached to.
    pub(super) guests: HashMap<ProcessId, Process>,
    /// Requests on processes that are being looked for, in their order; as many as may be in flight.
    pub(super) reaching: HashMap<ProcessId, Vec<Asked>>,
    pub(super) keys: Keys,
    pub(super) order: Order,
    pub(super) presence: Presence,
    /// What the request that is being taken up may do.
    pub(super) permit: Permit,
    /// As whom it answers what is asked.
    pub(super) approver: Arc<SessionApprover>,
    /// What confines its processes.
    pub(super) confining: Confining,
    /// Held while it hears what is asked; nothing if its client cannot decide anything.
    attendance: Option<ApproverRegistration>,
    /// What to show to take it up again, if that was asked for.
    pub(super) resume_token: Option<String>,
    /// Tells others since when nobody hears it.
    pub(super) silent_since: Arc<AtomicU64>,
    /// How it is counted.
    pub(super) counted: SessionGauge,
    /// Shows how many letters wait.
    _watched: QueueGauge,
    /// Cancelled when nothing of its own runs any more: nobody waits for what belongs to others.
    pub(super) over: CancellationToken,
    /// The answer that is due when nothing of the session is left.
    pub(super) closing: Option<Answer>,
    pub(super) letters: mpsc::Sender<Letter>,
    pub(super) tasks: TaskTracker,
    /// How to end the links that have or had it, if another may take their place.
    pub(super) links: Vec<(u64, CancellationToken)>,
    outgoing: Option<Outgoing>,
    events: Option<(Events, Changes)>,
}

/// What a session is made from.
pub(super) struct Opening {
    pub(super) asker: Asker,
    pub(super) service: Arc<Service>,
    pub(super) engine: engine::Session,
    pub(super) manners: Manners,
    pub(super) roots: Roots,
    pub(super) reported_roots: Vec<String>,
    pub(super) limits: Limits,
    pub(super) resume_token: Option<String>,
    pub(super) confining: Confining,
}

impl Session {
    /// A session whose events go along `link`, or wait until somebody asks for them.
    pub(super) fn new(opening: Opening, handle: &Handle, link: Option<OnLink>) -> Session {
        let Opening {
            asker,
            service,
            engine,
            manners,
            roots,
            reported_roots,
            limits,
            resume_token,
            confining,
        } = opening;
        let may_resume = resume_token.is_some();
        let (outgoing, hang_up) = link.map(|link| (link.outgoing, link.hang_up)).unzip();
        let confined = asker.caller.roots.as_ref().map(|_| roots.paths().to_vec());
        let approver =
            Arc::new(SessionApprover::new(handle.clone(), service.runtime_policy.clone(), confined));
        let manners_attend = manners.attends;
        Session {
            cwd: reported_roots.first().map_or_else(|| PathBuf::from("/"), PathBuf::from),
            roots,
            id: handle.id.clone(),
            asker,
            engine,
            manners,
            reported_roots,
            limits,
            watches: HashMap::new(),
            guests: HashMap::new(),
            reaching: HashMap::new(),
            keys: Keys::default(),
            order: Order::default(),
            presence: match &outgoing {
                Some(_) => Presence::on_link(may_resume),
                None => Presence::unheard(may_resume),
            },
            permit: Permit::default(),
            confining,
            attendance: manners_attend.then(|| service.approvals.register_approver(approver.clone())),
            approver,
            resume_token,
            silent_since: handle.silent_since.clone(),
            counted: service.metrics.session_opened(),
            _watched: service.metrics.queue("session_letters", waiting(&handle.letters)),
            over: CancellationToken::new(),
            closing: None,
            letters: handle.letters.clone(),
            tasks: TaskTracker::new(),
            links: hang_up.flatten().map(|hang_up| (0, hang_up)).into_iter().collect(),
            outgoing,
            events: None,
            service,
        }
    }

    /// Takes a request in its order: at once if nothing before it has to end first.
    pub(super) fn take(&mut self, mut asked: Box<Asked>) {
        asked.answer.keeps_busy(self.presence.asked());
        let kind = match kind(&asked.call) {
            // What is judged first, beside the session, must not be overtaken meanwhile.
            Kind::Follows if self.service.runtime_policy.current().policy.restricts_files() => Kind::Changes,
            kind => kind,
        };
        match self.order.turn(kind) {
            Ok(turn) => self.act(*asked, turn),
            Err(place) => self.call_back(asked, place),
        }
    }

    /// Has the request taken up again when its turn comes.
    fn call_back(&self, asked: Box<Asked>, place: impl Future<Output = Turn> + Send + 'static) {
        let letters = self.letters.clone();
        self.spawn(async move {
            let turn = place.await;
            // A session that is over drops the request, and with it the answer.
            letters.send(Letter::Notice(Notice::Turn { asked, turn })).await.ok();
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
        self.events_and_changes().0.clone()
    }

    /// The way to tell the events who listens, if there are any yet.
    pub(super) fn changes(&self) -> Option<Changes> {
        self.events.as_ref().map(|(_, changes)| changes.clone())
    }

    /// As `events`, with the way to tell them who listens.
    pub(super) fn events_and_changes(&mut self) -> &(Events, Changes) {
        // Not `get_or_insert_with`: making it needs the rest of the session.
        let made = match self.events.take() {
            Some(made) => made,
            None => self.start_telling(),
        };
        self.events.insert(made)
    }

    fn start_telling(&mut self) -> (Events, Changes) {
        let (events, changes, inbox) = events::channel();
        let keeps = self.resume_token.is_some() || !self.presence.is_on_link();
        let telling = Telling {
            session_id: self.id.clone(),
            asker: self.asker.clone(),
            encoding: self.manners.encoding,
            frame_bytes: self.manners.frame_bytes,
            audit: self.service.audit.clone(),
            metrics: self.service.metrics.clone(),
            letters: self.letters.clone(),
            listener: self.outgoing.take().map(|outgoing| (0, Listener::Link(outgoing))),
            keep_bytes: if keeps { self.service.retention.resume_bytes.max(1) } else { 0 },
        };
        self.tasks.spawn(events::run(telling, inbox));
        (events, changes)
    }

    /// The link is gone before anything was told.
    pub(super) fn drop_link(&mut self) {
        self.outgoing = None;
    }

    /// A way to tell the session's own task something.
    pub(super) fn letters(&self) -> mpsc::Sender<Letter> {
        self.letters.clone()
    }

    /// A process of this session, or one it has attached to.
    pub(super) fn process(&self, id: &str) -> Result<Process, RpcError> {
        let name = ProcessId(id.to_owned());
        let found = self.engine.process(&name).ok().or_else(|| self.guests.get(&name));
        found.cloned().ok_or_else(|| process_not_found(id))
    }

    /// Brings a process of another session within reach.
    pub(super) fn welcome_guest(&mut self, process: Process) {
        if self.guests.len() >= GUESTS_KEPT {
            // Each holds its output in memory, whatever its own session has forgotten.
            self.guests.retain(|_, guest| guest.state().closed.is_none());
        }
        self.guests.insert(process.id().clone(), process);
    }

    /// A process has ended and its events are out.
    pub(super) fn finished(&mut self, id: &ProcessId) {
        let memory = FinishedRetention { count: self.limits.finished_kept, time: self.limits.finished_for };
        self.engine.retain_finished(id, memory);
    }

    /// Lets go of everything but what a client may still read: no further order, no watch, no link.
    pub(super) fn let_go(&mut self) {
        self.watches.clear();
        self.guests.clear();
        self.attendance = None;
        self.service.approvals.remove_session(&self.id);
        for asked in std::mem::take(&mut self.reaching).into_values().flatten() {
            self.refuse(asked.answer, session_not_found(&self.id));
        }
        self.events = None;
        self.outgoing = None;
    }
}

/// How many letters wait, for as long as there is a mailbox.
fn waiting(letters: &mpsc::Sender<Letter>) -> impl Fn() -> usize + Send + Sync + 'static {
    let letters = letters.downgrade();
    move || letters.upgrade().map_or(0, |letters| letters.max_capacity() - letters.capacity())
}

/// How a request relates to others on the same files.
fn kind(call: &Call) -> Kind {
    match call {
        Call::FsWrite(_) | Call::FsEdit(_) | Call::FsPatch(_) => Kind::Follows,
        Call::FsMkdir(_) | Call::FsRemove(_) | Call::FsRename(_) | Call::FsCopy(_) => Kind::Follows,
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
