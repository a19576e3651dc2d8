//! How the daemon is started: port, data and log from arguments, variables and the file, and its other names.

use std::io::Read as _;
use std::net::TcpListener;
use std::process::Command;
use std::time::Instant;

use serde_json::json;
use testkit::sandbox::Sandbox;

use crate::support::{PATIENCE, REXD, Served, spawn};

const LISTENING: &str = "stringd listening on http://";

/// A port that another program has, so that the daemon names it when it fails.
fn taken() -> (TcpListener, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

/// The error of a daemon that cannot start.
fn failure(mut command: Command) -> String {
    let output = command.output().unwrap();
    assert!(!output.status.success(), "{output:?}");
    assert!(output.stdout.is_empty(), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn an_argument_wins_over_the_variable_and_the_variable_over_the_file() {
    let ((_a, in_file), (_b, in_variable), (_c, in_argument)) = (taken(), taken(), taken());
    let sandbox = Sandbox::with_config(&format!("[stringd]\nport = {in_file}\n"));
    let command = |variable: Option<&str>, argument: Option<String>| {
        let mut command = sandbox.command(REXD);
        command.arg("stringd").args(argument).arg("--config").arg(sandbox.config());
        command.envs(variable.map(|port| ("STRINGD_PORT", port.to_owned())));
        command
    };
    let variable = in_variable.to_string();
    for (command, port) in [
        (command(None, None), in_file),
        (command(Some("not a port"), None), in_file),
        (command(Some("0"), None), in_file),
        (command(Some(&variable), None), in_variable),
        (command(Some(&variable), Some(in_argument.to_string())), in_argument),
    ] {
        let text = failure(command);
        assert!(text.contains(&format!("cannot listen on 127.0.0.1:{port}")), "{text}");
    }
    let served = spawn(command(Some(&variable), Some("0".to_owned())), LISTENING);
    assert!(![in_file, in_variable, in_argument].contains(&served.address.port()));
    assert_eq!(served.client().get("/health")["ok"], true);
}

#[test]
fn data_and_log_are_where_the_variables_name_them() {
    let sandbox = Sandbox::with_config("[stringd]\ndata_dir = \"$DIR/in-file\"\n");
    for (variable, expected) in [(None, "in-file"), (Some("in-variable"), "in-variable")] {
        let mut command = sandbox.command(REXD);
        command.args(["stringd", "0", "--config"]).arg(sandbox.config()).env("STRINGD_LOG", "1");
        command.envs(variable.map(|name| ("STRINGD_DATA_DIR", name)));
        let mut served = spawn(command, LISTENING);
        let mut client = served.user(&sandbox.root());
        assert_eq!(client.exec("bash:a", "echo  two  blanks").head["ok"], true);
        assert!(sandbox.read(&format!("{expected}/users.json")).contains("\"id\": \"u\""));
        assert_eq!(client.request("POST", "/shutdown", b"").0, 200);
        assert!(served.wait().success());
        let log = sandbox.read(&format!("{expected}/logs/stringd.log"));
        let events: Vec<&str> =
            log.lines().map(|line| &line["[2026-01-01T00:00:00.000Z] ".len()..]).collect();
        let home = sandbox.root().display().to_string();
        let port = served.address.port();
        for event in [
            format!("INFO  server.start port={port}"),
            "INFO  request method=POST path=/users".to_owned(),
            format!("INFO  user.register user=u home={home}"),
            "INFO  request method=POST path=/exec".to_owned(),
            "INFO  request method=POST path=/shutdown".to_owned(),
            "INFO  server.stop".to_owned(),
        ] {
            assert!(events.contains(&event.as_str()), "{event}: {log}");
        }
        let exec = "INFO  exec user=u topic=bash:a cmd=\"echo  two  blanks\" code=- ms=";
        assert!(events.iter().any(|event| event.starts_with(exec)), "{log}");
        let mut printed = String::new();
        served.stdout.read_to_string(&mut printed).unwrap();
        assert!(printed.contains("INFO  request method=POST path=/users\n"), "{printed}");
    }
}

#[test]
fn a_large_log_is_renamed_once() {
    let sandbox = Sandbox::new();
    let old = "x".repeat(10 * 1024 * 1024);
    sandbox.write(".stringd/logs/stringd.log", &old);
    sandbox.write(".stringd/logs/stringd.log.1", "older");
    let mut command = sandbox.command(REXD);
    command.args(["stringd", "0", "--log", "--config"]).arg(sandbox.config());
    let served = spawn(command, LISTENING);
    assert_eq!(served.client().get("/health")["ok"], true);
    sandbox.gains(".stringd/logs/stringd.log", "path=/health", Instant::now() + PATIENCE);
    assert!(sandbox.read(".stringd/logs/stringd.log.1") == old, "the old log is kept once");
}

#[test]
fn other_names_and_arguments_start_the_same_daemon() {
    let sandbox = Sandbox::new();
    sandbox.link("stringd", REXD);
    let renamed = sandbox.path("stringd");
    for (program, arguments, logs) in [
        (REXD.as_ref(), &["stringd", "0"][..], false),
        (REXD.as_ref(), &["--daemon", "foreground", "0"], false),
        (renamed.as_path(), &["0"], false),
        (renamed.as_path(), &["--daemon", "foreground", "0", "--log"], true),
    ] {
        let mut command = sandbox.command(program);
        command.args(arguments).env("REXD_CONFIG", sandbox.config());
        let mut served: Served = spawn(command, LISTENING);
        let mut client = served.user(&sandbox.root());
        assert!(client.exec("bash:a", "echo runs").body().ends_with("runs"), "{arguments:?}");
        assert_eq!(sandbox.path(".stringd/logs/stringd.log").exists(), logs, "{arguments:?}");
        let stopping = client.request("POST", "/shutdown", b"");
        assert_eq!(stopping, (200, json!({ "ok": true, "message": "stringd shutting down" })));
        assert!(served.wait().success(), "{arguments:?}");
    }
}

#[test]
fn a_log_on_a_pipe_that_is_not_read_stops_nothing() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.command(REXD);
    command.args(["stringd", "0", "--log", "--config"]).arg(sandbox.config());
    let served = spawn(command, "stringd listening on http://");
    let mut client = served.client();
    // More than a pipe holds.
    let path = format!("/{}", "x".repeat(8_000));
    for _ in 0..40 {
        assert_eq!(client.request("GET", &path, b"").0, 404);
    }
    assert_eq!(client.request("GET", "/last", b"").0, 404);
    sandbox.gains(".stringd/logs/stringd.log", "path=/last", Instant::now() + PATIENCE);
}
