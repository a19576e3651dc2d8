//! Renders the counters as metric families, in a fixed order.

use std::time::UNIX_EPOCH;

use super::cells::{BOUNDS_MICROS, Cell, Cells};
use super::labels::{Label, Transport};
use super::own;
use super::text::{MetricType, Page};
use super::{Counts, MethodCounts};

/// The whole page in the exposition format.
pub(super) fn page(counts: &Counts) -> String {
    let mut page = Page::default();
    daemon(&mut page, counts);
    requests(&mut page, counts);
    connections(&mut page, counts);
    sessions(&mut page, counts);
    processes(&mut page, counts);
    losses(&mut page, counts);
    page.finish()
}

fn daemon(page: &mut Page, counts: &Counts) {
    page.family("rexd_build_info", MetricType::Gauge, "Always 1; the label is the version.");
    page.sample(&[("version", env!("CARGO_PKG_VERSION"))], 1);
    let started = counts.started.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    page.single(
        "rexd_start_time_seconds",
        MetricType::Gauge,
        "Start time of the daemon since the Unix epoch.",
        started,
    );
    let own = [
        ("rexd_open_descriptors", "Open descriptors.", own::open_descriptors()),
        ("rexd_max_descriptors", "Limit of open descriptors.", own::max_descriptors()),
        ("rexd_resident_memory_bytes", "Resident memory of the daemon.", own::resident_bytes()),
    ];
    for (name, help, value) in own {
        if let Some(value) = value {
            page.single(name, MetricType::Gauge, help, value);
        }
    }
}

fn requests(page: &mut Page, counts: &Counts) {
    page.family("rexd_requests_total", MetricType::Counter, "Requests that were answered or cancelled.");
    for row in &counts.requests {
        for (outcome, count) in row.outcomes.iter() {
            let labels = [("face", row.face), ("method", row.method), ("outcome", outcome.word())];
            page.sample(&labels, count);
        }
    }
    page.single(
        "rexd_requests_in_flight",
        MetricType::Gauge,
        "Requests in progress.",
        counts.in_flight.get(),
    );
    page.family(
        "rexd_request_duration_seconds",
        MetricType::Histogram,
        "Time from a request to its response.",
    );
    for row in &counts.requests {
        durations(page, row);
    }
}

/// Omits the histogram of a method that was never called: most daemons use few of the methods.
fn durations(page: &mut Page, MethodCounts { face, method, durations, .. }: &MethodCounts) {
    let (counts, sum) = durations.read();
    let count = counts.last().copied().unwrap_or_default();
    if count == 0 {
        return;
    }
    let bounds = BOUNDS_MICROS.iter().map(|micros| seconds(*micros)).chain(["+Inf".to_owned()]);
    for (bound, count) in bounds.zip(&counts) {
        page.sample_with_suffix("_bucket", &[("face", face), ("method", method), ("le", &bound)], count);
    }
    page.sample_with_suffix("_sum", &[("face", face), ("method", method)], sum);
    page.sample_with_suffix("_count", &[("face", face), ("method", method)], count);
}

/// Microseconds as seconds, without rounding.
fn seconds(micros: u64) -> String {
    let text = format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn connections(page: &mut Page, counts: &Counts) {
    labelled(page, "rexd_connections", MetricType::Gauge, "Open connections.", &counts.connections);
    let help = "Accepted connections.";
    labelled(page, "rexd_connections_total", MetricType::Counter, help, &counts.connections_total);
    page.family("rexd_link_bytes_total", MetricType::Counter, "Bytes on the wire.");
    for (transport, cells) in Transport::ALL.iter().zip(&counts.link_bytes) {
        for (direction, bytes) in cells.iter() {
            page.sample(&[("transport", transport.word()), ("direction", direction.word())], bytes);
        }
    }
    page.family("rexd_queue_depth", MetricType::Gauge, "Length of a queue.");
    for (queue, depth) in counts.queues.depths() {
        page.sample(&[("queue", queue)], depth);
    }
}

fn sessions(page: &mut Page, counts: &Counts) {
    let help = "Sessions attached to a connection or waiting to be resumed.";
    labelled(page, "rexd_sessions", MetricType::Gauge, help, &counts.sessions);
    counter(page, "rexd_sessions_opened_total", "Opened sessions.", &counts.sessions_opened);
    counter(page, "rexd_sessions_resumed_total", "Resumed sessions.", &counts.sessions_resumed);
}

fn processes(page: &mut Page, counts: &Counts) {
    let help = "Running processes, owned by the daemon or by keepers.";
    labelled(page, "rexd_processes_running", MetricType::Gauge, help, &counts.processes);
    counter(page, "rexd_processes_started_total", "Started processes.", &counts.processes_started);
    let help = "Ended processes, by cause.";
    labelled(page, "rexd_processes_ended_total", MetricType::Counter, help, &counts.processes_ended);
    let help = "Bytes of output of processes.";
    labelled(page, "rexd_output_bytes_total", MetricType::Counter, help, &counts.output_bytes);
}

fn losses(page: &mut Page, counts: &Counts) {
    counter(
        page,
        "rexd_lost_bytes_total",
        "Bytes of output reported to readers as lost.",
        &counts.lost_bytes,
    );
    counter(page, "rexd_lost_events_total", "Events reported to clients as lost.", &counts.lost_events);
    let help = "Refused connections and requests, by reason.";
    labelled(page, "rexd_refused_total", MetricType::Counter, help, &counts.refused);
    counter(page, "rexd_audit_lost_total", "Audit records that could not be written.", &counts.audit_lost);
    counter(page, "rexd_spans_exported_total", "Spans that the collector accepted.", &counts.spans_exported);
    counter(page, "rexd_spans_dropped_total", "Dropped spans.", &counts.spans_dropped);
}

fn counter(page: &mut Page, name: &'static str, help: &str, cell: &Cell) {
    page.single(name, MetricType::Counter, help, cell.get());
}

fn labelled<L: Label>(page: &mut Page, name: &'static str, kind: MetricType, help: &str, cells: &Cells<L>) {
    page.family(name, kind, help);
    for (label, value) in cells.iter() {
        page.sample(&[(L::KEY, label.word())], value);
    }
}
