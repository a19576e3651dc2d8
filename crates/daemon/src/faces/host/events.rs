//! The events of a session of this face: none, because the journal of a run has its events.

use bytes::Bytes;
use engine::process::Process;

use crate::core::events::{LogEntry, ProcessEvents};
use crate::core::request::Details;

/// Encodes no event at all.
#[derive(Debug)]
pub struct NoEvents;

impl ProcessEvents for NoEvents {
    fn encode(&mut self, _entry: &LogEntry<'_>, _next_id: u64) -> Vec<Bytes> {
        Vec::new()
    }

    fn audit_end(&self, _process: &Process) -> (&'static str, Details) {
        ("run.exited", Vec::new())
    }
}
