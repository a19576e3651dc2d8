//! Through a hub: an executor made with this crate registers, and clients reach it by its rendezvous.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on says so and ends")]

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use exec_server::{
    ExecParams, ExecServerClient, ExecServerEvent, ExecServerProcess, RemoteExecServerConnectArgs,
};
use testkit::daemon::PATIENCE;
use testkit::programs::program;
use testkit::proxy::{How, Proxy, Toward};
use testkit::sandbox::Sandbox;
use testkit::serve::Doors;
use testkit::tries::Tries;

/// A program that ends with its test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// A hub, an executor that registered there, and what a harness shows.
struct World {
    sandbox: Sandbox,
    doors: Doors,
    token: String,
    _running: [Running; 2],
}

impl World {
    fn new() -> World {
        let sandbox = Sandbox::new();
        let mut hub = rexhub(&sandbox, &["serve", "--listen", "127.0.0.1:0"]);
        let mut hub = hub.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(hub.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let url = line.trim_end().strip_prefix("listening ").expect("the hub listens").to_owned();
        let token = |name: &str, kind: &str| {
            let output = rexhub(&sandbox, &["token", "add", name, "--kind", kind]).output().unwrap();
            assert!(output.status.success(), "{output:?}");
            String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
        };
        let (executor, harness) = (token("builder", "executor"), token("laptop", "harness"));
        let mut command = sandbox.command(program("examples/run_remote_executor"));
        let executor = command.args([&url, "e-1", &executor]).current_dir(sandbox.root()).spawn().unwrap();
        let http = url.strip_prefix("http://").unwrap().parse().unwrap();
        let doors = Doors { unix: sandbox.path("none.sock"), http, token: None };
        World { sandbox, doors, token: harness, _running: [Running(hub), Running(executor)] }
    }

    fn rendezvous(&self, doors: &Doors) -> String {
        format!("ws://{}/cloud/executor/e-1/rendezvous", doors.http)
    }

    /// A client; it tries until the executor is there.
    async fn connect(&self, doors: &Doors) -> ExecServerClient {
        let args = RemoteExecServerConnectArgs {
            bearer_token: Some(self.token.clone()),
            ..RemoteExecServerConnectArgs::new(self.rendezvous(doors), "tests")
        };
        let mut tries = Tries::within(PATIENCE, "the executor does not come to the rendezvous");
        loop {
            match ExecServerClient::connect_relay(args.clone()).await {
                Ok(client) => return client,
                Err(error) => must_pass(&error),
            }
            tries.again();
        }
    }

    fn shell(&self, name: &str, line: &str) -> ExecParams {
        ExecParams {
            process_id: name.to_owned(),
            argv: ["sh", "-c", line].map(str::to_owned).to_vec(),
            cwd: format!("file://{}", self.sandbox.root().display()),
            env: [("PATH".to_owned(), "/usr/bin:/bin".to_owned())].into(),
            ..ExecParams::default()
        }
    }
}

/// Only what may pass is waited for.
fn must_pass(error: &exec_server::ExecServerError) {
    assert!(!error.to_string().contains("token"), "{error}");
}

fn rexhub(sandbox: &Sandbox, arguments: &[&str]) -> Command {
    let mut command = sandbox.command(program("rexhub"));
    command.args(arguments).arg("--data").arg(sandbox.path("hub"));
    command
}

async fn gather(process: &mut ExecServerProcess) -> (Vec<u8>, Option<i32>) {
    let (mut bytes, mut code) = (Vec::new(), None);
    while let Some(event) = process.next().await.unwrap() {
        match event {
            ExecServerEvent::Output { bytes: more, .. } => bytes.extend_from_slice(&more),
            ExecServerEvent::Exited { exit_code, .. } => code = Some(exit_code),
            ExecServerEvent::Closed => break,
            other => panic!("{other:?}"),
        }
    }
    (bytes, code)
}

#[tokio::test]
async fn commands_run_and_files_are_read_through_a_hub() {
    let world = World::new();
    let client = world.connect(&world.doors).await;
    let mut process = client.start(world.shell("p", "seq 1 100000; exit 3")).await.unwrap();
    let (said, code) = gather(&mut process).await;
    let expected: Vec<u8> = (1..=100_000).flat_map(|number| format!("{number}\n").into_bytes()).collect();
    assert!(said == expected, "{} bytes", said.len());
    assert_eq!(code, Some(3));
    client.close().await.unwrap();
    world.sandbox.write("root/greeting", "hi");
    let file = world.sandbox.root().join("greeting");
    let mut example = world.sandbox.command(program("examples/connect_relay"));
    example.args([&world.rendezvous(&world.doors), &world.token, file.to_str().unwrap()]);
    let output = example.output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "aGk=\n", "{output:?}");
    let mut rex = world.sandbox.command(program("rex"));
    rex.env("REX_TOKEN", &world.token).arg("-t");
    rex.arg(format!("codex:{}?role=harness", world.rendezvous(&world.doors)))
        .args(["exec", "--", "echo", "hello"]);
    let output = rex.output().unwrap();
    assert_eq!((output.status.code(), output.stdout), (Some(0), b"hello\n".to_vec()));
}

#[tokio::test]
async fn a_cut_on_the_way_to_the_hub_is_not_noticed() {
    let world = World::new();
    let proxy = Proxy::start(&world.doors, &world.sandbox.path("."));
    let client = world.connect(&proxy.doors).await;
    let expected: Vec<u8> = (1..=50_000).flat_map(|number| format!("{number}\n").into_bytes()).collect();
    for (at, how) in [(200, How::Reset), (5_000, How::Closed), (80_000, How::Reset), (250_000, How::Closed)] {
        proxy.cut_after(Toward::Client, at, how);
        let mut process = client.start(world.shell(&format!("p-{at}"), "seq 1 50000")).await.unwrap();
        let (said, code) = gather(&mut process).await;
        assert!(said == expected, "cut after {at}: {} bytes", said.len());
        assert_eq!(code, Some(0));
        assert!(!proxy.call_off(), "the connection was not cut after {at}");
    }
}
