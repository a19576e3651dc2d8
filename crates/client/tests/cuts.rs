//! Lost connections: the caller receives every byte once, a request is performed once, or an error reports the doubt.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

use std::time::Duration;

use client::target::{BearerToken, Scheme, Tls, UrlTarget};
use client::{
    Command, Error, KeepAlive, Process, ProcessEventKind, ProcessExit, Session, SessionLoss, SessionOptions,
    Target,
};
use rustix::process::Signal;
use testkit::daemon::PATIENCE;
use testkit::exec_server::ExecServer;
use testkit::programs::program;
use testkit::proxy::{CutKind, Direction, Proxy};
use testkit::sandbox::Sandbox;
use testkit::serve::{Addresses, CarrierKind, ServedDaemon, TOKEN};

const LINES: u32 = 200_000;

fn target(addresses: &Addresses, way: CarrierKind) -> Target {
    match way {
        CarrierKind::Unix => Target::Unix(addresses.unix.clone()),
        CarrierKind::WebSocket | CarrierKind::Http => Target::Url(UrlTarget {
            scheme: if way == CarrierKind::Http { Scheme::Http } else { Scheme::Ws },
            authority: addresses.http.to_string(),
            path: String::new(),
            token: Some(BearerToken(TOKEN.to_owned())),
            headers: Vec::new(),
            tls: Tls::default(),
        }),
    }
}

struct World {
    served: ServedDaemon,
    proxy: Proxy,
    sandbox: Sandbox,
}

impl World {
    fn new() -> World {
        World::with_config("")
    }

    fn with_config(more: &str) -> World {
        // Limits are not the subject of these tests.
        let config = format!("[limits]\nhard_output_bytes = 0\nhard_timeout_ms = 0\n{more}");
        let sandbox = Sandbox::with_config(&config);
        let served = ServedDaemon::start(&program("rexd"), &sandbox);
        let proxy = Proxy::start(&served.addresses, &sandbox.path("."));
        World { served, proxy, sandbox }
    }

    async fn open(&self, way: CarrierKind) -> Session {
        let addresses = self.proxy.addresses.clone();
        Session::open(target(&addresses, way), SessionOptions::default()).await.unwrap()
    }
}

async fn gather(process: &mut Process) -> Result<(Vec<u8>, ProcessExit), Error> {
    let mut bytes = Vec::new();
    loop {
        let event = process.next().await?.expect("an exit comes last");
        match event.kind {
            ProcessEventKind::Stdout(more)
            | ProcessEventKind::Stderr(more)
            | ProcessEventKind::Terminal(more) => bytes.extend_from_slice(&more),
            ProcessEventKind::Exit(exit) => return Ok((bytes, exit)),
            ProcessEventKind::Lost(lost) => panic!("{lost}"),
            ProcessEventKind::Error(trouble) => panic!("{trouble}"),
        }
    }
}

fn counted() -> Vec<u8> {
    (1..=LINES).flat_map(|number| format!("{number}\n").into_bytes()).collect()
}

/// ARCHITECTURE.md, invariant 47.
#[tokio::test]
async fn every_byte_of_a_stream_comes_once_wherever_it_is_cut() {
    let world = World::new();
    let expected = counted();
    for way in [CarrierKind::Unix, CarrierKind::WebSocket] {
        let session = world.open(way).await;
        for (bytes, how) in [
            (1, CutKind::Closed),
            (700, CutKind::Reset),
            (65_536, CutKind::Closed),
            (900_000, CutKind::Reset),
            (1_200_000, CutKind::Closed),
        ] {
            let before = world.proxy.cuts();
            // The process writes nothing before the cut is planned, so that all output counts.
            let go = format!("go-{way:?}-{bytes}");
            let line = format!("until test -e {go}; do sleep 0.01; done; seq 1 {LINES}");
            let mut process = session.start(Command::line(line)).await.unwrap();
            world.proxy.cut_after(Direction::Client, bytes, how);
            world.sandbox.write(&format!("root/{go}"), "");
            let (written, exit) = gather(&mut process).await.unwrap();
            assert_eq!(exit.status(), 0);
            assert!(
                written == expected,
                "{way:?}, cut after {bytes}: {} bytes of {}",
                written.len(),
                expected.len()
            );
            world.proxy.call_off();
            assert_eq!(world.proxy.cuts(), before + 1, "{way:?}: the connection was not cut after {bytes}");
        }
        session.close().await.unwrap();
    }
}

/// More is on its way than the server keeps for a client that resumes, in the buffers of the kernel and the proxy.
#[tokio::test]
async fn output_on_its_way_is_not_lost_however_little_the_server_keeps() {
    let world = World::with_config("[server]\nresume_bytes = 65536\n");
    for way in [CarrierKind::Unix, CarrierKind::WebSocket] {
        let session = world.open(way).await;
        for bytes in [100_000, 900_000] {
            world.proxy.cut_after(Direction::Client, bytes, CutKind::Reset);
            let mut process = session.start(Command::line(format!("seq 1 {LINES}"))).await.unwrap();
            let (written, exit) = gather(&mut process).await.unwrap();
            assert_eq!(exit.status(), 0);
            assert!(written == counted(), "{way:?}, cut after {bytes}: {} bytes", written.len());
            assert!(!world.proxy.call_off(), "{way:?}: nothing was cut after {bytes}");
        }
        session.close().await.unwrap();
        // The same for a command that starts with its session.
        let connection =
            Session::dial(target(&world.proxy.addresses, way), SessionOptions::default()).await.unwrap();
        world.proxy.cut_after(Direction::Client, 900_000, CutKind::Reset);
        let (session, starting) = connection.start(Command::line(format!("seq 1 {LINES}"))).await.unwrap();
        let (written, _) = gather(&mut starting.process().await.unwrap()).await.unwrap();
        assert!(written == counted(), "{way:?}: {} bytes of an early command", written.len());
        assert!(!world.proxy.call_off(), "{way:?}: nothing was cut");
        session.close().await.unwrap();
    }
}

#[tokio::test]
async fn a_session_whose_opening_is_cut_is_opened_on_another_connection() {
    let world = World::new();
    for way in [CarrierKind::Unix, CarrierKind::WebSocket] {
        for (toward, bytes) in [(Direction::Daemon, 10), (Direction::Client, 1), (Direction::Client, 200)] {
            world.proxy.cut_after(toward, bytes, CutKind::Reset);
            let session = world.open(way).await;
            assert!(!world.proxy.call_off(), "{way:?}: nothing was cut after {bytes} toward {toward:?}");
            session.close().await.unwrap();
        }
    }
}

/// The connection stays open, and nothing passes.
#[tokio::test]
async fn a_connection_that_falls_silent_is_replaced() {
    let world = World::with_config("[server]\nping_ms = 50\n");
    for way in [CarrierKind::WebSocket, CarrierKind::Http] {
        let keep_alive =
            KeepAlive { ping_every: Duration::from_millis(50), deadline: Duration::from_secs(3) };
        let options = SessionOptions { keep_alive, ..SessionOptions::default() };
        let session = Session::open(target(&world.proxy.addresses, way), options).await.unwrap();
        let go = format!("go-{way:?}");
        let line = format!("until test -e {go}; do sleep 0.01; done; seq 1 {LINES}");
        let mut process = session.start(Command::line(line)).await.unwrap();
        world.proxy.cut(CutKind::Stalled);
        world.sandbox.write(&format!("root/{go}"), "");
        let (written, _) = gather(&mut process).await.unwrap();
        assert!(written == counted(), "{way:?}: {} bytes", written.len());
        session.close().await.unwrap();
    }
}

/// The same for an exec-server behind a `codex:` target, whose connection the bridge keeps alive.
#[tokio::test]
async fn a_connection_to_an_exec_server_that_falls_silent_is_replaced() {
    let sandbox = Sandbox::with_config("[server]\nping_ms = 50\n");
    let config = sandbox.config();
    let served = ExecServer::start_with(&sandbox, &["--config", config.to_str().unwrap()]);
    let proxy = Proxy::start(&served.addresses, &sandbox.path("."));
    let keep_alive = KeepAlive { ping_every: Duration::from_millis(50), deadline: Duration::from_secs(3) };
    let options = SessionOptions { keep_alive, ..SessionOptions::default() };
    let target = format!("codex:ws://{}", proxy.addresses.http).parse().unwrap();
    let session = Session::open(target, options).await.unwrap();
    let go = sandbox.path("root/go");
    let line = format!("until test -e {}; do sleep 0.01; done; seq 1 {LINES}", go.display());
    let mut process = session.start(Command::line(line)).await.unwrap();
    proxy.cut(CutKind::Stalled);
    sandbox.write("root/go", "");
    let (written, exit) = gather(&mut process).await.unwrap();
    assert_eq!(exit.status(), 0);
    assert!(written == counted(), "{} bytes", written.len());
    session.close().await.unwrap();
}

/// ARCHITECTURE.md, invariant 47.
#[tokio::test]
async fn a_start_whose_answer_is_cut_off_starts_one_process_and_loses_nothing_of_it() {
    let world = World::new();
    for way in [CarrierKind::Unix, CarrierKind::WebSocket] {
        let session = world.open(way).await;
        for (toward, bytes) in [
            (Direction::Client, 5),
            (Direction::Client, 120),
            (Direction::Daemon, 40),
            (Direction::Daemon, 4_000),
        ] {
            let name = format!("{way:?}-{toward:?}-{bytes}");
            world.proxy.cut_after(toward, bytes, CutKind::Closed);
            let line = format!("echo started >> {name}; seq 1 {LINES} # {}", "x".repeat(8_000));
            let mut process = session.start(Command::line(line)).await.unwrap();
            let (written, _) = gather(&mut process).await.unwrap();
            assert!(written == counted(), "{name}: {} bytes", written.len());
            assert_eq!(world.sandbox.read(&format!("root/{name}")), "started\n", "{name}: it ran once");
            assert!(!world.proxy.call_off(), "{name}: nothing was cut");
        }
        session.close().await.unwrap();
    }
}

/// The request that opens the session, the start of the command and the responses to both are cut anywhere.
///
/// ARCHITECTURE.md, invariant 47.
#[tokio::test]
async fn a_command_that_starts_with_its_session_runs_once_wherever_that_is_cut() {
    let world = World::new();
    let expected: String = (1..=1_000).map(|number| format!("{number}\n")).collect();
    for way in [CarrierKind::Unix, CarrierKind::WebSocket] {
        let options = SessionOptions { connect_timeout: PATIENCE, ..SessionOptions::default() };
        let toward_daemon = (1..800).step_by(47).map(|bytes| (Direction::Daemon, bytes));
        let toward_client = (1..2_000).step_by(97).map(|bytes| (Direction::Client, bytes));
        for (index, (toward, bytes)) in toward_daemon.chain(toward_client).enumerate() {
            let name = format!("{way:?}-{toward:?}-{bytes}");
            let target = target(&world.proxy.addresses, way);
            let connection = Session::dial(target, options.clone()).await.unwrap();
            let how = if index % 2 == 0 { CutKind::Closed } else { CutKind::Reset };
            world.proxy.cut_after(toward, bytes, how);
            // Longer than what is cut of it.
            let line = format!("echo started >> {name}; seq 1 1000 # {}", "x".repeat(400));
            let (session, starting) = connection.start(Command::line(line)).await.unwrap();
            let mut process = starting.process().await.unwrap();
            let (written, exit) = gather(&mut process).await.unwrap();
            assert_eq!((String::from_utf8(written).unwrap(), exit.status()), (expected.clone(), 0), "{name}");
            assert_eq!(world.sandbox.read(&format!("root/{name}")), "started\n", "{name}: it ran once");
            assert!(!world.proxy.call_off(), "{name}: nothing was cut");
            session.close().await.unwrap();
        }
    }
}

/// ARCHITECTURE.md, invariant 47.
#[tokio::test]
async fn a_change_of_a_file_is_made_once_though_its_answer_is_cut_off() {
    let world = World::new();
    let session = world.open(CarrierKind::Unix).await;
    for (round, bytes) in [3, 50, 90].into_iter().enumerate() {
        world.proxy.cut_after(Direction::Client, bytes, CutKind::Closed);
        let params = client::v1::FsWrite {
            path: "log.txt".to_owned(),
            content: format!("entry {round}\n"),
            mode: Some("append".to_owned()),
            ..Default::default()
        };
        session.files().write_with(params).await.unwrap();
        assert!(!world.proxy.call_off(), "nothing was cut");
    }
    assert_eq!(world.sandbox.read("root/log.txt"), "entry 0\nentry 1\nentry 2\n");
}

/// ARCHITECTURE.md, invariant 47.
#[tokio::test]
async fn input_is_written_once_and_in_order_wherever_the_connection_is_cut() {
    let world = World::new();
    for way in [CarrierKind::Unix, CarrierKind::WebSocket] {
        let session = world.open(way).await;
        for (toward, bytes) in [
            (Direction::Client, 100),
            (Direction::Daemon, 100_000),
            (Direction::Client, 2_000),
            (Direction::Daemon, 777_777),
        ] {
            let mut process = session.start(Command::argv(["cat"])).await.unwrap();
            let control = process.control();
            world.proxy.cut_after(toward, bytes, CutKind::Reset);
            let feeding = tokio::spawn(async move {
                let mut ahead = tokio::task::JoinSet::new();
                for piece in counted().chunks(50_000) {
                    let (control, piece) = (control.clone(), piece.to_vec());
                    ahead.spawn(async move { control.input(&piece).await });
                }
                while let Some(fed) = ahead.join_next().await {
                    fed.unwrap().unwrap();
                }
                control.close_input().await.unwrap();
            });
            let (read, exit) = gather(&mut process).await.unwrap();
            feeding.await.unwrap();
            assert_eq!(exit.status(), 0);
            assert!(read == counted(), "{way:?}, {toward:?} {bytes}: {} bytes", read.len());
            assert!(!world.proxy.call_off(), "{way:?}, {toward:?} {bytes}: nothing was cut");
        }
    }
}

/// ARCHITECTURE.md, invariant 47.
#[tokio::test]
async fn a_request_that_must_not_be_repeated_fails_as_ambiguous() {
    let world = World::new();
    let session = world.open(CarrierKind::Unix).await;
    let mut process = session.start(Command::argv(["cat"])).await.unwrap();
    let control = process.control();
    world.proxy.cut_after(Direction::Client, 3, CutKind::Closed);
    let error = control.kill(Some("USR1")).await.unwrap_err();
    assert!(matches!(error, Error::Ambiguous { method: "exec.kill", .. }), "{error}");
    let (_, exit) = gather(&mut process).await.unwrap();
    assert_eq!(exit.signal.as_deref(), Some("USR1"), "the session continues and receives the exit");
}

#[tokio::test]
async fn processes_of_a_daemon_that_dies_fail_as_lost() {
    let mut world = World::new();
    let session = world.open(CarrierKind::Unix).await;
    let mut process = session.start(Command::line("echo begun; exec sleep 1000")).await.unwrap();
    assert!(matches!(process.next().await.unwrap().unwrap().kind, ProcessEventKind::Stdout(_)));
    world.served.signal(Signal::KILL);
    world.served.wait(PATIENCE);
    world.served = ServedDaemon::start(&program("rexd"), &world.sandbox);
    let error = gather(&mut process).await.unwrap_err();
    assert!(matches!(&error, Error::Lost(loss) if matches!(**loss, SessionLoss::Expired { .. })), "{error}");
    let mut next = session.start(Command::argv(["echo", "again"])).await.unwrap();
    assert_eq!(gather(&mut next).await.unwrap().0, b"again\n", "the same handle works on the next daemon");
}

#[tokio::test]
async fn a_detached_process_is_followed_across_the_death_of_its_daemon() {
    let mut world = World::new();
    let session = world.open(CarrierKind::Unix).await;
    let go = world.sandbox.path("root/go");
    let line = format!("seq 1 1000; until test -e {}; do sleep 0.01; done; seq 1001 {LINES}", go.display());
    let mut process = session.start(Command::line(line).detach()).await.unwrap();
    let mut written = Vec::new();
    while written.len() < 3_893 {
        let ProcessEventKind::Stdout(bytes) = process.next().await.unwrap().unwrap().kind else {
            panic!("no output")
        };
        written.extend_from_slice(&bytes);
    }
    world.served.signal(Signal::KILL);
    world.served.wait(PATIENCE);
    world.served = ServedDaemon::start(&program("rexd"), &world.sandbox);
    world.sandbox.write("root/go", "");
    let (rest, exit) = gather(&mut process).await.unwrap();
    written.extend(rest);
    assert_eq!(exit.status(), 0);
    assert!(written == counted(), "{} bytes", written.len());
}

/// ARCHITECTURE.md, invariant 48.
#[tokio::test]
async fn a_process_whose_output_is_not_read_delays_no_response() {
    let world = World::new();
    let session = world.open(CarrierKind::WebSocket).await;
    let mut flood = session.start(Command::argv(["yes"])).await.unwrap();
    for _ in 0..50 {
        assert!(session.files().stat(".").await.unwrap().exists);
    }
    let mut other = session.start(Command::argv(["echo", "other"])).await.unwrap();
    let control = flood.control();
    let killed = tokio::spawn(async move { control.kill(None).await });
    // Output above the limit that is not read is dropped and reported as lost.
    let reading = tokio::spawn(async move { flood.wait().await });
    assert_eq!(gather(&mut other).await.unwrap().0, b"other\n");
    assert!(killed.await.unwrap().unwrap().ok);
    assert!(reading.await.unwrap().unwrap().signal.is_some());
}

#[tokio::test]
async fn a_connection_that_cannot_be_replaced_fails_with_a_timeout() {
    let mut world = World::new();
    let options =
        SessionOptions { reconnect_timeout: Duration::from_millis(300), ..SessionOptions::default() };
    let session = Session::open(target(&world.served.addresses, CarrierKind::Unix), options).await.unwrap();
    let mut process = session.start(Command::argv(["sleep", "1000"])).await.unwrap();
    world.served.signal(Signal::KILL);
    world.served.wait(PATIENCE);
    let error = gather(&mut process).await.unwrap_err();
    assert!(
        matches!(&error, Error::Lost(loss) if matches!(**loss, SessionLoss::ReconnectTimeout { .. })),
        "{error}"
    );
    let error = session.files().stat(".").await.unwrap_err();
    assert!(matches!(error, Error::Lost(_) | Error::Closed), "{error}");
}
