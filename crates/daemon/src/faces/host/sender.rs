//! Sends the events of all runs to one hub: each in order, none twice on a connection, and few beyond the last
//! acknowledgement.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use engine::process::{Cursor, Item, ProcessId};
use futures_util::FutureExt as _;
use link::Outgoing;
use tokio::sync::Notify;
use wire::hub::v1::{Envelope, RunLost, kind};

use super::Host;
use super::connection::encode;
use super::journal::{OutputRange, StoredContent, StoredEvent};
use super::output::output_data;
use super::run::{Run, now};
use crate::core::session::Face as _;
use crate::keeper::StoredOutput;

/// Events of all runs beyond the last acknowledgement; beyond it the host waits.
const MAX_EVENTS: usize = 1_024;
/// Bytes of these events; beyond it the host waits.
const MAX_BYTES: usize = 4 * 1024 * 1024;
/// Events of one run that are read at once, before it is the turn of another run.
const BATCH: usize = 32;

/// The events that one hub gets on one connection.
pub(super) struct Sender {
    host: Arc<Host>,
    hub: String,
    outgoing: Outgoing,
    window: Mutex<Window>,
    /// Notified when the window has room again.
    room: Notify,
    unstored: Mutex<Unstored>,
    has_unstored: Notify,
}

/// Acknowledgements that are not stored yet.
#[derive(Default)]
struct Unstored {
    /// The last one of each run.
    acknowledged: HashMap<String, i64>,
    is_closed: bool,
}

#[derive(Default)]
struct Window {
    runs: HashMap<String, SentRun>,
    events: usize,
    bytes: usize,
}

impl Window {
    /// Counts an event as sent; false if the hub rejects its run. `None` without room.
    fn reserve(&mut self, run_id: &str, seq: i64, bytes: usize) -> Option<bool> {
        let has_room = self.events < MAX_EVENTS && self.bytes < MAX_BYTES;
        let sent = self.runs.get_mut(run_id).filter(|sent| has_room || sent.is_rejected)?;
        if sent.is_rejected {
            return Some(false);
        }
        sent.next = seq + 1;
        sent.unacknowledged.push_back((seq, bytes));
        self.events += 1;
        self.bytes += bytes;
        Some(true)
    }

    /// The events of a run up to `seq` are not waited for any more.
    fn release(&mut self, run_id: &str, seq: i64) {
        let Some(sent) = self.runs.get_mut(run_id) else { return };
        while let Some((_, bytes)) = sent.unacknowledged.pop_front_if(|(sent, _)| *sent <= seq) {
            self.events -= 1;
            self.bytes -= bytes;
        }
    }

    /// The run of the largest event that is not acknowledged.
    fn run_of_largest(&self) -> Option<String> {
        let sizes = self.runs.iter().filter_map(|(run_id, sent)| {
            Some((sent.unacknowledged.iter().map(|(_, bytes)| *bytes).max()?, run_id))
        });
        sizes.max().map(|(_, run_id)| run_id.clone())
    }
}

/// What was sent of one run.
#[derive(Default)]
struct SentRun {
    /// The next event to send.
    next: i64,
    /// The events that are not acknowledged, with their sizes.
    unacknowledged: VecDeque<(i64, usize)>,
    stored: Option<StoredOutput>,
    /// Whether the hub does not accept events of this run on this connection.
    is_rejected: bool,
}

/// An event as it is sent.
struct EncodedEvent {
    seq: i64,
    message: Bytes,
}

impl Sender {
    pub(super) fn new(host: Arc<Host>, hub: &str, outgoing: Outgoing) -> Sender {
        Sender {
            host,
            hub: hub.to_owned(),
            outgoing,
            window: Mutex::default(),
            room: Notify::new(),
            unstored: Mutex::default(),
            has_unstored: Notify::new(),
        }
    }

    fn window(&self) -> MutexGuard<'_, Window> {
        self.window.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A connecting hub has exactly the events of a run up to `seq`. Returns when this is stored: the first event that is
    /// sent depends on it.
    pub(super) async fn greeted(&self, run_id: &str, seq: i64) {
        let Some(run) = self.host.runs.get(run_id).filter(|_| seq >= 0) else { return };
        let (host, hub) = (self.host.clone(), self.hub.clone());
        let store = move || run.journal().set_acknowledged(&hub, seq, host.runs.hubs());
        // Fails only while the runtime ends.
        tokio::task::spawn_blocking(store).await.ok();
    }

    /// The hub has every event of a run up to `seq`. Stored later, so that no command waits for the disk.
    pub(super) fn acknowledged(&self, run_id: &str, seq: i64) {
        self.window().release(run_id, seq);
        self.room.notify_one();
        if self.host.runs.get(run_id).is_some() {
            let mut unstored = self.unstored();
            let last = unstored.acknowledged.entry(run_id.to_owned()).or_default();
            *last = seq.max(*last);
            self.has_unstored.notify_one();
        }
    }

    /// Stores acknowledgements, the last one of each run, until [`Sender::close`]. Must run to its end: one that is stored
    /// after the next greeting would count events that a hub has lost.
    pub(super) async fn store_acknowledgements(&self) {
        let mut is_closed = false;
        while !is_closed {
            self.has_unstored.notified().await;
            let unstored = std::mem::take(&mut *self.unstored());
            is_closed = unstored.is_closed;
            let (host, hub) = (self.host.clone(), self.hub.clone());
            let store = move || {
                for (run_id, seq) in unstored.acknowledged {
                    if let Some(run) = host.runs.get(&run_id) {
                        run.journal().acknowledge(&hub, seq, host.runs.hubs());
                    }
                }
            };
            // Fails only while the runtime ends.
            tokio::task::spawn_blocking(store).await.ok();
        }
    }

    /// No more acknowledgements arrive.
    pub(super) fn close(&self) {
        self.unstored().is_closed = true;
        self.has_unstored.notify_one();
    }

    fn unstored(&self) -> MutexGuard<'_, Unstored> {
        self.unstored.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stops sending a run on this connection. Its events that were sent are never acknowledged, and must not hold up other
    /// runs.
    pub(super) fn reject(&self, run_id: &str) {
        if self.host.runs.get(run_id).is_none() {
            return;
        }
        {
            let window = &mut *self.window();
            window.runs.entry(run_id.to_owned()).or_default().is_rejected = true;
            window.release(run_id, i64::MAX);
        }
        self.room.notify_one();
    }

    /// Stops sending the run of the largest event. A hub cannot read the run of a message that is too large for it, and if
    /// it has rejected any event for its size, then this one too.
    pub(super) fn reject_largest(&self) {
        let largest = self.window().run_of_largest();
        if let Some(run_id) = largest {
            tracing::error!(
                hub = self.hub,
                run = run_id,
                "an event is too large for the hub; not sending its run"
            );
            self.reject(&run_id);
        }
    }

    /// Sends events as they are written, until the connection ends.
    pub(super) async fn run(&self) {
        let mut changes = self.host.runs.changes();
        loop {
            changes.mark_unchanged();
            let mut has_sent = false;
            for run in self.host.runs.all() {
                match self.send_batch(&run).await {
                    Some(sent) => has_sent |= sent,
                    None => return,
                }
            }
            if !has_sent {
                tokio::select! {
                    changed = changes.changed() => if changed.is_err() { return },
                    () = self.outgoing.closed() => return,
                }
            }
        }
    }

    /// Sends the next events of a run; whether there were any, or `None` if the connection has ended.
    async fn send_batch(&self, run: &Arc<Run>) -> Option<bool> {
        let (next, stored) = {
            let (acknowledged, last) = {
                let journal = run.journal();
                (journal.acknowledged_by(&self.hub), journal.last())
            };
            let window = &mut *self.window();
            let sent = window.runs.entry(run.record.run_id.clone()).or_default();
            sent.next = sent.next.max(acknowledged + 1);
            if sent.next > last || sent.is_rejected {
                return Some(false);
            }
            (sent.next, sent.stored.take())
        };
        let (source, host) = (run.clone(), self.host.clone());
        let read = tokio::task::spawn_blocking(move || {
            let mut reader = EventReader { host, run: source, stored };
            let events = reader.read(next);
            (events, reader.stored)
        });
        let (events, stored) = read.await.ok()?;
        let is_empty = events.is_empty();
        for EncodedEvent { seq, message } in events {
            if !self.reserve(&run.record.run_id, seq, message.len()).await? {
                break;
            }
            self.outgoing.event(message).await.ok()?;
        }
        if let Some(sent) = self.window().runs.get_mut(&run.record.run_id) {
            sent.stored = stored;
        }
        Some(!is_empty)
    }

    /// Waits until the window has room for an event, and counts it as sent. False if the hub rejects the run.
    async fn reserve(&self, run_id: &str, seq: i64, bytes: usize) -> Option<bool> {
        loop {
            if let Some(is_accepted) = self.window().reserve(run_id, seq, bytes) {
                return Some(is_accepted);
            }
            tokio::select! {
                () = self.room.notified() => {}
                () = self.outgoing.closed() => return None,
            }
        }
    }
}

/// Reads events of a run with their output. Blocks.
struct EventReader {
    host: Arc<Host>,
    run: Arc<Run>,
    stored: Option<StoredOutput>,
}

impl EventReader {
    fn read(&mut self, next: i64) -> Vec<EncodedEvent> {
        let (first, lost_bytes, events) = {
            let journal = self.run.journal();
            let events = journal.read(next.max(journal.first()), BATCH).unwrap_or_else(|error| {
                tracing::error!(%error, run = self.run.record.run_id, "cannot read the journal");
                Vec::new()
            });
            (journal.first(), journal.lost_bytes(), events)
        };
        let mut encoded = Vec::new();
        if next < first {
            encoded.extend(self.lost(next, first - 1, lost_bytes, now()));
        }
        for event in events {
            encoded.extend(self.encode(event));
        }
        encoded
    }

    fn encode(&mut self, event: StoredEvent) -> Option<EncodedEvent> {
        let StoredEvent { seq, ts, content } = event;
        match content {
            StoredContent::Data { kind, data } => {
                let envelope = Envelope { kind, ts: Some(ts), host_id: None, run_id: None, seq: None, data };
                self.event(seq, envelope)
            }
            StoredContent::Output(range) => match self.output(range) {
                Some(bytes) => {
                    let data = output_data(range.is_stderr, &bytes);
                    self.event(seq, Envelope::new(kind::RUN_OUTPUT, ts, &data).ok()?)
                }
                // Its log has dropped it meanwhile.
                None => self.lost(seq, seq, range.to - range.from, ts),
            },
        }
    }

    fn lost(&self, first_seq: i64, last_seq: i64, bytes: u64, ts: String) -> Option<EncodedEvent> {
        let lost = RunLost { first_seq, last_seq, bytes };
        self.event(last_seq, Envelope::new(kind::RUN_LOST, ts, &lost).ok()?)
    }

    fn event(&self, seq: i64, envelope: Envelope) -> Option<EncodedEvent> {
        let run_id = Some(self.run.record.run_id.clone());
        let envelope = Envelope { run_id, seq: Some(seq), ..envelope };
        Some(EncodedEvent { seq, message: encode(&self.host.settings.identity, envelope)? })
    }

    /// The output of an event: from memory, from the log on disk, or from the log of a process of this daemon.
    fn output(&mut self, range: OutputRange) -> Option<Bytes> {
        if let Some(bytes) = self.run.recent_output(range) {
            return Some(bytes);
        }
        if self.run.record.is_kept {
            if self.stored.is_none() {
                let keepers = self.host.core().keepers.as_ref()?;
                self.stored = keepers.stored_output(&ProcessId(self.run.record.process.clone())).ok();
            }
            return self.stored.as_mut()?.read(Cursor(range.from), Cursor(range.to));
        }
        let length = usize::try_from(range.to - range.from).ok()?;
        let mut reader = self.run.process().ok()?.reader(Cursor(range.from));
        let mut found = bytes::BytesMut::new();
        while found.len() < length {
            match reader.next(length - found.len()).now_or_never()? {
                Item::Output { bytes, .. } => found.extend_from_slice(&bytes),
                Item::Exited { .. } => {}
                Item::Lost { .. } | Item::Closed(_) | Item::Disconnected => return None,
            }
        }
        Some(found.freeze())
    }
}
