//! Renders the counters as metric families, in a fixed order.

use super::Counts;
use super::cells::{BOUNDS, Cell, Cells};
use super::labels::{Label, Transport};
use super::own;
use super::text::Page;

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
    page.family("rexd_build_info", "gauge", "Always 1; the label is the version.");
    page.sample(&[("version", env!("CARGO_PKG_VERSION"))], 1);
    let help = "Start time of the daemon since the Unix epoch.";
    page.single("rexd_start_time_seconds", "gauge", help, counts.started.as_secs_f64());
    let own = [
        ("rexd_open_descriptors", "Open descriptors.", own::open_descriptors()),
        ("rexd_max_descriptors", "Limit of open descriptors.", own::max_descriptors()),
        ("rexd_resident_memory_bytes", "Resident memory of the daemon.", own::resident_bytes()),
    ];
    for (name, help, value) in own {
        if let Some(value) = value {
            page.single(name, "gauge", help, value);
        }
    }
}

fn requests(page: &mut Page, counts: &Counts) {
    page.family("rexd_requests_total", "counter", "Requests that were answered or cancelled.");
    for row in &counts.requests {
        for (outcome, count) in row.outcomes.iter() {
            let labels = [("face", row.face), ("method", row.method), ("outcome", outcome.word())];
            page.sample(&labels, count);
        }
    }
    page.single("rexd_requests_in_flight", "gauge", "Requests in progress.", counts.in_flight.get());
    page.family("rexd_request_duration_seconds", "histogram", "Time from a request to its response.");
    for row in &counts.requests {
        let (counts, sum) = row.durations.read();
        let count = counts[BOUNDS.len()];
        // Most daemons use few of the methods; the histograms of the others are omitted.
        if count == 0 {
            continue;
        }
        let bounds = BOUNDS.iter().map(f64::to_string).chain(["+Inf".to_owned()]);
        for (bound, count) in bounds.zip(&counts) {
            let labels = [("face", row.face), ("method", row.method), ("le", bound.as_str())];
            page.sample_with_suffix("_bucket", &labels, count);
        }
        page.sample_with_suffix("_sum", &[("face", row.face), ("method", row.method)], sum);
        page.sample_with_suffix("_count", &[("face", row.face), ("method", row.method)], count);
    }
}

fn connections(page: &mut Page, counts: &Counts) {
    labelled(page, "rexd_connections", "gauge", "Open connections.", &counts.connections);
    labelled(page, "rexd_connections_total", "counter", "Accepted connections.", &counts.connections_total);
    page.family("rexd_link_bytes_total", "counter", "Bytes on the wire.");
    for (transport, cells) in Transport::ALL.iter().zip(&counts.link_bytes) {
        for (direction, bytes) in cells.iter() {
            page.sample(&[("transport", transport.word()), ("direction", direction.word())], bytes);
        }
    }
    page.family("rexd_queue_depth", "gauge", "Length of a queue.");
    for (queue, depth) in counts.queues.depths() {
        page.sample(&[("queue", queue)], depth);
    }
}

fn sessions(page: &mut Page, counts: &Counts) {
    let help = "Sessions attached to a connection or waiting to be resumed.";
    labelled(page, "rexd_sessions", "gauge", help, &counts.sessions);
    counter(page, "rexd_sessions_opened_total", "Opened sessions.", &counts.sessions_opened);
    counter(page, "rexd_sessions_resumed_total", "Resumed sessions.", &counts.sessions_resumed);
}

fn processes(page: &mut Page, counts: &Counts) {
    let help = "Running processes, owned by the daemon or by keepers.";
    labelled(page, "rexd_processes_running", "gauge", help, &counts.processes);
    counter(page, "rexd_processes_started_total", "Started processes.", &counts.processes_started);
    let help = "Ended processes, by cause.";
    labelled(page, "rexd_processes_ended_total", "counter", help, &counts.processes_ended);
    labelled(
        page,
        "rexd_output_bytes_total",
        "counter",
        "Bytes of output of processes.",
        &counts.output_bytes,
    );
}

fn losses(page: &mut Page, counts: &Counts) {
    let help = "Bytes of output reported to readers as lost.";
    counter(page, "rexd_lost_bytes_total", help, &counts.lost_bytes);
    counter(page, "rexd_lost_events_total", "Events reported to clients as lost.", &counts.lost_events);
    let help = "Refused connections and requests, by reason.";
    labelled(page, "rexd_refused_total", "counter", help, &counts.refused);
    counter(page, "rexd_audit_lost_total", "Audit records that could not be written.", &counts.audit_lost);
    counter(page, "rexd_spans_exported_total", "Spans that the collector accepted.", &counts.spans_exported);
    counter(page, "rexd_spans_dropped_total", "Dropped spans.", &counts.spans_dropped);
}

fn counter(page: &mut Page, name: &'static str, help: &str, cell: &Cell) {
    page.single(name, "counter", help, cell.get());
}

fn labelled<L: Label>(page: &mut Page, name: &'static str, kind: &str, help: &str, cells: &Cells<L>) {
    page.family(name, kind, help);
    for (label, value) in cells.iter() {
        page.sample(&[(L::KEY, label.word())], value);
    }
}
