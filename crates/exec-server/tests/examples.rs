//! Runs the examples against `rexd exec-server` and each other.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};

use testkit::exec_server::{ExecServer, exec_server};
use testkit::programs::program;
use testkit::sandbox::Sandbox;

/// What an example prints.
fn run(sandbox: &Sandbox, example: &str, arguments: &[&str]) -> String {
    let mut command = sandbox.command(program(&format!("examples/{example}")));
    let output = command.args(arguments).current_dir(sandbox.root()).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    assert!(output.status.success(), "{example}: {}", text(output.stderr));
    text(output.stdout)
}

/// A server that ends with the test.
struct Serving(Child);

impl Drop for Serving {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

#[test]
fn a_client_uses_given_streams() {
    let program = exec_server();
    let arguments = [program.to_str().unwrap(), "exec-server", "--listen", "stdio"];
    assert!(run(&Sandbox::new(), "connect_stdio", &arguments).starts_with('/'), "the path of a shell");
}

#[test]
fn a_command_is_run_on_a_server_that_listens() {
    let sandbox = Sandbox::new();
    let served = ExecServer::start(&sandbox);
    let said = run(&sandbox, "connect_websocket", &[&served.url, "sh", "-c", "echo out; exit 3"]);
    assert_eq!(said, "out\nended with 3\n");
}

#[test]
fn a_server_is_started_as_a_child_and_used() {
    let sandbox = Sandbox::new();
    sandbox.write("root/found", "");
    let root = sandbox.root();
    let said = run(&sandbox, "spawn_local", &[exec_server().to_str().unwrap(), root.to_str().unwrap()]);
    assert_eq!(said, "found\n");
    // One that was made with this crate is as good.
    let own = program("examples/run_main_with_transport");
    assert_eq!(run(&sandbox, "spawn_local", &[&own, root.to_str().unwrap()]), "found\n");
}

#[test]
fn an_own_server_serves_every_client() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.command(program("examples/run_main"));
    let mut serving = Serving(command.stdout(Stdio::piped()).spawn().unwrap());
    let mut url = String::new();
    BufReader::new(serving.0.stdout.as_mut().unwrap()).read_line(&mut url).unwrap();
    let said = run(&sandbox, "connect_websocket", &[url.trim_end(), "echo", "hello"]);
    assert_eq!(said, "hello\nended with 0\n");
}
