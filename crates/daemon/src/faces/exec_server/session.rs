//! A session: its processes, its open files, and who hears of them. One connection at a time owns it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::process::Process;
use link::Outgoing;
use tokio::sync::{RwLock, mpsc, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use wire::exec_server::ErrorObject;

use super::Service;
use super::answer::{Answer, Asker};
use super::blocks::Handles;
use super::errors::failed;
use super::http::ActiveRequests;
use super::missing::Missing;
use super::numbers::Numbers;
use super::pump::{Listener, Words};
use super::writes::WriteIds;
use crate::core::sandbox::{SandboxTempDir, remove_temp_dir};
use crate::observe::metrics::SessionGauge;

/// How long what is known of a process is kept after its end.
const KEPT_AFTER_END: Duration = Duration::from_secs(30);
/// How often it is looked for what is old enough to be forgotten: each look is at every process.
const SWEEP_EVERY: Duration = Duration::from_secs(1);
/// Output of one process that is kept in memory, whoever has heard of it.
const LOG_BYTES: usize = 8 * 1024 * 1024;
/// After the end of a command, what its children still write is told until they are quiet for so long: the released
/// servers wait for them without end.
const DRAIN_IDLE: Duration = Duration::from_millis(500);
/// And for no longer than this.
const DRAIN_AT_MOST: Duration = Duration::from_secs(5);
/// Starts whose questions are settled, and that wait to be taken up.
const SETTLED_WAITING: usize = 64;

/// A process as this face has it.
pub(super) struct Managed {
    pub(super) process: Process,
    pub(super) numbers: Arc<Numbers>,
    pub(super) words: Words,
    /// Whether anything can be written to it.
    pub(super) takes_input: bool,
    pub(super) write_ids: WriteIds,
    /// What it was started with, so that the same start is known again.
    pub(super) mark: u64,
}

/// A session of this face.
pub(super) struct Session {
    pub(super) id: Arc<str>,
    pub(super) service: Arc<Service>,
    pub(super) asker: Asker,
    /// Opened with the first process; most connections of a fleet never start one.
    engine: Option<engine::Session>,
    pub(super) processes: HashMap<String, Managed>,
    swept_at: Instant,
    /// Starts that somebody is asked about, by the id of their process.
    pub(super) asked: HashMap<String, CancellationToken>,
    pub(super) inquired: mpsc::Receiver<Inquired>,
    pub(super) answered: mpsc::Sender<Inquired>,
    listener: watch::Sender<Option<Outgoing>>,
    /// What changes files goes alone, in the order it came; what looks at them goes together.
    pub(super) order: Arc<RwLock<()>>,
    pub(super) handles: Handles,
    /// What is being fetched for the client.
    pub(super) fetching: ActiveRequests,
    pub(super) missing: Option<Missing>,
    pub(super) temp: Option<SandboxTempDir>,
    pub(super) over: CancellationToken,
    pub(super) tasks: TaskTracker,
    _counted: SessionGauge,
}

/// A start that somebody was asked about, and what they said.
pub(super) struct Inquired {
    pub(super) start: Box<super::processes::Start>,
    pub(super) answer: Answer,
    /// Cancelled when it was withdrawn.
    pub(super) cancel: CancellationToken,
    pub(super) result: Result<(), engine::Error>,
}

impl Session {
    pub(super) fn new(id: Arc<str>, service: Arc<Service>, asker: Asker) -> Session {
        let (answered, inquired) = mpsc::channel(SETTLED_WAITING);
        Session {
            _counted: service.metrics.session_opened(),
            id,
            service,
            asker,
            engine: None,
            processes: HashMap::new(),
            swept_at: Instant::now(),
            asked: HashMap::new(),
            inquired,
            answered,
            listener: watch::Sender::new(None),
            order: Arc::default(),
            handles: Handles::default(),
            fetching: ActiveRequests::default(),
            missing: None,
            temp: None,
            over: CancellationToken::new(),
            tasks: TaskTracker::new(),
        }
    }

    /// What owns the processes.
    pub(super) fn engine(&mut self) -> Result<&mut engine::Session, ErrorObject> {
        let opened = match self.engine.take() {
            Some(opened) => opened,
            None => {
                let adjust = |bounds: &mut engine::process::ProcessLimits| {
                    bounds.log_bytes = LOG_BYTES;
                    bounds.drain_idle = DRAIN_IDLE;
                    bounds.drain_max = DRAIN_AT_MOST;
                };
                self.service.engine.open_uncounted_session(adjust).map_err(failed)?
            }
        };
        Ok(self.engine.insert(opened))
    }

    /// For a pump to know who listens.
    pub(super) fn listener(&self) -> Listener {
        self.listener.subscribe()
    }

    /// From now on events go along this connection.
    pub(super) fn attach(&mut self, outgoing: Outgoing) {
        self.set_away(false);
        self.listener.send_replace(Some(outgoing));
    }

    /// The connection is gone, and with it what lives only as long: processes of v0, open files, watches.
    pub(super) fn detach(&mut self) {
        self.listener.send_replace(None);
        self.set_away(true);
        self.handles = Handles::default();
        self.fetching = ActiveRequests::default();
        self.missing = None;
        self.asked.drain().for_each(|(_, cancel)| cancel.cancel());
        for managed in self.processes.values().filter(|managed| managed.words == Words::V0) {
            let process = managed.process.clone();
            self.tasks.spawn(async move { process.kill(engine::process::Signal::KILL).await });
        }
        self.processes.retain(|_, managed| managed.words != Words::V0);
    }

    fn set_away(&self, is_away: bool) {
        self.processes.values().for_each(|managed| managed.process.set_reader_disconnected(is_away));
    }

    /// A process that is known by this id.
    pub(super) fn managed(&mut self, id: &str) -> Option<&mut Managed> {
        self.processes.get_mut(id).filter(|managed| is_known(managed))
    }

    /// Knows a process by this id from now on; an older one of the same id is over.
    pub(super) fn know(&mut self, id: String, managed: Managed) {
        let before = self.processes.insert(id, managed);
        if let (Some(before), Some(engine)) = (before, self.engine.as_mut()) {
            engine.remove(before.process.id());
        }
    }

    /// Forgets what ended long enough ago, and what never ran.
    pub(super) fn sweep(&mut self) {
        self.swept_at = Instant::now();
        let engine = &mut self.engine;
        self.processes.retain(|_, managed| {
            let keeps = is_known(managed);
            if let (false, Some(engine)) = (keeps, engine.as_mut()) {
                engine.remove(managed.process.id());
            }
            keeps
        });
    }

    /// When to look for something to forget.
    pub(super) fn next_sweep(&self) -> Option<Instant> {
        (!self.processes.is_empty()).then(|| self.swept_at + SWEEP_EVERY)
    }

    /// Ends every process and waits until nothing is left of them.
    pub(super) async fn close(mut self) {
        self.over.cancel();
        self.detach();
        self.service.shelf.end(&self.id);
        self.service.approvals.remove_session(&self.id);
        drop(self.listener);
        if let Some(engine) = self.engine.take() {
            engine.close().await;
        }
        self.tasks.close();
        self.tasks.wait().await;
        if let Some(temp) = &self.temp {
            remove_temp_dir(temp.path());
        }
    }
}

/// Whether a process is still to be known: it runs, or its end is young. One of v0 is gone with its end.
fn is_known(managed: &Managed) -> bool {
    let state = managed.numbers.state();
    match state.closed_at {
        _ if state.never_ran => false,
        Some(_) if managed.words == Words::V0 => false,
        Some(closed_at) => closed_at.elapsed() < KEPT_AFTER_END,
        None => true,
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("id", &self.id).finish_non_exhaustive()
    }
}
