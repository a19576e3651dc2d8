//! The example of docs/adding-a-face.md: the page shows this face, and the face has the described properties.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

mod adding_a_face {
    pub(crate) mod face;
}

use std::path::Path;
use std::sync::{Arc, Mutex};

use adding_a_face::face::{Demo, serve};
use daemon::config::{Config, ConfigArgs, Paths};
use daemon::core::request::ConnectionContext;
use daemon::core::session::Face as _;
use daemon::net::auth::{Caller, Scopes};
use daemon::observe::metrics::{FaceMethods, Metrics, Transport};
use engine::audit::{AuditRecord, AuditSink};
use link::Link;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

const POLICY: &str = "[[policy.rules]]\nname = \"no-id\"\naction = \"deny\"\nargv = [\"id\"]\n";

#[derive(Default)]
struct Records(Mutex<Vec<AuditRecord>>);

impl AuditSink for Records {
    fn record(&self, record: AuditRecord) {
        self.0.lock().unwrap().push(record);
    }
}

struct Fixture {
    face: Arc<Demo>,
    records: Arc<Records>,
    metrics: Metrics,
    _root: tempfile::TempDir,
}

fn fixture() -> Fixture {
    let root = tempfile::tempdir().unwrap();
    let args = ConfigArgs { file: None, roots: vec![root.path().to_owned()] };
    let paths = Paths::default();
    let config = Config::parse(POLICY, Path::new("config.toml"), &args, &paths).unwrap();
    let methods = FaceMethods::new(Demo::NAME, Demo::table().iter().map(|method| method.name()));
    let (records, metrics) = (Arc::new(Records::default()), Metrics::new(&[methods]));
    let core =
        daemon::serve::core(&config, &paths, (records.clone(), metrics.clone()), CancellationToken::new());
    Fixture { face: Arc::new(Demo::new(Arc::new(core.unwrap()))), records, metrics, _root: root }
}

/// A client on a connection of its own; dropping it cuts the connection.
struct Client {
    link: Link,
    next: u64,
}

impl Fixture {
    fn connect(&self, scopes: Scopes) -> Client {
        let (link, server) = link::memory::pair(&link::Limits::default());
        let mut caller = Caller::on_stdio();
        caller.scopes = scopes;
        let context = ConnectionContext::new(caller, Transport::Unix);
        let serving = serve(self.face.clone(), server, context, self.face.core().stop.clone());
        self.face.core().tasks.spawn(serving);
        Client { link, next: 0 }
    }
}

impl Client {
    async fn send(&mut self, method: &str, params: Value) {
        self.next += 1;
        let request = json!({ "jsonrpc": "2.0", "id": self.next, "method": method, "params": params });
        self.link.outgoing.respond(request.to_string().into()).await.unwrap();
    }

    async fn receive(&mut self) -> Value {
        match self.link.incoming.recv().await {
            Some(link::Incoming::Message(line)) => serde_json::from_slice(&line).unwrap(),
            other => panic!("expected a message, got {other:?}"),
        }
    }

    async fn call(&mut self, method: &str, params: Value) -> Value {
        self.send(method, params).await;
        self.receive().await
    }
}

#[tokio::test]
async fn a_command_runs_and_its_output_survives_a_cut_exactly_once() {
    let fixture = fixture();
    let mut client = fixture.connect(Scopes::ALL);
    let session = client.call("open", json!({})).await["result"]["session"].clone();
    let script = "for i in 0 1 2 3 4; do echo line $i; read x < \"$0.$i\"; done";
    let fifo = fixture._root.path().join("step");
    // One FIFO per step: a reader that opens one again before its writer has closed it would see the end of file.
    let fifo = |step: usize| fifo.with_extension(step.to_string());
    for step in 0..5 {
        rustix::fs::mknodat(rustix::fs::CWD, fifo(step), rustix::fs::FileType::Fifo, 0o600.into(), 0)
            .unwrap();
    }
    let argv = json!(["sh", "-c", script, fixture._root.path().join("step")]);
    let started = client.call("run", json!({ "session": session, "argv": argv })).await;
    assert!(started["result"]["process"].is_string(), "{started}");
    let mut text = String::new();
    let mut last = 0;
    for step in 0..6 {
        while text.lines().count() <= step && step < 5 {
            let event = client.receive().await["params"].clone();
            last += 1;
            assert_eq!(event["event"], last, "events have no gap and none comes twice: {event}");
            text += event["output"].as_str().unwrap();
        }
        if step < 5 {
            // Cut: the next line is written while no connection exists.
            drop(client);
            let step_on = fifo(step);
            tokio::task::spawn_blocking(move || std::fs::write(step_on, "\n").unwrap()).await.unwrap();
            client = fixture.connect(Scopes::ALL);
            let resumed = client.call("resume", json!({ "session": session, "last_event": last })).await;
            assert_eq!(resumed["result"]["lost"], 0, "{resumed}");
        }
    }
    assert_eq!(client.receive().await["params"], json!({ "event": last + 1, "exit": 0 }));
    assert_eq!(text, "line 0\nline 1\nline 2\nline 3\nline 4\n");
    let records = fixture.records.0.lock().unwrap();
    let recorded = |operation: &str| records.iter().filter(|record| record.operation == operation).count();
    assert_eq!((recorded("open"), recorded("run"), recorded("resume"), recorded("end")), (1, 1, 5, 1));
    assert!(records.iter().all(|record| record.face == "demo"));
    let page = fixture.metrics.render();
    assert!(page.lines().any(|line| line.contains("\"demo\"") && line.contains("\"run\"")), "{page}");
}

#[tokio::test]
async fn scopes_and_policy_apply_without_a_line_in_the_face() {
    let fixture = fixture();
    let mut reader = fixture.connect(Scopes { read: true, ..Scopes::default() });
    let session = reader.call("open", json!({})).await["result"]["session"].clone();
    let refused = reader.call("run", json!({ "session": session, "argv": ["true"] })).await;
    assert_eq!(refused["error"]["data"]["scope"], "exec", "{refused}");
    let mut client = fixture.connect(Scopes::ALL);
    let denied = client.call("run", json!({ "session": session, "argv": ["id"] })).await;
    assert_eq!(denied["error"]["code"], -32001, "{denied}");
    let records = fixture.records.0.lock().unwrap();
    let decision = records.iter().find_map(|record| record.decision.as_ref()).unwrap();
    assert_eq!(&*decision.rule, "no-id");
}

#[test]
fn the_page_shows_the_face_as_it_is() {
    let page = include_str!("../../../docs/adding-a-face.md");
    let face = include_str!("adding_a_face/face.rs");
    assert!(
        page.contains(face),
        "docs/adding-a-face.md differs from crates/daemon/tests/adding_a_face/face.rs"
    );
    let is_code = |line: &&str| !line.trim().is_empty() && !line.trim_start().starts_with("//");
    assert!(face.lines().filter(is_code).count() <= 205, "the face must stay small");
}
