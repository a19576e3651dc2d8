//! Routes: which event goes to whom, and what has been handed on so far.

use std::borrow::Cow;
use std::collections::HashMap;

use bytes::Bytes;
use serde::Deserialize;
use wire::jsonrpc::Call;
use wire::rexd::v1::{self, FsWatchResult};

use super::letter::{Opens, ProcessRoute};
use crate::approvals::ApprovalEvent;
use crate::error::Error;
use crate::files::WatchEvent;
use crate::options::OutputMode;
use crate::process::{OutputLoss, ProcessError, ProcessEvent, ProcessEventKind, ProcessExit};
use crate::queue;

/// Events of processes whose start has not been answered yet; past it they are dropped and declared.
const MOST_EARLY: usize = 1_024;

/// Who hears what.
pub(super) struct Routes {
    processes: HashMap<String, ProcessRoute>,
    watches: HashMap<String, queue::Sender<WatchEvent>>,
    listeners: Vec<queue::Sender<ApprovalEvent>>,
    /// Events of processes that nobody knows yet: after a cut they may come before the answer to their start.
    early: Vec<(String, ProcessEvent)>,
    /// Processes whose reader is behind.
    behind: Vec<String>,
    last_event_id: u64,
    form: OutputMode,
}

/// A piece of output, without a copy of its data where there is nothing to unescape.
#[derive(Deserialize)]
struct Piece<'a> {
    #[serde(borrow)]
    process_id: Cow<'a, str>,
    /// Servers that keep no sessions do not count.
    #[serde(default)]
    event_id: u64,
    #[serde(default)]
    cursor: Option<u64>,
    #[serde(borrow)]
    encoding: Cow<'a, str>,
    #[serde(borrow)]
    data: Cow<'a, str>,
}

/// What every event has.
#[derive(Deserialize)]
struct Numbered {
    #[serde(default)]
    event_id: Option<u64>,
}

/// Whose event it is.
#[derive(Deserialize)]
struct Named<'a> {
    #[serde(borrow)]
    process_id: Cow<'a, str>,
}

impl Routes {
    pub(super) fn new(form: OutputMode) -> Routes {
        Routes {
            processes: HashMap::new(),
            watches: HashMap::new(),
            listeners: Vec::new(),
            early: Vec::new(),
            behind: Vec::new(),
            last_event_id: 0,
            form,
        }
    }

    /// The number of the last event that was handed on.
    pub(super) fn last_event_id(&self) -> u64 {
        self.last_event_id
    }

    pub(super) fn attend(&mut self, events: queue::Sender<ApprovalEvent>) {
        self.listeners.push(events);
    }

    /// Whether to read no further until a reader has caught up. Answers overtake events on their way, so while one is
    /// waited for it is read on: it comes soon.
    pub(super) fn is_stalled(&mut self, nobody_waits: bool) -> bool {
        let processes = &self.processes;
        self.behind.retain(|id| processes.get(id).is_some_and(|route| route.events.is_full()));
        nobody_waits && !self.behind.is_empty()
    }

    /// What an answer brought into being.
    pub(super) fn open(&mut self, opens: Opens, result: &str) {
        match opens {
            Opens::Nothing => {}
            Opens::Process(mut route) => {
                let Ok(named) = serde_json::from_str::<Named<'_>>(result) else { return };
                let id = named.process_id.into_owned();
                for (_, event) in self.early.extract_if(.., |(early, _)| *early == id) {
                    route.push(event);
                }
                self.processes.insert(id, route);
            }
            Opens::Watch(events) => {
                if let Ok(watch) = serde_json::from_str::<FsWatchResult>(result) {
                    self.watches.insert(watch.watch_id, events);
                }
            }
        }
    }

    /// Hands an event on. While starts wait for their answer, events of processes that nobody knows are kept for them.
    pub(super) fn event(&mut self, line: &Bytes, call: &Call<'_>, has_starts: bool) {
        let Some(params) = call.params.map(|raw| raw.get()) else { return };
        if !has_starts {
            self.early.clear();
        }
        let kept = (self.form == OutputMode::Verbatim).then(|| line.clone());
        let handed = match call.method.as_ref() {
            "exec.stdout" => self.output(params, kept, ProcessEventKind::Stdout),
            "exec.stderr" => self.output(params, kept, ProcessEventKind::Stderr),
            "pty.output" => self.output(params, kept, ProcessEventKind::Terminal),
            "exec.exit" => self.happened::<v1::ExecExit>(params, kept, |exit| {
                ProcessEventKind::Exit(ProcessExit::from(exit))
            }),
            "pty.exit" => self.happened::<v1::PtyExit>(params, kept, |exit| {
                ProcessEventKind::Exit(ProcessExit::from(exit))
            }),
            "exec.lost" => self.happened::<v1::ExecLost>(params, kept, |lost| {
                ProcessEventKind::Lost(OutputLoss::from(lost))
            }),
            "exec.error" => self.happened::<v1::ExecError>(params, kept, |error| {
                ProcessEventKind::Error(ProcessError::from(error))
            }),
            other => self.other(other, params, kept),
        };
        match handed {
            Ok(Some((id, event))) if has_starts && self.early.len() < MOST_EARLY => {
                self.early.push((id, event))
            }
            Ok(_) => {}
            Err(error) => tracing::debug!(%error, method = %call.method, "an event that cannot be read"),
        }
        if let Ok(Numbered { event_id: Some(id) }) = serde_json::from_str(params) {
            self.last_event_id = self.last_event_id.max(id);
        }
    }

    /// A piece of output; comes back if nobody knows its process.
    fn output(
        &mut self,
        params: &str,
        line: Option<Bytes>,
        what: fn(Bytes) -> ProcessEventKind,
    ) -> Result<Option<(String, ProcessEvent)>, serde_json::Error> {
        let piece: Piece<'_> = serde_json::from_str(params)?;
        let bytes = match piece.encoding.as_ref() {
            "base64" => wire::base64::decode(&piece.data).map_err(serde::de::Error::custom)?,
            _ => piece.data.into_owned().into_bytes(),
        };
        let event = ProcessEvent { kind: what(bytes.into()), cursor: piece.cursor, line };
        self.last_event_id = self.last_event_id.max(piece.event_id);
        Ok(self.hand_on(&piece.process_id, event))
    }

    /// Something else that happened to a process; comes back if nobody knows it.
    fn happened<'a, T: Deserialize<'a>>(
        &mut self,
        params: &'a str,
        line: Option<Bytes>,
        what: impl FnOnce(T) -> ProcessEventKind,
    ) -> Result<Option<(String, ProcessEvent)>, serde_json::Error> {
        let named: Named<'_> = serde_json::from_str(params)?;
        let event = ProcessEvent { kind: what(serde_json::from_str(params)?), cursor: None, line };
        Ok(self.hand_on(&named.process_id, event))
    }

    fn hand_on(&mut self, id: &str, event: ProcessEvent) -> Option<(String, ProcessEvent)> {
        let Some(route) = self.processes.get_mut(id) else { return Some((id.to_owned(), event)) };
        let is_last = matches!(event.kind, ProcessEventKind::Exit(_));
        route.push(event);
        if is_last || route.events.is_unread() {
            self.processes.remove(id);
        } else if route.events.is_full() && !self.behind.iter().any(|behind| behind == id) {
            self.behind.push(id.to_owned());
        }
        None
    }

    fn other(
        &mut self,
        method: &str,
        params: &str,
        line: Option<Bytes>,
    ) -> Result<Option<(String, ProcessEvent)>, serde_json::Error> {
        match method {
            "fs.changed" => {
                let changed: v1::FsChanged = serde_json::from_str(params)?;
                if let Some(events) = self.watches.get(&changed.watch_id) {
                    let weight = params.len();
                    events.push(WatchEvent { changed: Ok(changed), line }, weight);
                }
            }
            "approval.requested" => {
                self.tell(&ApprovalEvent::Requested(Box::new(serde_json::from_str(params)?)))
            }
            "approval.decided" => self.tell(&ApprovalEvent::Decided(serde_json::from_str(params)?)),
            "session.lost" => self.missed(serde_json::from_str::<v1::SessionLost>(params)?.lost),
            _ => {}
        }
        Ok(None)
    }

    fn tell(&mut self, event: &ApprovalEvent) {
        self.listeners.retain(|listener| !listener.is_unread());
        for listener in &self.listeners {
            listener.push(event.clone(), 0);
        }
    }

    /// So many events are gone: whoever listens has to know that something may be missing.
    pub(super) fn missed(&mut self, events: u64) {
        if events > 0 {
            for route in self.processes.values_mut() {
                route.push(ProcessEvent {
                    kind: ProcessEventKind::Lost(OutputLoss::Events(events)),
                    cursor: None,
                    line: None,
                });
            }
        }
    }

    /// Another session goes on: the routes of what outlives sessions, and everybody else hears why nothing more comes.
    pub(super) fn begin_anew(&mut self, error: &Error) -> Vec<(String, ProcessRoute)> {
        self.last_event_id = 0;
        self.early.clear();
        self.behind.clear();
        for (_, events) in self.watches.drain() {
            events.push(WatchEvent { changed: Err(error.clone()), line: None }, 0);
        }
        let (detached, lost): (Vec<_>, Vec<_>) =
            self.processes.drain().partition(|(_, route)| route.is_detached);
        for (_, route) in lost {
            route.lose(error);
        }
        detached
    }

    /// Nothing goes on: everybody hears why.
    pub(super) fn lose_all(&mut self, error: &Error) {
        for (_, route) in self.begin_anew(error) {
            route.lose(error);
        }
        self.listeners.clear();
    }
}
