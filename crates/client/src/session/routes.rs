//! Routes the events of a session to the processes, watches and subscriptions they belong to.

use std::borrow::Cow;
use std::collections::HashMap;

use bytes::Bytes;
use serde::Deserialize;
use wire::jsonrpc::Call;
use wire::rexd::v1::{self, FsWatchResult};

use super::early::EarlyEvents;
use super::message::{NewRoute, ProcessRoute, Received};
use crate::approvals::ApprovalEvent;
use crate::error::Error;
use crate::files::WatchEvent;
use crate::options::OutputMode;
use crate::process::{OutputLoss, ProcessError, ProcessEvent, ProcessEventKind, ProcessExit};
use crate::queue;

/// Approval requests that are kept before the first subscription.
const MAX_EARLY_APPROVALS: usize = 16;

/// Where the events of a session go.
pub(super) struct EventRoutes {
    processes: HashMap<String, ProcessRoute>,
    watches: HashMap<String, queue::Sender<WatchEvent>>,
    approvals: Vec<queue::Sender<ApprovalEvent>>,
    /// Pending approval requests before the first subscription: a command may start together with its session.
    early_approvals: Option<Vec<ApprovalEvent>>,
    /// Events of unknown processes: after a lost connection they may arrive before the response to their start.
    early: EarlyEvents,
    /// Processes whose reader is slow.
    slow: Vec<String>,
    last_event_id: u64,
    output: OutputMode,
}

/// The params of an output event; the data is borrowed where it has no escapes.
#[derive(Deserialize)]
struct OutputParams<'a> {
    #[serde(borrow)]
    process_id: Cow<'a, str>,
    /// Absent from servers that keep no sessions.
    #[serde(default)]
    event_id: u64,
    #[serde(default)]
    cursor: Option<u64>,
    #[serde(borrow)]
    encoding: Cow<'a, str>,
    #[serde(borrow)]
    data: Cow<'a, str>,
}

/// The member that every event has.
#[derive(Deserialize)]
struct EventNumber {
    #[serde(default)]
    event_id: Option<u64>,
}

/// The process that an event or a response belongs to.
#[derive(Deserialize)]
struct ProcessParams<'a> {
    #[serde(borrow)]
    process_id: Cow<'a, str>,
    /// In the response to an attachment: where its output continues.
    #[serde(default)]
    cursor: Option<u64>,
}

impl EventRoutes {
    pub(super) fn new(output: OutputMode) -> EventRoutes {
        EventRoutes {
            processes: HashMap::new(),
            watches: HashMap::new(),
            approvals: Vec::new(),
            early_approvals: Some(Vec::new()),
            early: EarlyEvents::default(),
            slow: Vec::new(),
            last_event_id: 0,
            output,
        }
    }

    /// The number of the last event that was delivered.
    pub(super) fn last_event_id(&self) -> u64 {
        self.last_event_id
    }

    pub(super) fn subscribe_approvals(&mut self, events: queue::Sender<ApprovalEvent>) {
        for event in self.early_approvals.take().into_iter().flatten() {
            events.push(event, 0);
        }
        self.approvals.push(events);
    }

    /// Whether the connection must not be read until a slow reader has caught up. Pending requests keep it being read:
    /// responses overtake events, so they arrive soon.
    pub(super) fn is_stalled(&mut self, is_idle: bool) -> bool {
        let processes = &self.processes;
        self.slow.retain(|id| processes.get(id).is_some_and(|route| route.events.is_full()));
        is_idle && !self.slow.is_empty()
    }

    /// Adds the route that a successful response creates.
    pub(super) fn open(&mut self, route: NewRoute, result: &str) {
        match route {
            NewRoute::None => {}
            NewRoute::Process(route) => self.open_process(route, result),
            NewRoute::Reattached { mut route, .. } => {
                if let Ok(attached) = serde_json::from_str::<v1::ExecAttachResult>(result) {
                    route.report_loss(attached.lost);
                }
                self.open_process(route, result);
            }
            NewRoute::Watch(events) => {
                if let Ok(watch) = serde_json::from_str::<FsWatchResult>(result) {
                    self.watches.insert(watch.watch_id, events);
                }
            }
        }
    }

    /// Adds the route of a process, and delivers the events that arrived before it.
    fn open_process(&mut self, mut route: ProcessRoute, result: &str) {
        let Ok(params) = serde_json::from_str::<ProcessParams<'_>>(result) else { return };
        route.cursor = params.cursor.unwrap_or(route.cursor);
        let id = params.process_id.into_owned();
        let early = self.early.take(&id);
        self.processes.insert(id.clone(), route);
        for event in early {
            // The last of them may be the exit, which ends the route.
            self.deliver(&id, event);
        }
    }

    /// Delivers an event. While starts are pending, events of unknown processes are kept for them.
    pub(super) fn dispatch(&mut self, received: &Received, call: &Call<'_>, has_starts: bool) {
        let Some(params) = call.params.map(|raw| raw.get()) else { return };
        if !has_starts {
            self.early.clear();
        }
        let kept = (self.output == OutputMode::Verbatim).then(|| received.text.clone());
        let delivered = match call.method.as_ref() {
            "exec.stdout" => self.deliver_output(params, (received, kept), ProcessEventKind::Stdout),
            "exec.stderr" => self.deliver_output(params, (received, kept), ProcessEventKind::Stderr),
            "pty.output" => self.deliver_output(params, (received, kept), ProcessEventKind::Terminal),
            "exec.exit" => self.deliver_event::<v1::ExecExit>(params, kept, |exit| {
                ProcessEventKind::Exit(ProcessExit::from(exit))
            }),
            "pty.exit" => self.deliver_event::<v1::PtyExit>(params, kept, |exit| {
                ProcessEventKind::Exit(ProcessExit::from(exit))
            }),
            "exec.lost" => self.deliver_event::<v1::ExecLost>(params, kept, |lost| {
                ProcessEventKind::Lost(OutputLoss::from(lost))
            }),
            "exec.error" => self.deliver_event::<v1::ExecError>(params, kept, |error| {
                ProcessEventKind::Error(ProcessError::from(error))
            }),
            other => self.dispatch_other((other, has_starts), params, kept),
        };
        match delivered {
            Ok(Some((id, event))) if has_starts => self.early.push(id, event),
            Ok(_) => {}
            Err(error) => tracing::debug!(%error, method = %call.method, "ignored an invalid event"),
        }
        if let Ok(EventNumber { event_id: Some(id) }) = serde_json::from_str(params) {
            self.last_event_id = self.last_event_id.max(id);
        }
    }

    /// Delivers output; returns the event if its process is unknown.
    fn deliver_output(
        &mut self,
        params: &str,
        (received, line): (&Received, Option<Bytes>),
        kind: fn(Bytes) -> ProcessEventKind,
    ) -> Result<Option<(String, ProcessEvent)>, serde_json::Error> {
        let params: OutputParams<'_> = serde_json::from_str(params)?;
        let bytes = match (&received.payload, params.encoding.as_ref()) {
            (Some(payload), _) => payload.clone(),
            (None, "base64") => wire::base64::decode(&params.data).map_err(serde::de::Error::custom)?.into(),
            (None, _) => params.data.into_owned().into_bytes().into(),
        };
        let event = ProcessEvent { kind: kind(bytes), cursor: params.cursor, line };
        self.last_event_id = self.last_event_id.max(params.event_id);
        Ok(self.deliver(&params.process_id, event))
    }

    /// Delivers any other event of a process; returns it if the process is unknown.
    fn deliver_event<'a, T: Deserialize<'a>>(
        &mut self,
        params: &'a str,
        line: Option<Bytes>,
        kind: impl FnOnce(T) -> ProcessEventKind,
    ) -> Result<Option<(String, ProcessEvent)>, serde_json::Error> {
        let process: ProcessParams<'_> = serde_json::from_str(params)?;
        let event = ProcessEvent { kind: kind(serde_json::from_str(params)?), cursor: None, line };
        Ok(self.deliver(&process.process_id, event))
    }

    fn deliver(&mut self, id: &str, event: ProcessEvent) -> Option<(String, ProcessEvent)> {
        let Some(route) = self.processes.get_mut(id) else { return Some((id.to_owned(), event)) };
        let is_last = matches!(event.kind, ProcessEventKind::Exit(_));
        route.push(event);
        // Without a reader it stays until the exit: its events are not those of a pending start.
        if is_last {
            self.processes.remove(id);
        } else if route.events.is_full() && !self.slow.iter().any(|slow| slow == id) {
            self.slow.push(id.to_owned());
        }
        None
    }

    fn dispatch_other(
        &mut self,
        (method, has_starts): (&str, bool),
        params: &str,
        line: Option<Bytes>,
    ) -> Result<Option<(String, ProcessEvent)>, serde_json::Error> {
        match method {
            "fs.changed" => {
                let changed: v1::FsChanged = serde_json::from_str(params)?;
                if let Some(events) = self.watches.get(&changed.watch_id) {
                    events.push(WatchEvent { changed: Ok(changed), line }, params.len());
                }
            }
            "approval.requested" => {
                self.publish(&ApprovalEvent::Requested(Box::new(serde_json::from_str(params)?)))
            }
            "approval.decided" => self.publish(&ApprovalEvent::Decided(serde_json::from_str(params)?)),
            "session.lost" => {
                self.report_loss(serde_json::from_str::<v1::SessionLost>(params)?.lost, has_starts)
            }
            _ => {}
        }
        Ok(None)
    }

    fn publish(&mut self, event: &ApprovalEvent) {
        match (&mut self.early_approvals, event) {
            (Some(early), ApprovalEvent::Requested(_)) if early.len() < MAX_EARLY_APPROVALS => {
                early.push(event.clone());
            }
            (Some(early), ApprovalEvent::Decided(decided)) => early.retain(|earlier| {
                !matches!(earlier, ApprovalEvent::Requested(asked) if asked.approval_id == decided.approval_id)
            }),
            _ => {}
        }
        self.approvals.retain(|events| !events.is_closed());
        for events in &self.approvals {
            events.push(event.clone(), 0);
        }
    }

    /// Reports to every process that this many events of the session are lost, possibly its own.
    pub(super) fn report_loss(&mut self, events: u64, has_starts: bool) {
        if has_starts {
            self.early.report_loss(events);
        }
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

    /// Prepares for another session: returns the routes of detached processes and fails all others.
    pub(super) fn reset(&mut self, error: &Error) -> Vec<(String, ProcessRoute)> {
        self.last_event_id = 0;
        self.early.clear();
        self.slow.clear();
        for (_, events) in self.watches.drain() {
            events.push(WatchEvent { changed: Err(error.clone()), line: None }, 0);
        }
        let (detached, lost): (Vec<_>, Vec<_>) =
            self.processes.drain().partition(|(_, route)| route.is_detached && !route.events.is_closed());
        for (_, route) in lost {
            route.fail(error);
        }
        detached
    }

    /// Fails every route with the same error.
    pub(super) fn fail_all(&mut self, error: &Error) {
        for (_, route) in self.reset(error) {
            route.fail(error);
        }
        self.approvals.clear();
    }
}
