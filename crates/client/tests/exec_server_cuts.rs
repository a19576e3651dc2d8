//! Lost connections to an exec-server: output arrives once and in order, and a request is performed once.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

use std::time::{Duration, Instant};

use client::exec_server::v1::ExecParams;
use client::exec_server::{
    ExecServerClient, ExecServerError, ExecServerEvent, ExecServerProcess, RemoteExecServerConnectArgs,
};
use testkit::exec_server::ExecServer;
use testkit::proxy::{CutKind, Direction, Proxy};
use testkit::sandbox::Sandbox;

/// Few enough that a server which keeps one mebibyte per process has all of them.
const LINES: u32 = 100_000;

struct World {
    sandbox: Sandbox,
    proxy: Proxy,
    _served: ExecServer,
}

impl World {
    fn new() -> World {
        let sandbox = Sandbox::new();
        let served = ExecServer::start(&sandbox);
        World::of(sandbox, served)
    }

    fn with_config(config: &str) -> World {
        let sandbox = Sandbox::with_config(config);
        let file = sandbox.config().to_str().unwrap().to_owned();
        let served = ExecServer::start_with(&sandbox, &["--config", &file]);
        World::of(sandbox, served)
    }

    fn of(sandbox: Sandbox, served: ExecServer) -> World {
        let proxy = Proxy::start(&served.addresses, &sandbox.path("."));
        World { sandbox, proxy, _served: served }
    }

    async fn connect(&self) -> ExecServerClient {
        let url = format!("ws://{}", self.proxy.addresses.http);
        ExecServerClient::connect_websocket(RemoteExecServerConnectArgs::new(url, "tests")).await.unwrap()
    }

    fn shell(&self, name: &str, line: &str) -> ExecParams {
        ExecParams {
            process_id: name.to_owned(),
            argv: ["sh", "-c", line].map(str::to_owned).to_vec(),
            cwd: format!("file://{}", self.sandbox.root().display()),
            env: [("PATH".to_owned(), "/usr/bin:/bin".to_owned())].into(),
            pipe_stdin: true,
            ..ExecParams::default()
        }
    }
}

/// The output of a process and its exit code.
async fn gather(process: &mut ExecServerProcess) -> Result<(Vec<u8>, i32), ExecServerError> {
    let (mut bytes, mut code) = (Vec::new(), None);
    while let Some(event) = process.next().await? {
        match event {
            ExecServerEvent::Output { bytes: more, .. } => bytes.extend_from_slice(&more),
            ExecServerEvent::Exited { exit_code, .. } => assert_eq!(code.replace(exit_code), None),
            ExecServerEvent::Closed => return Ok((bytes, code.expect("it exited before it closed"))),
            other => panic!("{other:?}"),
        }
    }
    panic!("its events ended without a last one")
}

fn counted(lines: u32) -> Vec<u8> {
    (1..=lines).flat_map(|number| format!("{number}\n").into_bytes()).collect()
}

/// The connection stalls while the process writes, so that the buffers of the kernel hold far more than the server keeps, and
/// is then reset.
#[tokio::test]
async fn output_on_its_way_is_not_lost_however_little_the_server_keeps() {
    const MANY_LINES: u32 = 5_000_000;
    let world = World::with_config("[server]\nresume_bytes = 65536\n");
    let client = world.connect().await;
    let line = format!("until test -e go; do sleep 0.01; done; seq 1 {MANY_LINES}; touch written");
    let mut process = client.start(world.shell("seq", &line)).await.unwrap();
    world.proxy.throttle(Some(1));
    world.sandbox.write("root/go", "");
    world.sandbox.appears("root/written", Instant::now() + Duration::from_secs(180));
    world.proxy.cut(CutKind::Reset);
    world.proxy.throttle(None);
    let (output, code) = gather(&mut process).await.unwrap();
    assert_eq!(code, 0);
    assert!(output == counted(MANY_LINES), "{} bytes", output.len());
    client.close().await.unwrap();
}

/// ARCHITECTURE.md, invariant 63.
#[tokio::test]
async fn output_arrives_once_wherever_the_connection_is_cut() {
    let world = World::new();
    let client = world.connect().await;
    for (at, how) in [
        (1, CutKind::Closed),
        (60, CutKind::Reset),
        (130, CutKind::Closed),
        (700, CutKind::Reset),
        (9_000, CutKind::Closed),
        (65_536, CutKind::Reset),
        (300_000, CutKind::Closed),
        (700_000, CutKind::Reset),
    ] {
        let before = world.proxy.cuts();
        let params = world.shell(&format!("seq-{at}"), &format!("seq 1 {LINES}; exit 3"));
        world.proxy.cut_after(Direction::Client, at, how);
        let mut process = client.start(params).await.unwrap();
        let (written, code) = gather(&mut process).await.unwrap();
        assert!(written == counted(LINES), "cut after {at}: {} bytes", written.len());
        assert_eq!(code, 3);
        world.proxy.call_off();
        assert_eq!(world.proxy.cuts(), before + 1, "the connection was not cut after {at}");
    }
}

/// ARCHITECTURE.md, invariant 63.
#[tokio::test]
async fn a_start_that_is_cut_off_starts_one_process() {
    let world = World::new();
    let client = world.connect().await;
    for (toward, at) in
        [(Direction::Client, 1), (Direction::Client, 20), (Direction::Daemon, 30), (Direction::Daemon, 4_000)]
    {
        let name = format!("{toward:?}-{at}");
        let line = format!("echo started >> {name}; seq 1 {LINES} # {}", "x".repeat(8_000));
        world.proxy.cut_after(toward, at, CutKind::Closed);
        let mut process = client.start(world.shell(&name, &line)).await.unwrap();
        let (written, _) = gather(&mut process).await.unwrap();
        assert!(written == counted(LINES), "{name}: {} bytes", written.len());
        assert_eq!(world.sandbox.read(&format!("root/{name}")), "started\n", "{name}: it ran once");
        assert!(!world.proxy.call_off(), "{name}: nothing was cut");
    }
}

/// ARCHITECTURE.md, invariant 63.
#[tokio::test]
async fn a_write_that_is_cut_off_is_written_once() {
    let world = World::new();
    let client = world.connect().await;
    let mut process =
        client.start(world.shell("cat", "while read -r line; do echo \"$line\"; done")).await.unwrap();
    let mut expected = Vec::new();
    for number in 0..12_usize {
        let line = format!("{number} {}\n", "y".repeat(50));
        let toward = [Direction::Client, Direction::Daemon][number % 2];
        world.proxy.cut_after(toward, 1 + number * 13, CutKind::Closed);
        process.write(line.clone().into_bytes()).await.unwrap();
        expected.extend_from_slice(line.as_bytes());
        world.proxy.call_off();
    }
    let mut received = Vec::new();
    while received.len() < expected.len() {
        match process.next().await.unwrap() {
            Some(ExecServerEvent::Output { bytes, .. }) => received.extend_from_slice(&bytes),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(String::from_utf8_lossy(&received), String::from_utf8_lossy(&expected));
    assert!(process.terminate().await.unwrap());
    let (more, code) = gather(&mut process).await.unwrap();
    assert_eq!((more, code), (Vec::new(), 137));
}

/// ARCHITECTURE.md, invariant 63.
#[tokio::test]
async fn a_request_that_may_have_been_performed_is_not_sent_again() {
    let world = World::new();
    let client = world.connect().await;
    let place = world.sandbox.root().join("made");
    let params = client::exec_server::v1::FsCreateDirectoryParams {
        path: format!("file://{}", place.display()),
        recursive: Some(false),
        ..Default::default()
    };
    world.proxy.cut_after(Direction::Client, 1, CutKind::Closed);
    let error = client.fs_create_directory(params.clone()).await.unwrap_err();
    assert!(matches!(error, ExecServerError::Ambiguous { method: "fs/createDirectory", .. }), "{error:?}");
    assert!(place.is_dir(), "it had been done");
    assert!(client.fs_create_directory(params).await.unwrap_err().code().is_some(), "the session continues");
}
