//! Routes: which fact goes to whom, and whose reader is behind.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;
use serde::Deserialize;
use wire::exec_server::v1::{self, ReadResponse};
use wire::exec_server::{ByteChunk, v0};

use super::error::ExecServerError;
use super::order::{Fact, Order};
use super::process::{ExecServerEvent, Heard};
use crate::queue;

/// Where the facts of a process go.
#[derive(Debug)]
pub(super) struct Route {
    events: queue::Sender<Heard>,
    /// Nothing for a process of v0, whose facts have no numbers.
    order: Option<Order>,
    /// Output that its reader will not see, as it is too far behind.
    skipped: u64,
    /// Output that came, or is known to be lost.
    position: u64,
    /// Whether facts were not kept, and it is not known yet how much output that was.
    has_gap: bool,
}

impl Route {
    /// For a process whose facts are numbered.
    pub(super) fn numbered(events: queue::Sender<Heard>) -> Route {
        Route { events, order: Some(Order::new()), skipped: 0, position: 0, has_gap: false }
    }

    /// For a process of v0.
    pub(super) fn plain(events: queue::Sender<Heard>) -> Route {
        Route { order: None, ..Route::numbered(events) }
    }

    /// Hands on what is ready; whether that was the last.
    fn hand_on(&mut self) -> bool {
        while let Some((seq, fact)) = self.order.as_mut().and_then(Order::next) {
            match fact {
                Fact::Output { stream, bytes, offset } => {
                    self.declare_loss(offset);
                    self.position += bytes.len() as u64;
                    self.push(ExecServerEvent::Output { stream, bytes });
                }
                Fact::Exited { code, sandbox_denied } => {
                    self.push(ExecServerEvent::Exited { exit_code: code, sandbox_denied });
                }
                Fact::Closed { offset } => {
                    self.declare_loss(offset);
                    self.push(ExecServerEvent::Closed);
                    return true;
                }
                Fact::Lost { until } => {
                    tracing::debug!(seq, until, "facts of a process that were not kept");
                    self.has_gap = true;
                }
            }
        }
        false
    }

    /// Tells what was lost before the next fact: exactly if the server says where in all output it lies.
    fn declare_loss(&mut self, offset: Option<u64>) {
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
        let mut weight = 0;
        if let ExecServerEvent::Output { bytes, .. } = &event {
            weight = bytes.len();
            if self.events.is_flooded() {
                self.skipped += weight as u64;
                return;
            }
        }
        if self.skipped > 0 {
            let bytes = Some(std::mem::take(&mut self.skipped));
            self.events.push(Ok(ExecServerEvent::Lost { bytes }), 0);
        }
        self.events.push(Ok(event), weight);
    }

    /// There will be nothing more, for this reason.
    pub(super) fn lose(self, error: &ExecServerError) {
        self.events.push(Err(error.clone()), 0);
    }
}

/// Who hears what.
#[derive(Debug, Default)]
pub(super) struct Routes {
    processes: HashMap<String, Route>,
    /// Processes whose reader is behind.
    behind: Vec<String>,
}

/// Whose fact it is.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Named {
    process_id: String,
}

impl Routes {
    pub(super) fn open(&mut self, process_id: &str, route: Route) {
        self.processes.insert(process_id.to_owned(), route);
    }

    pub(super) fn has(&self, process_id: &str) -> bool {
        self.processes.contains_key(process_id)
    }

    /// Whether to read no further until a reader has caught up. While answers are waited for it is read on.
    pub(super) fn is_stalled(&mut self, nobody_waits: bool) -> bool {
        let processes = &self.processes;
        self.behind.retain(|id| processes.get(id).is_some_and(|route| route.events.is_full()));
        nobody_waits && !self.behind.is_empty()
    }

    /// A notification about a process; after which number facts of it are to be read, if some are missing. Nothing is
    /// known if it is about no process at all.
    pub(super) fn hear(&mut self, method: &str, params: &str) -> Result<Heed, serde_json::Error> {
        let bytes = |chunk: ByteChunk| chunk.into_inner();
        let (process_id, seq, fact) = match method {
            v1::PROCESS_OUTPUT => {
                let delta: v1::ExecOutputDeltaNotification = serde_json::from_str(params)?;
                let (stream, offset) = (delta.stream, delta.output_offset);
                let fact = Fact::Output { stream, bytes: bytes(delta.chunk), offset };
                (delta.process_id, Some(delta.seq), fact)
            }
            v1::PROCESS_EXITED => {
                let exited: v1::ExecExitedNotification = serde_json::from_str(params)?;
                let fact = Fact::Exited { code: exited.exit_code, sandbox_denied: exited.sandbox_denied };
                (exited.process_id, Some(exited.seq), fact)
            }
            v1::PROCESS_CLOSED => {
                let closed: v1::ExecClosedNotification = serde_json::from_str(params)?;
                (closed.process_id, Some(closed.seq), Fact::Closed { offset: closed.output_offset })
            }
            v0::method::OUTPUT_DELTA => {
                let delta: v0::ExecOutputDeltaNotification = serde_json::from_str(params)?;
                let stream = match delta.stream {
                    v0::ExecOutputStream::Stdout => v1::ExecOutputStream::Stdout,
                    v0::ExecOutputStream::Stderr => v1::ExecOutputStream::Stderr,
                };
                (delta.process_id, None, Fact::Output { stream, bytes: bytes(delta.chunk), offset: None })
            }
            v0::method::EXITED => {
                let exited: v0::ExecExitedNotification = serde_json::from_str(params)?;
                (exited.process_id, None, Fact::Exited { code: exited.exit_code, sandbox_denied: None })
            }
            _ => return Ok(Heed::Elsewhere),
        };
        Ok(self.take(process_id, seq, fact))
    }

    fn take(&mut self, process_id: String, seq: Option<u64>, fact: Fact) -> Heed {
        let Some(route) = self.processes.get_mut(&process_id) else { return Heed::Done };
        match (&mut route.order, seq) {
            (Some(order), Some(seq)) => order.take(seq, fact),
            (None, None) => return self.take_plain(process_id, fact),
            // A vocabulary that this process was not started with.
            _ => return Heed::Done,
        }
        self.settle(process_id, None)
    }

    fn take_plain(&mut self, process_id: String, fact: Fact) -> Heed {
        let is_last = matches!(fact, Fact::Exited { .. });
        let event = match fact {
            Fact::Output { stream, bytes, .. } => ExecServerEvent::Output { stream, bytes },
            Fact::Exited { code, .. } => ExecServerEvent::Exited { exit_code: code, sandbox_denied: None },
            Fact::Closed { .. } | Fact::Lost { .. } => return Heed::Done,
        };
        let Some(route) = self.processes.get_mut(&process_id) else { return Heed::Done };
        route.push(event);
        if is_last || route.events.is_unread() {
            self.processes.remove(&process_id);
        } else if route.events.is_full() && !self.behind.contains(&process_id) {
            self.behind.push(process_id);
        }
        Heed::Done
    }

    /// A page that was read.
    pub(super) fn page(&mut self, process_id: String, read: ReadResponse) -> Heed {
        let order = self.processes.get_mut(&process_id).and_then(|route| route.order.as_mut());
        let on = order.and_then(|order| order.page(read));
        self.settle(process_id, on)
    }

    fn settle(&mut self, process_id: String, on: Option<u64>) -> Heed {
        let Some(route) = self.processes.get_mut(&process_id) else { return Heed::Done };
        if route.hand_on() || route.events.is_unread() {
            self.processes.remove(&process_id);
            return Heed::Done;
        }
        if route.events.is_full() && !self.behind.contains(&process_id) {
            self.behind.push(process_id.clone());
        }
        let after = on.or_else(|| route.order.as_mut().and_then(Order::begin_reading));
        after.map_or(Heed::Done, |after| Heed::Read { process_id, after })
    }

    /// The connection is another one: which processes are to be read, and after which number. What cannot be followed
    /// is lost.
    pub(super) fn read_anew(
        &mut self,
        error: &ExecServerError,
        but_not: &HashSet<String>,
    ) -> Vec<(String, u64)> {
        for (_, route) in self.processes.extract_if(|_, route| route.order.is_none()) {
            route.lose(error);
        }
        let ids = self.processes.keys().filter(|id| !but_not.contains(*id)).cloned().collect::<Vec<_>>();
        ids.into_iter().filter_map(|id| self.read_one_anew(&id).map(|after| (id, after))).collect()
    }

    /// After which number a process is to be read; nothing if it cannot be.
    pub(super) fn read_one_anew(&mut self, process_id: &str) -> Option<u64> {
        self.processes.get_mut(process_id)?.order.as_mut().map(Order::read_anew)
    }

    /// Nothing more comes of a process, for this reason.
    pub(super) fn lose(&mut self, process_id: &str, error: &ExecServerError) {
        if let Some(route) = self.processes.remove(process_id) {
            route.lose(error);
        }
    }

    /// Nothing goes on: everybody hears why.
    pub(super) fn lose_all(&mut self, error: &ExecServerError) {
        for (_, route) in self.processes.drain() {
            route.lose(error);
        }
    }

    /// Whose notification it is.
    pub(super) fn name(params: &str) -> Option<String> {
        serde_json::from_str::<Named>(params).ok().map(|named| named.process_id)
    }
}

/// What is to be done about a fact.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Heed {
    /// Nothing.
    Done,
    /// It is about no process.
    Elsewhere,
    /// Read what is missing.
    Read {
        /// Of which process.
        process_id: String,
        /// After which number.
        after: u64,
    },
}

/// What is asked for when facts are missing.
pub(super) fn read_params(process_id: String, after: u64) -> v1::ReadParams {
    /// What one page may hold.
    const PAGE: u64 = 1024 * 1024;
    v1::ReadParams { process_id, after_seq: Some(after), max_bytes: Some(PAGE), wait_ms: Some(0) }
}

/// The text of a result, without a copy.
pub(super) fn slice(line: &Bytes, text: &str) -> Bytes {
    line.slice_ref(text.as_bytes())
}
