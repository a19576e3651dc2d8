//! The requests that a collector receives, and the effect of a failing collector.

use std::collections::HashMap;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use super::*;
use crate::observe::metrics::{OTHER_METHOD, Transport};

/// A request that the collector received.
struct Posted {
    head: String,
    body: Value,
}

/// A collector that sends these responses, one per connection, and 200 afterwards.
async fn collector(answers: &[&'static str]) -> (String, mpsc::Receiver<Posted>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (seen, posted) = mpsc::channel(64);
    let answers = answers.to_vec();
    tokio::spawn(async move {
        let mut answers = answers.into_iter();
        while let Ok((stream, _)) = listener.accept().await {
            let answer = answers.next().unwrap_or("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}");
            let Some(request) = serve(stream, answer).await else { continue };
            if seen.send(request).await.is_err() {
                break;
            }
        }
    });
    (url, posted)
}

async fn serve(mut stream: TcpStream, answer: &str) -> Option<Posted> {
    let mut bytes = Vec::new();
    loop {
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
        let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else { continue };
        let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
        let length = header(&head, "content-length").unwrap().parse::<usize>().unwrap();
        if bytes.len() < end + 4 + length {
            continue;
        }
        assert_eq!(bytes.len(), end + 4 + length, "nothing follows the body");
        stream.write_all(answer.as_bytes()).await.ok()?;
        return Some(Posted { head, body: serde_json::from_slice(&bytes[end + 4..]).unwrap() });
    }
}

fn header<'h>(head: &'h str, name: &str) -> Option<&'h str> {
    let mut headers = head.lines().skip(1).filter_map(|line| line.split_once(':'));
    headers.find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
}

fn settings(variables: &[(&str, &str)]) -> Result<Option<TraceSettings>, TraceSettingsError> {
    let variables: HashMap<&str, &str> = variables.iter().copied().collect();
    TraceSettings::read(None, |name| variables.get(name).map(|value| value.to_string()))
}

/// Short delays, but timeouts that are long enough for a busy machine.
fn quick(url: &str) -> TraceSettings {
    let settings = settings(&[("OTEL_EXPORTER_OTLP_ENDPOINT", url)]).unwrap().unwrap();
    let timing = ExportTiming {
        batch_delay: Duration::from_millis(1),
        request_timeout: Duration::from_secs(60),
        initial_backoff: Duration::from_millis(1),
        attempts: 3,
        shutdown: Duration::from_secs(60),
    };
    TraceSettings { timing, ..settings }
}

fn asked(method: &'static str) -> RequestAttributes<'static> {
    let name = if method == "made.up" { OTHER_METHOD } else { method };
    RequestAttributes { face: "rexd", name, method, caller: "token:ci", transport: Transport::Ws }
}

fn spans(body: &Value) -> &Vec<Value> {
    body["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap()
}

/// The attributes as a map; no key occurs twice.
fn attributes(of: &Value) -> HashMap<&str, &Value> {
    let list = of["attributes"].as_array().unwrap();
    let map: HashMap<&str, &Value> =
        list.iter().map(|pair| (pair["key"].as_str().unwrap(), &pair["value"])).collect();
    assert_eq!(map.len(), list.len());
    map
}

fn value(metrics: &Metrics, name: &str) -> f64 {
    testkit::prometheus::parse(&metrics.render()).unwrap().value(name, &[]).unwrap()
}

fn is_hex(value: &Value, digits: usize) -> bool {
    let text = value.as_str().unwrap();
    text.len() == digits && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "one expected document, written out")]
async fn a_request_arrives_as_a_span_of_the_otlp_json_mapping() {
    let (url, mut posted) = collector(&[]).await;
    let metrics = Metrics::new(&[]);
    let (traces, exporting) = Traces::start(quick(&url), metrics.clone());
    let parent = TraceParent::parse("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01").unwrap();
    let mut failed = traces.begin(asked("exec.start"), Some(&parent));
    failed.session("s-1");
    failed.end(Some(-32_001));
    traces.begin(asked("fs.read"), None).end(None);
    drop(traces.begin(asked("made.up"), None));
    exporting.finish().await;

    let Posted { head, body } = posted.recv().await.unwrap();
    assert!(head.starts_with("POST /v1/traces HTTP/1.1\r\n"), "{head}");
    assert_eq!(header(&head, "content-type"), Some("application/json"));
    assert_eq!(header(&head, "host"), url.strip_prefix("http://"));
    assert_eq!(keys(&body), ["resourceSpans"]);
    let resource = attributes(&body["resourceSpans"][0]["resource"]);
    assert_eq!(resource["service.name"]["stringValue"], "rexd");
    assert_eq!(resource["service.version"]["stringValue"], env!("CARGO_PKG_VERSION"));
    let scope = &body["resourceSpans"][0]["scopeSpans"][0]["scope"];
    assert_eq!(scope["name"], "rexd");
    let [first, second, third] = spans(&body).as_slice() else { panic!("{body:#}") };
    let expected = [
        "attributes",
        "endTimeUnixNano",
        "kind",
        "name",
        "parentSpanId",
        "spanId",
        "startTimeUnixNano",
        "status",
        "traceId",
    ];
    assert_eq!(keys(first), expected);
    assert_eq!(first["traceId"], "0af7651916cd43dd8448eb211c80319c");
    assert_eq!(first["parentSpanId"], "b7ad6b7169203331");
    assert!(is_hex(&first["spanId"], 16) && first["spanId"] != first["parentSpanId"]);
    assert_eq!((&first["name"], &first["kind"]), (&"exec.start".into(), &2.into()));
    let nanos = |name: &str| first[name].as_str().unwrap().parse::<u64>().unwrap();
    assert!(nanos("startTimeUnixNano") > 1_600_000_000_000_000_000);
    assert!(nanos("endTimeUnixNano") >= nanos("startTimeUnixNano"));
    assert_eq!(first["status"]["code"], 2);
    let found = attributes(first);
    for (key, text) in [
        ("rpc.system", "jsonrpc"),
        ("rpc.method", "exec.start"),
        ("rexd.face", "rexd"),
        ("rexd.session", "s-1"),
        ("rexd.caller", "token:ci"),
        ("rexd.transport", "ws"),
        ("error.type", "-32001"),
    ] {
        assert_eq!(found[key]["stringValue"], text, "{key}");
    }
    assert_eq!(found["rpc.jsonrpc.error_code"]["intValue"], "-32001");
    assert!(is_hex(&second["traceId"], 32) && second["traceId"] != first["traceId"]);
    assert_eq!((&second["parentSpanId"], &second["status"]), (&Value::Null, &serde_json::json!({})));
    assert_eq!(third["name"], "other");
    assert_eq!(attributes(third)["rpc.method"]["stringValue"], "made.up");
    assert_eq!(third["status"]["message"], "cancelled");
    assert_eq!(value(&metrics, "rexd_spans_exported_total"), 3.0);
    assert_eq!(value(&metrics, "rexd_spans_dropped_total"), 0.0);
}

#[tokio::test]
async fn a_batch_is_sent_when_it_is_due_and_again_after_a_failure() {
    let busy = "HTTP/1.1 503 Busy\r\nRetry-After: 0\r\nContent-Length: 0\r\n\r\n";
    let (url, mut posted) = collector(&[busy, busy]).await;
    let metrics = Metrics::new(&[]);
    let (traces, exporting) = Traces::start(quick(&url), metrics.clone());
    traces.begin(asked("fs.read"), None).end(None);
    let first = posted.recv().await.unwrap().body;
    assert_eq!(posted.recv().await.unwrap().body, first);
    assert_eq!(posted.recv().await.unwrap().body, first);
    exporting.finish().await;
    assert_eq!(value(&metrics, "rexd_spans_exported_total"), 1.0);
    assert!(posted.try_recv().is_err(), "an accepted batch is not sent again");
}

#[tokio::test]
async fn a_batch_that_the_collector_refuses_is_dropped_and_counted() {
    let refusal = "HTTP/1.1 400 No\r\nContent-Length: 0\r\n\r\n";
    let (url, mut posted) = collector(&[refusal]).await;
    let metrics = Metrics::new(&[]);
    let (traces, exporting) = Traces::start(quick(&url), metrics.clone());
    traces.begin(asked("fs.read"), None).end(None);
    posted.recv().await.unwrap();
    traces.begin(asked("fs.stat"), None).end(None);
    exporting.finish().await;
    assert_eq!(spans(&posted.recv().await.unwrap().body).last().unwrap()["name"], "fs.stat");
    assert_eq!(
        value(&metrics, "rexd_spans_dropped_total") + value(&metrics, "rexd_spans_exported_total"),
        2.0
    );
}

#[tokio::test]
async fn spans_that_the_collector_rejects_are_not_counted_as_exported() {
    let partly =
        "HTTP/1.1 200 OK\r\nContent-Length: 40\r\n\r\n{\"partialSuccess\":{\"rejectedSpans\":\"1\"}}";
    let (url, _posted) = collector(&[partly]).await;
    let metrics = Metrics::new(&[]);
    let (traces, exporting) = Traces::start(quick(&url), metrics.clone());
    traces.begin(asked("fs.read"), None).end(None);
    traces.begin(asked("fs.stat"), None).end(None);
    exporting.finish().await;
    assert_eq!(value(&metrics, "rexd_spans_dropped_total"), 1.0);
    assert_eq!(value(&metrics, "rexd_spans_exported_total"), 1.0);
}

/// ARCHITECTURE.md, invariant 45.
#[tokio::test]
async fn a_full_queue_drops_spans_without_waiting() {
    let (url, _posted) = collector(&[]).await;
    let metrics = Metrics::new(&[]);
    let (traces, exporting) = Traces::start(quick(&url), metrics.clone());
    // Without an await, the exporter does not run.
    for _ in 0..QUEUE_CAPACITY + 10 {
        traces.begin(asked("fs.read"), None).end(None);
    }
    let page = testkit::prometheus::parse(&metrics.render()).unwrap();
    assert_eq!(page.value("rexd_queue_depth", &[("queue", "spans")]), Some(QUEUE_CAPACITY as f64));
    assert_eq!(value(&metrics, "rexd_spans_dropped_total"), 10.0);
    exporting.finish().await;
    assert_eq!(value(&metrics, "rexd_spans_exported_total"), QUEUE_CAPACITY as f64);
}

#[tokio::test]
async fn a_collector_without_a_response_does_not_delay_shutdown() {
    // It accepts connections and never responds.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let mut settings = quick(&url);
    settings.timing.shutdown = Duration::from_millis(10);
    let metrics = Metrics::new(&[]);
    let (traces, exporting) = Traces::start(settings, metrics.clone());
    traces.begin(asked("fs.read"), None).end(None);
    exporting.finish().await;
    assert_eq!(value(&metrics, "rexd_spans_dropped_total"), 1.0);
    traces.begin(asked("fs.read"), None).end(None);
    assert_eq!(value(&metrics, "rexd_spans_dropped_total"), 2.0);
}

#[tokio::test]
async fn spans_for_an_unreachable_collector_are_dropped() {
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let metrics = Metrics::new(&[]);
    let (traces, exporting) = Traces::start(quick(&format!("http://{gone}")), metrics.clone());
    traces.begin(asked("fs.read"), None).end(None);
    exporting.finish().await;
    assert_eq!(value(&metrics, "rexd_spans_dropped_total"), 1.0);
}

#[tokio::test]
async fn a_trace_that_its_parent_does_not_sample_is_not_exported() {
    let (url, mut posted) = collector(&[]).await;
    let (traces, exporting) = Traces::start(quick(&url), Metrics::off());
    let parent = TraceParent::parse("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00").unwrap();
    traces.begin(asked("fs.read"), Some(&parent)).end(None);
    exporting.finish().await;
    assert!(posted.try_recv().is_err());
    Traces::off().begin(asked("fs.read"), None).end(None);
}

#[test]
fn the_variables_of_opentelemetry_are_honoured() {
    let url = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318/base/");
    let read = settings(&[
        url,
        ("OTEL_SERVICE_NAME", "builder"),
        ("OTEL_RESOURCE_ATTRIBUTES", "service.name=lost, deployment.environment=a%2Cb,service.version=9"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "x-key=a%20b"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "1500"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"),
    ]);
    let read = read.unwrap().unwrap();
    assert_eq!(read.endpoint, "http://c:4318/base/v1/traces");
    let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    let expected = [
        pair("service.name", "builder"),
        pair("service.version", "9"),
        pair("deployment.environment", "a,b"),
    ];
    assert_eq!(read.resource, expected);
    assert_eq!(read.headers["x-key"], "a b");
    assert_eq!(read.timing.request_timeout, Duration::from_millis(1_500));
    let own = settings(&[url, ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://d/x")]).unwrap().unwrap();
    assert_eq!(own.endpoint, "http://d/x");
    let configured = TraceSettings::read(Some("http://c"), |_| None).unwrap().unwrap();
    assert_eq!(configured.endpoint, "http://c/v1/traces");
}

#[test]
fn traces_are_off_without_an_endpoint() {
    let url = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318");
    for variables in [
        &[][..],
        &[("OTEL_EXPORTER_OTLP_ENDPOINT", " ")],
        &[url, ("OTEL_SDK_DISABLED", "true")],
        &[url, ("OTEL_TRACES_EXPORTER", "none")],
    ] {
        assert!(settings(variables).unwrap().is_none(), "{variables:?}");
    }
}

#[test]
fn unsupported_settings_are_refused_at_start() {
    let url = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318");
    for (variables, words) in [
        (&[("OTEL_EXPORTER_OTLP_ENDPOINT", "https://c:4318")][..], "a collector on this machine"),
        (&[("OTEL_EXPORTER_OTLP_ENDPOINT", "c:4318")], "http://HOST:PORT"),
        (&[url, ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")], "http/json"),
        (&[url, ("OTEL_EXPORTER_OTLP_TIMEOUT", "0")], "milliseconds"),
        (&[url, ("OTEL_EXPORTER_OTLP_HEADERS", "a=b%0d%0ac")], "invalid characters"),
        (&[url, ("OTEL_EXPORTER_OTLP_HEADERS", "a")], "key=value"),
        (&[url, ("OTEL_RESOURCE_ATTRIBUTES", "a=%+1")], "two hexadecimal digits"),
    ] {
        let error = settings(variables).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
}
