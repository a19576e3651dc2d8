//! Events of processes whose start has no response yet: kept until their route exists.

use std::collections::HashMap;
use std::sync::Arc;

use super::message::ProcessRoute;
use crate::process::{EventResult, OutputLoss, ProcessEvent, ProcessEventKind};
use crate::queue::{self, queue};

/// Processes with early events; those of further ones are ignored. A session has fewer pending starts.
const MAX_EARLY_PROCESSES: usize = 1_024;

/// The events of each process, bounded in bytes like those of any other: output over the limit is dropped and reported.
#[derive(Default)]
pub(super) struct EarlyEvents {
    processes: HashMap<String, EarlyProcess>,
    /// Events of the session that were lost meanwhile, possibly of a process that starts.
    lost: u64,
}

struct EarlyProcess {
    route: ProcessRoute,
    events: queue::Receiver<EventResult>,
}

impl EarlyEvents {
    pub(super) fn push(&mut self, id: String, event: ProcessEvent) {
        if self.processes.len() >= MAX_EARLY_PROCESSES && !self.processes.contains_key(&id) {
            tracing::debug!(process = id, "ignored an event of an unknown process");
            return;
        }
        let process = self.processes.entry(id).or_insert_with(|| {
            let (sender, events) = queue(Arc::default());
            let route = ProcessRoute { events: sender, cursor: 0, is_detached: false, skipped: 0 };
            EarlyProcess { route, events }
        });
        process.route.push(event);
    }

    pub(super) fn report_loss(&mut self, events: u64) {
        self.lost += events;
    }

    pub(super) fn clear(&mut self) {
        *self = EarlyEvents::default();
    }

    /// Takes the events of a process whose route exists now, and reports of what is missing.
    pub(super) fn take(&mut self, id: &str) -> Vec<ProcessEvent> {
        let mut taken = Vec::new();
        if self.lost > 0 {
            let kind = ProcessEventKind::Lost(OutputLoss::Events(self.lost));
            taken.push(ProcessEvent { kind, cursor: None, line: None });
        }
        if let Some(mut process) = self.processes.remove(id) {
            let skipped = std::mem::take(&mut process.route.skipped);
            process.route.report_loss(skipped);
            taken.extend(std::iter::from_fn(|| process.events.try_recv()).filter_map(Result::ok));
        }
        taken
    }
}
