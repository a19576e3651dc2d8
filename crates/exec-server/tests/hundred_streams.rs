//! A hundred streams over one executor's WebSocket: each has its own process and is independent of the others.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

mod through_hub;

use std::sync::Arc;

use exec_server::{
    ExecServerClient, ExecServerEvent, ExecServerProcess, ReadParams, RemoteExecServerConnectArgs,
    WriteParams,
};
use serde_json::json;
use testkit::daemon::PATIENCE;
use testkit::tries::Tries;
use through_hub::raw::Raw;
use through_hub::{Executor, HubWorld, gather};
use tokio::task::JoinSet;
use tokio::time::timeout;
use wire::exec_server::relay::Body;

/// Streams that talk; one more is reset, or two more are not read.
const TALKERS: usize = 99;
const STEPS: usize = 4;
/// Says every line back with its own number in front, until it is told to end.
const ECHO: &str =
    r#"echo "$1 ready"; while read -r line; do test "$line" = end && exit 7; echo "$1 $line"; done"#;
/// Much more than fits into everything on the way to somebody who does not read.
const UNREAD: usize = 24_000_000;

/// One stream, its process, and what that must have said.
struct Talker {
    number: String,
    process: ExecServerProcess,
    _client: ExecServerClient,
    heard: String,
    expected: String,
}

impl Talker {
    async fn start(world: &HubWorld, number: usize) -> Talker {
        let client = world.connect(&world.addresses).await;
        let number = number.to_string();
        // Each session may call its process the same.
        let process = client.start(world.shell("p", ECHO, &[&number])).await.unwrap();
        let mut talker = Talker {
            expected: format!("{number} ready\n"),
            number,
            process,
            _client: client,
            heard: String::new(),
        };
        talker.hear().await;
        talker
    }

    /// Says something and hears it once.
    async fn step(&mut self, step: usize) {
        self.process.write(format!("step {step}\n")).await.unwrap();
        self.expected += &format!("{} step {step}\n", self.number);
        self.hear().await;
    }

    async fn hear(&mut self) {
        while self.heard.len() < self.expected.len() {
            match timeout(PATIENCE, self.process.next()).await.expect("its own line").unwrap() {
                Some(ExecServerEvent::Output { bytes, .. }) => {
                    self.heard += std::str::from_utf8(&bytes).unwrap();
                }
                other => panic!("{}: {other:?}", self.number),
            }
        }
        assert_eq!(self.heard, self.expected);
    }

    async fn end(mut self) {
        self.process.write("end\n").await.unwrap();
        let (rest, code) = timeout(PATIENCE, gather(&mut self.process)).await.expect("its end");
        assert_eq!((rest, code), (Vec::new(), Some(7)), "{}", self.number);
    }
}

/// All of them at once.
async fn talkers(world: &Arc<HubWorld>) -> Vec<Talker> {
    let mut starting = JoinSet::new();
    for number in 0..TALKERS {
        let world = world.clone();
        starting.spawn(async move { Talker::start(&world, number).await });
    }
    starting.join_all().await
}

/// All of them take these steps, each as fast as it can.
async fn walk(talkers: Vec<Talker>, steps: std::ops::Range<usize>) -> Vec<Talker> {
    let mut walking = JoinSet::new();
    for mut talker in talkers {
        let steps = steps.clone();
        walking.spawn(async move {
            for step in steps {
                talker.step(step).await;
            }
            talker
        });
    }
    walking.join_all().await
}

async fn end(talkers: Vec<Talker>) {
    let mut ending = JoinSet::new();
    for talker in talkers {
        ending.spawn(talker.end());
    }
    assert_eq!(ending.join_all().await.len(), TALKERS);
}

/// Goes on with a session, once its end of the old stream is gone.
async fn resume(world: &HubWorld, session: String) -> ExecServerClient {
    let args =
        RemoteExecServerConnectArgs { resume_session_id: Some(session), ..world.args(&world.addresses) };
    let mut tries = Tries::within(PATIENCE, "the session is not given back");
    loop {
        match ExecServerClient::connect_relay(args.clone()).await {
            Ok(client) => return client,
            Err(error) => assert!(error.to_string().contains("still attached"), "{error}"),
        }
        tries.again();
    }
}

#[tokio::test]
async fn a_hundred_streams_are_independent_and_the_reset_of_one_affects_no_other() {
    let world = Arc::new(HubWorld::new(Executor::Rexd));
    let talkers = talkers(&world).await;
    let (mut raw, session) = Raw::connect(&world, "to-be-reset").await;
    let params = serde_json::to_value(world.shell("p", ECHO, &["raw"])).unwrap();
    raw.ask("process/start", &params).await;
    let talkers = walk(talkers, 0..STEPS).await;
    raw.frame(Body::Reset { reason: "the test wants it".to_owned() }).await;
    let talkers = walk(talkers, STEPS..2 * STEPS).await;
    drop(raw);
    // What belonged to the stream waits for somebody who resumes its session, and has lost nothing.
    let resumed = resume(&world, session).await;
    let write = WriteParams { process_id: "p".to_owned(), chunk: b"again\n".to_vec().into(), write_id: None };
    resumed.write(write).await.unwrap();
    let (mut said, mut after) = (Vec::new(), 0);
    while said.len() < b"raw ready\nraw again\n".len() {
        let read = ReadParams {
            process_id: "p".to_owned(),
            after_seq: Some(after),
            max_bytes: None,
            wait_ms: Some(1_000),
        };
        for chunk in timeout(PATIENCE, resumed.read(read)).await.expect("its output").unwrap().chunks {
            after = chunk.seq;
            said.extend_from_slice(&chunk.chunk.0);
        }
    }
    assert_eq!(String::from_utf8(said).unwrap(), "raw ready\nraw again\n");
    end(walk(talkers, 2 * STEPS..3 * STEPS).await).await;
}

#[tokio::test]
async fn streams_that_are_not_read_hold_up_no_other() {
    let world = Arc::new(HubWorld::new(Executor::Rexd));
    let much = format!("yes | head -c {UNREAD}");
    // One of ours, which acknowledges only what is taken, and one that leaves everything to the hub.
    let stuck = world.connect(&world.addresses).await;
    let mut unread = stuck.start(world.shell("p", &much, &[])).await.unwrap();
    let (mut raw, _session) = Raw::connect(&world, "does-not-read").await;
    let params = serde_json::to_value(world.shell("p", &much, &[])).unwrap();
    raw.ask("process/start", &params).await;
    let talkers = talkers(&world).await;
    end(walk(talkers, 0..STEPS).await).await;
    // All others are done. What waited is all there.
    let alive = raw.ask("process/read", &json!({ "processId": "p", "afterSeq": 1_000_000_000 })).await;
    assert!(alive["nextSeq"].is_u64(), "{alive}");
    let (said, code) = timeout(PATIENCE, gather(&mut unread)).await.expect("all of it");
    let expected: Vec<u8> = b"y\n".iter().copied().cycle().take(UNREAD).collect();
    assert!(said == expected, "{} bytes", said.len());
    assert_eq!(code, Some(0));
}
