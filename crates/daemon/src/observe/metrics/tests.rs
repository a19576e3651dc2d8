//! The rendered page after various events.

use testkit::prometheus::{Exposition, parse};

use super::*;

/// Metrics of a daemon with two faces.
fn metrics() -> Metrics {
    let rexd = FaceMethods::new("rexd", ["exec.start", "fs.read"]);
    Metrics::new(&[rexd, FaceMethods::new("exec-server", ["environment/info", "fs.read"])])
}

fn page(metrics: &Metrics) -> Exposition {
    let text = metrics.render();
    parse(&text).unwrap_or_else(|fault| panic!("{fault}\n{text}"))
}

#[test]
fn a_fresh_page_is_well_formed_and_names_every_family() {
    let page = page(&metrics());
    let names: Vec<&str> = page.families().iter().map(|family| family.name.as_str()).collect();
    for name in [
        "rexd_build_info",
        "rexd_start_time_seconds",
        "rexd_requests_total",
        "rexd_request_duration_seconds",
        "rexd_requests_in_flight",
        "rexd_connections",
        "rexd_connections_total",
        "rexd_sessions",
        "rexd_sessions_opened_total",
        "rexd_sessions_resumed_total",
        "rexd_processes_running",
        "rexd_processes_started_total",
        "rexd_processes_ended_total",
        "rexd_output_bytes_total",
        "rexd_link_bytes_total",
        "rexd_lost_bytes_total",
        "rexd_lost_events_total",
        "rexd_queue_depth",
        "rexd_refused_total",
        "rexd_audit_lost_total",
        "rexd_open_descriptors",
        "rexd_resident_memory_bytes",
    ] {
        assert!(names.contains(&name), "{name} is missing");
    }
    assert!(names.iter().all(|name| name.starts_with("rexd_")), "{names:?}");
    assert_eq!(page.value("rexd_build_info", &[("version", env!("CARGO_PKG_VERSION"))]), Some(1.0));
    assert_eq!(page.sum("rexd_requests_total", &[]), 0.0);
}

#[test]
fn requests_are_counted_by_method_and_outcome_and_timed() {
    let metrics = metrics();
    let open = metrics.request("rexd", "exec.start");
    metrics.request("rexd", "exec.start").done(RequestOutcome::Ok);
    metrics.request("rexd", "exec.start").done(RequestOutcome::Error);
    drop(metrics.request("rexd", "exec.start"));
    let page = page(&metrics);
    for (outcome, count) in [("ok", 1.0), ("error", 1.0), ("cancelled", 1.0)] {
        let labels = [("face", "rexd"), ("method", "exec.start"), ("outcome", outcome)];
        assert_eq!(page.value("rexd_requests_total", &labels), Some(count), "{outcome}");
    }
    assert_eq!(page.value("rexd_requests_in_flight", &[]), Some(1.0));
    let labels = [("face", "rexd"), ("method", "exec.start")];
    assert_eq!(page.value("rexd_request_duration_seconds_count", &labels), Some(3.0));
    open.done(RequestOutcome::Ok);
    let after = self::page(&metrics);
    assert_eq!(after.value("rexd_requests_in_flight", &[]), Some(0.0));
    assert_eq!(after.follows(&page), Ok(()));
}

/// ARCHITECTURE.md, invariant 45.
#[test]
fn a_method_is_counted_under_its_own_face() {
    let metrics = metrics();
    metrics.request("exec-server", "environment/info").done(RequestOutcome::Ok);
    metrics.request("exec-server", "fs.read").done(RequestOutcome::Ok);
    metrics.request("exec-server", "exec.start").done(RequestOutcome::Ok);
    let page = page(&metrics);
    for (face, method, count) in [
        ("exec-server", "environment/info", 1.0),
        ("exec-server", "fs.read", 1.0),
        ("exec-server", "other", 1.0),
        ("rexd", "fs.read", 0.0),
        ("rexd", "exec.start", 0.0),
    ] {
        let labels = [("face", face), ("method", method), ("outcome", "ok")];
        assert_eq!(page.value("rexd_requests_total", &labels), Some(count), "{face} {method}");
    }
}

#[test]
fn no_peer_can_make_the_page_grow() {
    let metrics = metrics();
    for number in 0..1_000 {
        metrics.request("rexd", &format!("made.up.{number}\"\n")).done(RequestOutcome::Error);
    }
    let page = page(&metrics);
    let methods = page.label_values("rexd_requests_total", "method");
    assert_eq!(methods, ["environment/info", "exec.start", "fs.read", "other"].into());
    assert_eq!(page.sum("rexd_requests_total", &[("method", "other")]), 1_000.0);
}

#[test]
fn buckets_hold_what_is_not_above_their_bound() {
    use std::time::Duration;
    let histogram = cells::Histogram::default();
    let at = |text: u64| Duration::from_micros(text);
    for took in [at(0), at(100), at(100) + Duration::from_nanos(1), at(100_000_000), at(100_000_001)] {
        histogram.observe(took);
    }
    let (counts, sum) = histogram.read();
    assert_eq!((counts[0], counts[1], counts[2]), (2, 3, 3));
    assert_eq!((counts[counts.len() - 2], counts[counts.len() - 1]), (4, 5));
    assert!((sum - 200.000_201).abs() < 1e-6, "{sum}");
}

#[test]
fn a_gauge_is_lowered_when_it_is_dropped() {
    let metrics = metrics();
    let connection = metrics.connection(Transport::Ws);
    let mut session = metrics.session_opened();
    session.set_waiting();
    let started = metrics.process_started(ProcessOwner::Attached);
    let detached = metrics.process_started(ProcessOwner::Detached);
    let gauges = page(&metrics);
    assert_eq!(gauges.value("rexd_connections", &[("transport", "ws")]), Some(1.0));
    assert_eq!(gauges.value("rexd_sessions", &[("state", "attached")]), Some(0.0));
    assert_eq!(gauges.value("rexd_sessions", &[("state", "waiting")]), Some(1.0));
    assert_eq!(gauges.sum("rexd_processes_running", &[]), 2.0);
    session.set_resumed();
    started.ended(ExitCause::TimedOut);
    drop((connection, detached));
    let page = page(&metrics);
    assert_eq!(page.value("rexd_sessions", &[("state", "attached")]), Some(1.0));
    assert_eq!(page.value("rexd_sessions_resumed_total", &[]), Some(1.0));
    assert_eq!(page.sum("rexd_connections", &[]), 0.0);
    assert_eq!(page.value("rexd_connections_total", &[("transport", "ws")]), Some(1.0));
    assert_eq!(page.sum("rexd_processes_running", &[]), 0.0);
    assert_eq!(page.value("rexd_processes_started_total", &[]), Some(2.0));
    assert_eq!(page.sum("rexd_processes_ended_total", &[]), 1.0);
    assert_eq!(page.value("rexd_processes_ended_total", &[("cause", "timed_out")]), Some(1.0));
    drop(session);
    assert_eq!(self::page(&metrics).sum("rexd_sessions", &[]), 0.0);
}

#[test]
fn bytes_losses_and_refusals_are_counted_separately() {
    type Labels = &'static [(&'static str, &'static str)];
    let metrics = metrics();
    metrics.output_bytes(Stream::Stderr, 5);
    metrics.link_bytes(Transport::Unix, Direction::Received, 7);
    metrics.link_bytes(Transport::Unix, Direction::Sent, 8);
    metrics.lost_bytes(9);
    metrics.lost_events(10);
    metrics.audit_lost(11);
    metrics.refused(RefusalReason::Origin);
    metrics.spans_exported(12);
    metrics.spans_dropped(13);
    let page = page(&metrics);
    let expected: [(&str, Labels, f64); 9] = [
        ("rexd_output_bytes_total", &[("stream", "stderr")], 5.0),
        ("rexd_link_bytes_total", &[("transport", "unix"), ("direction", "received")], 7.0),
        ("rexd_link_bytes_total", &[("transport", "unix"), ("direction", "sent")], 8.0),
        ("rexd_lost_bytes_total", &[], 9.0),
        ("rexd_lost_events_total", &[], 10.0),
        ("rexd_audit_lost_total", &[], 11.0),
        ("rexd_refused_total", &[("reason", "origin")], 1.0),
        ("rexd_spans_exported_total", &[], 12.0),
        ("rexd_spans_dropped_total", &[], 13.0),
    ];
    for (name, labels, value) in expected {
        assert_eq!(page.value(name, labels), Some(value), "{name} {labels:?}");
    }
}

#[test]
fn queues_of_one_name_are_summed_until_they_are_dropped() {
    let metrics = metrics();
    let first = metrics.queue("events", || 2);
    let second = metrics.queue("events", || 3);
    let _control = metrics.queue("control", || 1);
    assert_eq!(page(&metrics).value("rexd_queue_depth", &[("queue", "events")]), Some(5.0));
    drop(first);
    assert_eq!(page(&metrics).value("rexd_queue_depth", &[("queue", "events")]), Some(3.0));
    drop(second);
    assert_eq!(page(&metrics).value("rexd_queue_depth", &[("queue", "events")]), None);
}

#[test]
fn metrics_that_are_off_have_no_request_counters() {
    let metrics = Metrics::off();
    metrics.request("rexd", "exec.start").done(RequestOutcome::Ok);
    metrics.session_opened().set_waiting();
    metrics.process_started(ProcessOwner::Attached).ended(ExitCause::Itself);
    assert_eq!(page(&metrics).label_values("rexd_requests_total", "method"), [""; 0].into());
}

#[test]
fn counting_from_many_threads_loses_nothing() {
    let metrics = metrics();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                (0..1_000).for_each(|_| metrics.request("rexd", "fs.read").done(RequestOutcome::Ok))
            });
        }
    });
    let labels = [("face", "rexd"), ("method", "fs.read"), ("outcome", "ok")];
    assert_eq!(page(&metrics).value("rexd_requests_total", &labels), Some(8_000.0));
}
