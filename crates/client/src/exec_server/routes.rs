//! Routes the events of processes to their readers.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;
use serde::Deserialize;
use wire::exec_server::v1::{self, ReadResponse};
use wire::exec_server::{ByteChunk, v0};

use super::error::ExecServerError;
use super::process::{ExecServerEvent, ExecServerEventResult};
use super::sequencer::{EventSequencer, SequencedEvent};
use crate::queue;

/// Where the events of a process go.
#[derive(Debug)]
pub(super) struct ProcessEventRoute {
    events: queue::Sender<ExecServerEventResult>,
    /// `None` for a process of v0, whose events have no numbers.
    sequencer: Option<EventSequencer>,
    /// Bytes of output that were dropped because the queue is over its limit.
    skipped: u64,
    /// The end of the output that was received or is known to be lost.
    position: u64,
    /// Whether events were dropped, and the number of bytes is not known yet.
    has_gap: bool,
}

impl ProcessEventRoute {
    /// A route for numbered events.
    pub(super) fn sequenced(events: queue::Sender<ExecServerEventResult>) -> ProcessEventRoute {
        let sequencer = Some(EventSequencer::new());
        ProcessEventRoute { events, sequencer, skipped: 0, position: 0, has_gap: false }
    }

    /// A route for the events of v0.
    pub(super) fn unsequenced(events: queue::Sender<ExecServerEventResult>) -> ProcessEventRoute {
        ProcessEventRoute { sequencer: None, ..ProcessEventRoute::sequenced(events) }
    }

    /// Delivers the events that are in order; returns whether the last one was among them.
    fn deliver(&mut self) -> bool {
        while let Some((seq, event)) = self.sequencer.as_mut().and_then(EventSequencer::next) {
            match event {
                SequencedEvent::Output { stream, bytes, offset } => {
                    self.report_loss(offset);
                    self.position += bytes.len() as u64;
                    self.push(ExecServerEvent::Output { stream, bytes });
                }
                SequencedEvent::Exited { code, sandbox_denied } => {
                    self.push(ExecServerEvent::Exited { exit_code: code, sandbox_denied });
                }
                SequencedEvent::Closed { offset } => {
                    self.report_loss(offset);
                    self.push(ExecServerEvent::Closed);
                    return true;
                }
                SequencedEvent::Lost { until } => {
                    tracing::debug!(seq, until, "events of a process were dropped");
                    self.has_gap = true;
                }
            }
        }
        false
    }

    /// Reports the loss before the next event, with its size if the server sends positions.
    fn report_loss(&mut self, offset: Option<u64>) {
        let has_gap = std::mem::take(&mut self.has_gap);
        match offset {
            Some(offset) if offset > self.position => {
                let bytes = Some(offset - self.position);
                self.position = offset;
                self.push(ExecServerEvent::Lost { bytes });
            }
            None if has_gap => self.push(ExecServerEvent::Lost { bytes: None }),
            _ => {}
        }
    }

    fn push(&mut self, event: ExecServerEvent) {
        let mut size = 0;
        if let ExecServerEvent::Output { bytes, .. } = &event {
            size = bytes.len();
            if self.events.is_over_limit() {
                self.skipped += size as u64;
                return;
            }
        }
        if self.skipped > 0 {
            let bytes = Some(std::mem::take(&mut self.skipped));
            self.events.push(Ok(ExecServerEvent::Lost { bytes }), 0);
        }
        self.events.push(Ok(event), size);
    }

    /// Ends the events with an error.
    pub(super) fn fail(self, error: &ExecServerError) {
        self.events.push(Err(error.clone()), 0);
    }
}

/// The routes of all processes of one connection.
#[derive(Debug, Default)]
pub(super) struct ProcessRoutes {
    processes: HashMap<String, ProcessEventRoute>,
    /// Processes whose reader is slow.
    slow: Vec<String>,
}

/// The process that a notification belongs to.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ProcessParams {
    process_id: String,
}

impl ProcessRoutes {
    pub(super) fn open(&mut self, process_id: &str, route: ProcessEventRoute) {
        self.processes.insert(process_id.to_owned(), route);
    }

    pub(super) fn has(&self, process_id: &str) -> bool {
        self.processes.contains_key(process_id)
    }

    /// Whether the connection must not be read until a slow reader has caught up. Pending requests keep it being read.
    pub(super) fn is_stalled(&mut self, is_idle: bool) -> bool {
        let processes = &self.processes;
        self.slow.retain(|id| processes.get(id).is_some_and(|route| route.events.is_full()));
        is_idle && !self.slow.is_empty()
    }

    /// Delivers a notification about a process and returns what to do next.
    pub(super) fn dispatch(&mut self, method: &str, params: &str) -> Result<Disposition, serde_json::Error> {
        let bytes = |chunk: ByteChunk| chunk.into_inner();
        let (process_id, seq, event) = match method {
            v1::PROCESS_OUTPUT => {
                let delta: v1::ExecOutputDeltaNotification = serde_json::from_str(params)?;
                let (stream, offset) = (delta.stream, delta.output_offset);
                let event = SequencedEvent::Output { stream, bytes: bytes(delta.chunk), offset };
                (delta.process_id, Some(delta.seq), event)
            }
            v1::PROCESS_EXITED => {
                let exited: v1::ExecExitedNotification = serde_json::from_str(params)?;
                let event =
                    SequencedEvent::Exited { code: exited.exit_code, sandbox_denied: exited.sandbox_denied };
                (exited.process_id, Some(exited.seq), event)
            }
            v1::PROCESS_CLOSED => {
                let closed: v1::ExecClosedNotification = serde_json::from_str(params)?;
                (closed.process_id, Some(closed.seq), SequencedEvent::Closed { offset: closed.output_offset })
            }
            v0::method::OUTPUT_DELTA => {
                let delta: v0::ExecOutputDeltaNotification = serde_json::from_str(params)?;
                let stream = match delta.stream {
                    v0::ExecOutputStream::Stdout => v1::ExecOutputStream::Stdout,
                    v0::ExecOutputStream::Stderr => v1::ExecOutputStream::Stderr,
                };
                (
                    delta.process_id,
                    None,
                    SequencedEvent::Output { stream, bytes: bytes(delta.chunk), offset: None },
                )
            }
            v0::method::EXITED => {
                let exited: v0::ExecExitedNotification = serde_json::from_str(params)?;
                (
                    exited.process_id,
                    None,
                    SequencedEvent::Exited { code: exited.exit_code, sandbox_denied: None },
                )
            }
            _ => return Ok(Disposition::NoProcess),
        };
        Ok(self.add(process_id, seq, event))
    }

    fn add(&mut self, process_id: String, seq: Option<u64>, event: SequencedEvent) -> Disposition {
        let Some(route) = self.processes.get_mut(&process_id) else { return Disposition::Done };
        match (&mut route.sequencer, seq) {
            (Some(sequencer), Some(seq)) => sequencer.add(seq, event),
            (None, None) => return self.add_unsequenced(process_id, event),
            // The process was started with the other version of the protocol.
            _ => return Disposition::Done,
        }
        self.settle(process_id, None)
    }

    fn add_unsequenced(&mut self, process_id: String, event: SequencedEvent) -> Disposition {
        let is_last = matches!(event, SequencedEvent::Exited { .. });
        let event = match event {
            SequencedEvent::Output { stream, bytes, .. } => ExecServerEvent::Output { stream, bytes },
            SequencedEvent::Exited { code, .. } => {
                ExecServerEvent::Exited { exit_code: code, sandbox_denied: None }
            }
            SequencedEvent::Closed { .. } | SequencedEvent::Lost { .. } => return Disposition::Done,
        };
        let Some(route) = self.processes.get_mut(&process_id) else { return Disposition::Done };
        route.push(event);
        if is_last || route.events.is_closed() {
            self.processes.remove(&process_id);
        } else if route.events.is_full() && !self.slow.contains(&process_id) {
            self.slow.push(process_id);
        }
        Disposition::Done
    }

    /// Adds a page of output.
    pub(super) fn add_page(&mut self, process_id: String, read: ReadResponse) -> Disposition {
        let sequencer = self.processes.get_mut(&process_id).and_then(|route| route.sequencer.as_mut());
        let next = sequencer.and_then(|sequencer| sequencer.add_page(read));
        self.settle(process_id, next)
    }

    /// Delivers what is in order and returns whether a page has to be read.
    fn settle(&mut self, process_id: String, next: Option<u64>) -> Disposition {
        let Some(route) = self.processes.get_mut(&process_id) else { return Disposition::Done };
        if route.deliver() || route.events.is_closed() {
            self.processes.remove(&process_id);
            return Disposition::Done;
        }
        if route.events.is_full() && !self.slow.contains(&process_id) {
            self.slow.push(process_id.clone());
        }
        let after = next.or_else(|| route.sequencer.as_mut().and_then(EventSequencer::begin_reading));
        after.map_or(Disposition::Done, |after| Disposition::Read { process_id, after })
    }

    /// Prepares for a new connection: returns which processes to read after which number, except those being started,
    /// and fails the routes of v0.
    pub(super) fn restart_all(
        &mut self,
        error: &ExecServerError,
        starting: &HashSet<String>,
    ) -> Vec<(String, u64)> {
        for (_, route) in self.processes.extract_if(|_, route| route.sequencer.is_none()) {
            route.fail(error);
        }
        let ids = self.processes.keys().filter(|id| !starting.contains(*id)).cloned().collect::<Vec<_>>();
        ids.into_iter().filter_map(|id| self.restart_reading(&id).map(|after| (id, after))).collect()
    }

    /// After which number to read a process on a new connection; `None` if it is unknown.
    pub(super) fn restart_reading(&mut self, process_id: &str) -> Option<u64> {
        self.processes.get_mut(process_id)?.sequencer.as_mut().map(EventSequencer::restart_reading)
    }

    /// Ends the events of one process with an error.
    pub(super) fn fail(&mut self, process_id: &str, error: &ExecServerError) {
        if let Some(route) = self.processes.remove(process_id) {
            route.fail(error);
        }
    }

    /// Ends the events of all processes with an error.
    pub(super) fn fail_all(&mut self, error: &ExecServerError) {
        for (_, route) in self.processes.drain() {
            route.fail(error);
        }
    }

    /// Whether a notification is an event of a process.
    pub(super) fn is_event(method: &str) -> bool {
        let methods = [
            v1::PROCESS_OUTPUT,
            v1::PROCESS_EXITED,
            v1::PROCESS_CLOSED,
            v0::method::OUTPUT_DELTA,
            v0::method::EXITED,
        ];
        methods.contains(&method)
    }

    /// The process that a notification belongs to.
    pub(super) fn process_id(params: &str) -> Option<String> {
        serde_json::from_str::<ProcessParams>(params).ok().map(|params| params.process_id)
    }
}

/// What to do after a notification or page.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Disposition {
    /// Nothing.
    Done,
    /// Publish it: it belongs to no process.
    NoProcess,
    /// Read missing events.
    Read {
        /// The process.
        process_id: String,
        /// The number after which to read.
        after: u64,
    },
}

/// The params of a read of missing events.
pub(super) fn read_params(process_id: String, after: u64) -> v1::ReadParams {
    /// Bytes of one page.
    const PAGE_BYTES: u64 = 1024 * 1024;
    v1::ReadParams { process_id, after_seq: Some(after), max_bytes: Some(PAGE_BYTES), wait_ms: Some(0) }
}

/// A part of a received line, without a copy.
pub(super) fn slice(line: &Bytes, text: &str) -> Bytes {
    line.slice_ref(text.as_bytes())
}
