//! The program `rexhub`: its line on stdout, tokens, TLS, errors, and its end.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

mod support;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::sync::Arc;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use support::Peer;
use testkit::daemon::PATIENCE;
use testkit::http::{Http, bearer};
use tungstenite::Message;

fn rexhub(data: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rexhub"));
    command.args(arguments).arg("--data").arg(data);
    command
}

/// The output of a successful command.
fn text(data: &Path, arguments: &[&str]) -> String {
    let Output { status, stdout, stderr } = rexhub(data, arguments).output().unwrap();
    assert!(status.success() && stderr.is_empty(), "{}", String::from_utf8_lossy(&stderr));
    String::from_utf8(stdout).unwrap()
}

/// A running hub; killed at the end of its test.
struct Program {
    child: Child,
    stdout: BufReader<ChildStdout>,
    url: String,
    address: SocketAddr,
}

impl Program {
    fn start(data: &Path, arguments: &[&str]) -> Program {
        Program::start_with_log(data, arguments, Stdio::null())
    }

    fn start_with_log(data: &Path, arguments: &[&str], log: Stdio) -> Program {
        let mut command = rexhub(data, &["serve", "--listen", "127.0.0.1:0"]);
        let mut child = command.args(arguments).stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        let url = line.strip_prefix("listening ").unwrap().trim_end().to_owned();
        let address = url.split_once("://").unwrap().1.parse().unwrap();
        Program { child, stdout, url, address }
    }

    /// Sends SIGTERM; returns the status and the output after the first line.
    fn end(mut self) -> (Option<i32>, String) {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        let mut rest = String::new();
        self.stdout.read_to_string(&mut rest).unwrap();
        (self.child.wait().unwrap().code(), rest)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

#[test]
fn it_prints_one_line_with_its_port_and_stops_on_sigterm() {
    let directory = tempfile::tempdir().unwrap();
    let hub = Program::start(directory.path(), &[]);
    assert_ne!(hub.address.port(), 0);
    assert_eq!(hub.url, format!("http://{}", hub.address));
    let answer = Http::connect(hub.address).unwrap().ask("/healthz", &[], None).unwrap();
    assert_eq!(answer.head.status, 200);
    assert_eq!(hub.end(), (Some(0), String::new()));
}

#[test]
fn tokens_are_created_listed_and_removed_while_a_hub_runs() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let hub = Program::start(&data, &[]);
    let executor = text(&data, &["token", "add", "build-1", "--kind", "executor"]);
    let harness = text(&data, &["token", "add", "laptop", "--kind", "harness"]);
    let (executor, harness) = (executor.trim_end(), harness.trim_end());
    let target = "/cloud/executor/e/register";
    let answer = Http::connect(hub.address).unwrap().ask(target, &bearer(Some(executor)), Some(b"")).unwrap();
    let answer: Value = serde_json::from_str(&answer.body).unwrap();
    let mut connected = Peer::dial(hub.address, answer["url"].as_str().unwrap(), &[]).unwrap();

    let list = text(&data, &["token", "list", "--json"]);
    let lines: Vec<Value> = list.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let seen: Vec<_> =
        lines.iter().map(|line| (&line["name"], &line["kind"], line["last_used"].is_string())).collect();
    let expected =
        [(&"build-1".into(), &"executor".into(), true), (&"laptop".into(), &"harness".into(), false)];
    assert_eq!(seen, expected);
    assert!(lines[0]["created"].as_str().unwrap().ends_with('Z'), "{list}");
    let table = text(&data, &["token", "list"]);
    assert_eq!(table.lines().count(), 3);
    assert!(table.contains("laptop   harness") && table.contains("never"), "{table}");
    for shown in [list, table] {
        assert!(!shown.contains(executor) && !shown.contains(harness), "a token is shown once only");
    }

    text(&data, &["token", "remove", "build-1"]);
    assert_eq!(connected.closed(), 1008);
    for (arguments, message) in [
        (&["token", "remove", "build-1"][..], "no token \"build-1\""),
        (
            &["token", "add", "laptop", "--kind", "client", "--role", "viewer"],
            "a token named \"laptop\" exists",
        ),
    ] {
        let Output { status, stdout, stderr } = rexhub(&data, arguments).output().unwrap();
        let stderr = String::from_utf8(stderr).unwrap();
        assert!(status.code() == Some(1) && stdout.is_empty() && stderr.contains(message), "{stderr}");
    }
    assert_eq!(hub.end().0, Some(0));
}

#[test]
fn commands_that_cannot_be_carried_out_return_an_explicit_error() {
    let directory = tempfile::tempdir().unwrap();
    for (arguments, name) in [
        (&["serve", "--nats", "nats://x"][..], "--nats is not supported yet"),
        (&["token", "list", "--database", "mysql://x"], "not a database URL"),
        (&["token", "add", "x", "--kind", "client"], "needs a role"),
        (&["token", "add", "x", "--kind", "harness", "--role", "admin"], "has no role"),
        (&["user", "link", "none"], "no user \"none\""),
        (&["host", "remove", "none"], "no host \"none\""),
    ] {
        let Output { status, stdout, stderr } = rexhub(directory.path(), arguments).output().unwrap();
        let stderr = String::from_utf8(stderr).unwrap();
        assert!(stderr.starts_with("rexhub: ") && stderr.contains(name), "{stderr}");
        assert_eq!((status.code(), stdout), (Some(1), vec![]));
    }
}

#[test]
fn invalid_arguments_are_reported_at_start() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    std::fs::write(&file, "no certificate").unwrap();
    let (path, data) = (file.to_str().unwrap(), directory.path().join("data"));
    let tls = ["serve", "--tls-cert", path, "--tls-key", path];
    for (arguments, data, code, message) in [
        (&["serve", "--listen", "nowhere"][..], &data, 1, "invalid listen address \"nowhere\""),
        (&tls, &data, 1, "file: the file contains no certificate"),
        (&["token", "list"], &file, 1, "cannot use the data directory"),
        (&["serve", "--tls-cert", path], &data, 2, "--tls-key"),
        (&["serve", "--public-url", "hub"], &data, 2, "expected http:// or https://"),
        (&["token", "add", "a b", "--kind", "client"], &data, 2, "letters and digits"),
        (&["token", "add", "a", "--kind", "boss"], &data, 2, "executor, harness, client"),
    ] {
        let Output { status, stdout, stderr } = rexhub(data, arguments).output().unwrap();
        let stderr = String::from_utf8(stderr).unwrap();
        assert!(stderr.contains(message), "{arguments:?}: {stderr}");
        assert_eq!((status.code(), stdout), (Some(code), vec![]));
    }
}

#[test]
fn over_tls_an_executor_receives_a_wss_url() {
    let directory = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let (certificate, key) = (directory.path().join("cert.pem"), directory.path().join("key.pem"));
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let token = text(directory.path(), &["token", "add", "e", "--kind", "executor"]);
    let flags = ["--tls-cert", certificate.to_str().unwrap(), "--tls-key", key.to_str().unwrap()];
    let hub = Program::start(directory.path(), &flags);
    assert!(hub.url.starts_with("https://127.0.0.1:"), "{}", hub.url);

    let mut roots = rustls::RootCertStore::empty();
    roots.add(made.cert.der().clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let connection =
        rustls::ClientConnection::new(Arc::new(config), "localhost".try_into().unwrap()).unwrap();
    let stream = TcpStream::connect(hub.address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut stream = rustls::StreamOwned::new(connection, stream);
    let port = hub.address.port();
    let request = format!(
        "POST /cloud/executor/e/register HTTP/1.1\r\nHost: localhost:{port}\r\n\
         Authorization: Bearer {}\r\nConnection: close\r\n\r\n",
        token.trim_end()
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let expected = format!("\"url\":\"wss://localhost:{port}/cloud/executor/e/rendezvous?ticket=");
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.contains(&expected), "{answer}");
}

/// Runs a command with a text on its standard input.
fn with_input(data: &Path, arguments: &[&str], input: &str) -> Output {
    let mut command = rexhub(data, arguments);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

#[test]
fn users_hosts_and_codes_are_managed_while_a_hub_runs() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path();
    let hub = Program::start(data, &["--enrol", "code"]);
    let added =
        with_input(data, &["user", "add", "ann", "--role", "admin", "--password-stdin"], "correct horse\n");
    assert!(added.status.success(), "{}", String::from_utf8_lossy(&added.stderr));
    let again = with_input(data, &["user", "add", "ann", "--role", "viewer"], "");
    assert!(String::from_utf8(again.stderr).unwrap().contains("a user named \"ann\" exists"));
    let login = br#"{"username":"ann","password":"correct horse"}"#;
    let answer = Http::connect(hub.address).unwrap().ask("/auth/login", &[], Some(login)).unwrap();
    assert_eq!(answer.head.status, 200, "{}", answer.body);
    let token: Value = serde_json::from_str(&answer.body).unwrap();
    let bearer = bearer(token["access_token"].as_str());
    let list = text(data, &["user", "list", "--json"]);
    assert!(list.contains("\"name\":\"ann\"") && list.contains("\"role\":\"admin\""), "{list}");

    // A link signs in once.
    let link = text(data, &["user", "link", "ann", "--url", "https://hub.example/"]);
    let code = link.trim_end().strip_prefix("https://hub.example/login#").unwrap();
    let body = format!("{{\"code\":\"{code}\"}}");
    let mut statuses = Vec::new();
    for _ in 0..2 {
        let answer =
            Http::connect(hub.address).unwrap().ask("/auth/link", &[], Some(body.as_bytes())).unwrap();
        statuses.push(answer.head.status);
    }
    assert_eq!(statuses, [200, 401]);

    // A join code as text on stdout, and as a QR code on stderr.
    let shown = rexhub(data, &["join-code", "--qr"]).output().unwrap();
    assert_eq!(String::from_utf8(shown.stdout).unwrap().trim_end().len(), 24);
    assert!(String::from_utf8(shown.stderr).unwrap().lines().count() > 10, "a QR code");
    assert!(text(data, &["host", "list"]).is_empty());
    text(data, &["user", "remove", "ann"]);
    let answer = Http::connect(hub.address).unwrap().ask("/runs", &bearer, None).unwrap();
    assert_eq!((answer.head.status, answer.body.as_str()), (401, "invalid token"));
}

#[test]
fn no_token_reaches_the_log() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path();
    let client = text(data, &["token", "add", "web", "--kind", "client", "--role", "admin"]);
    let log = data.join("log");
    let hub = Program::start_with_log(data, &[], std::fs::File::create(&log).unwrap().into());
    let address = hub.address;
    let client = client.trim_end();
    let secrets = [client, "host-secret-1", "password-secret-1", "wrong-secret-1"];
    let ask = |target: &str, body: Option<&[u8]>| {
        let mut http = Http::connect(address).unwrap();
        http.ask(target, &bearer(Some(client)), body).unwrap().head.status
    };
    let dial = |target: &str| Peer::dial(address, &format!("ws://{address}{target}"), &[]).map(drop);
    dial(&format!("/ws/app?token={client}")).unwrap();
    dial("/ws/app?token=wrong-secret-1").unwrap_err();
    dial("/ws/host?host_id=h&host_token=host-secret-1").unwrap();
    dial("/ws/host?host_id=h&host_token=wrong-secret-1").unwrap_err();
    assert_eq!(ask("/auth/login", Some(br#"{"username":"x","password":"password-secret-1"}"#)), 401);
    assert_eq!(ask("/server/logs/tail", None), 200, "the log is shown to administrators");
    assert_eq!(hub.end().0, Some(0));
    let log = std::fs::read_to_string(log).unwrap();
    assert!(log.contains("host connected") && log.contains("sign-in failed"), "{log}");
    for secret in secrets {
        assert!(!log.contains(secret), "{log}");
    }
}

/// Reads messages of a WebSocket until one contains a text.
fn until(peer: &mut Peer, text: &str) {
    loop {
        if let Message::Text(received) = peer.receive()
            && received.contains(text)
        {
            return;
        }
    }
}

/// Neither for a host that is connected nor for one that is not, nor if the message is invalid.
#[test]
fn no_input_reaches_the_log() {
    let directory = tempfile::tempdir().unwrap();
    let (data, log) = (directory.path(), directory.path().join("log"));
    let client = text(data, &["token", "add", "web", "--kind", "client", "--role", "admin"]);
    let client = client.trim_end();
    let hub = Program::start_with_log(data, &[], std::fs::File::create(&log).unwrap().into());
    let address = hub.address;
    let ask = |target: &str, body: Option<&str>| {
        let mut http = Http::connect(address).unwrap();
        http.ask(target, &bearer(Some(client)), body.map(str::as_bytes)).unwrap()
    };
    let dial = |target: &str| Peer::dial(address, &format!("ws://{address}{target}"), &[]).unwrap();
    let mut host = dial("/ws/host?host_id=h&host_token=host-secret-1");
    let started =
        r#"{"type":"run.started","run_id":"r","seq":1,"data":{"tool":"t","cwd":"/","command":"c"}}"#;
    host.send_raw(Message::text(started)).unwrap();
    until(&mut host, "run.ack");
    let mut app = dial(&format!("/ws/app?token={client}"));
    let send = |app: &mut Peer, kind: &str, number: usize| {
        let data = format!(r#"{{"input_id":"i{number}","text":"typed-secret-{number}"}}"#);
        let message = format!(r#"{{"type":"{kind}","run_id":"r","data":{data}}}"#);
        app.send_raw(Message::text(message)).unwrap();
        ask("/runs/r/input", Some(&data.replace("typed-", "posted-"))).head.status
    };
    for (number, kind) in ["run.send_input", "run.send_stdin"].into_iter().enumerate() {
        assert_eq!(send(&mut app, kind, number), 204);
        until(&mut host, &format!("typed-secret-{number}"));
    }
    drop(host);
    until(&mut app, "host.offline");
    for (number, kind) in ["run.send_input", "run.send_stdin", "run.unknown"].into_iter().enumerate() {
        assert!(send(&mut app, kind, number) >= 400);
        until(&mut app, "app.error");
    }
    app.send_raw(Message::text(r#"{"type":"run.send_input","run_id":"r","data":{"text":"typed-secret"#))
        .unwrap();
    until(&mut app, "app.error");
    assert!(ask("/runs/r/input", Some(r#"{"text":"posted-secret"#)).head.status >= 400);
    let tail = ask("/server/logs/tail", None);
    assert_eq!(tail.head.status, 200);
    assert_eq!(hub.end().0, Some(0));
    let log = std::fs::read_to_string(log).unwrap();
    assert!(log.contains("host disconnected") && tail.body.contains("host disconnected"), "{log}");
    for text in [log, tail.body] {
        assert!(!text.contains("typed-secret") && !text.contains("posted-secret"), "{text}");
    }
}
