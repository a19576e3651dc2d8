//! Rendering: every number as a family of the page, in one fixed order.

use std::time::UNIX_EPOCH;

use super::{Counts, MethodCounts};
use super::cells::{BOUNDS_MICROS, Cell, Cells};
use super::labels::{Label, Transport};
use super::own;
use super::text::{Kind, Page};

/// The whole page.
pub(super) fn page(counts: &Counts) -> String {
    let mut page = Page::default();
    daemon(&mut page, counts);
    requests(&mut page, counts);
    connections(&mut page, counts);
    sessions(&mut page, counts);
    processes(&mut page, counts);
    troubles(&mut page, counts);
    page.finish()
}

fn daemon(page: &mut Page, counts: &Counts) {
    page.family("rexd_build_info", Kind::Gauge, "Always 1; which build this is.");
    page.sample(&[("version", env!("CARGO_PKG_VERSION"))], 1);
    let started = counts.started.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    page.single("rexd_start_time_seconds", Kind::Gauge, "When the daemon started, since 1970.", started);
    let own = [
        ("rexd_open_descriptors", "Descriptors the daemon has open.", own::open_descriptors()),
        ("rexd_max_descriptors", "Descriptors the daemon may have open.", own::max_descriptors()),
        ("rexd_resident_memory_bytes", "Memory the daemon occupies.", own::resident_bytes()),
    ];
    for (name, help, value) in own {
        if let Some(value) = value {
            page.single(name, Kind::Gauge, help, value);
        }
    }
}

fn requests(page: &mut Page, counts: &Counts) {
    page.family("rexd_requests_total", Kind::Counter, "Requests that were answered or withdrawn.");
    for row in &counts.requests {
        for (outcome, count) in row.outcomes.iter() {
            let labels = [("face", row.face), ("method", row.method), ("outcome", outcome.word())];
            page.sample(&labels, count);
        }
    }
    page.single(
        "rexd_requests_in_flight",
        Kind::Gauge,
        "Requests that are not answered yet.",
        counts.in_flight.get(),
    );
    page.family("rexd_request_duration_seconds", Kind::Histogram, "Time from a request to its answer.");
    for row in &counts.requests {
        durations(page, row);
    }
}

/// A method that was never called has no histogram: most daemons see a few methods of many.
fn durations(page: &mut Page, MethodCounts { face, method, durations, .. }: &MethodCounts) {
    let (counts, sum) = durations.read();
    let count = counts.last().copied().unwrap_or_default();
    if count == 0 {
        return;
    }
    let bounds = BOUNDS_MICROS.iter().map(|micros| seconds(*micros)).chain(["+Inf".to_owned()]);
    for (bound, count) in bounds.zip(&counts) {
        page.sample_of("_bucket", &[("face", face), ("method", method), ("le", &bound)], count);
    }
    page.sample_of("_sum", &[("face", face), ("method", method)], sum);
    page.sample_of("_count", &[("face", face), ("method", method)], count);
}

/// Microseconds as seconds, without rounding.
fn seconds(micros: u64) -> String {
    let text = format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn connections(page: &mut Page, counts: &Counts) {
    labelled(page, "rexd_connections", Kind::Gauge, "Connections that are open.", &counts.connections);
    let help = "Connections that were taken.";
    labelled(page, "rexd_connections_total", Kind::Counter, help, &counts.connections_total);
    page.family("rexd_link_bytes_total", Kind::Counter, "Bytes on the wire.");
    for (transport, cells) in Transport::ALL.iter().zip(&counts.link_bytes) {
        for (direction, bytes) in cells.iter() {
            page.sample(&[("transport", transport.word()), ("direction", direction.word())], bytes);
        }
    }
    page.family("rexd_queue_depth", Kind::Gauge, "How many wait in a queue.");
    for (queue, depth) in counts.queues.depths() {
        page.sample(&[("queue", queue)], depth);
    }
}

fn sessions(page: &mut Page, counts: &Counts) {
    let help = "Sessions, held by a connection or waiting to be resumed.";
    labelled(page, "rexd_sessions", Kind::Gauge, help, &counts.sessions);
    counter(page, "rexd_sessions_opened_total", "Sessions that were opened.", &counts.sessions_opened);
    counter(page, "rexd_sessions_resumed_total", "Sessions taken up after a cut.", &counts.sessions_resumed);
}

fn processes(page: &mut Page, counts: &Counts) {
    let help = "Processes that run, owned by the daemon or by keepers it knows.";
    labelled(page, "rexd_processes_running", Kind::Gauge, help, &counts.processes);
    counter(page, "rexd_processes_started_total", "Processes that were started.", &counts.processes_started);
    let help = "Processes that ended, by what ended them.";
    labelled(page, "rexd_processes_ended_total", Kind::Counter, help, &counts.processes_ended);
    let help = "Bytes that processes wrote.";
    labelled(page, "rexd_output_bytes_total", Kind::Counter, help, &counts.output_bytes);
}

fn troubles(page: &mut Page, counts: &Counts) {
    counter(page, "rexd_lost_bytes_total", "Output that readers were told they lost.", &counts.lost_bytes);
    counter(page, "rexd_lost_events_total", "Events that clients were told they lost.", &counts.lost_events);
    let help = "Connections and requests turned away, by reason.";
    labelled(page, "rexd_refused_total", Kind::Counter, help, &counts.refused);
    counter(page, "rexd_audit_lost_total", "Audit records that could not be written.", &counts.audit_lost);
    counter(page, "rexd_spans_exported_total", "Spans a collector took.", &counts.spans_exported);
    counter(page, "rexd_spans_dropped_total", "Spans that were given up.", &counts.spans_dropped);
}

fn counter(page: &mut Page, name: &'static str, help: &str, cell: &Cell) {
    page.single(name, Kind::Counter, help, cell.get());
}

fn labelled<L: Label>(page: &mut Page, name: &'static str, kind: Kind, help: &str, cells: &Cells<L>) {
    page.family(name, kind, help);
    for (label, value) in cells.iter() {
        page.sample(&[(L::KEY, label.word())], value);
    }
}
