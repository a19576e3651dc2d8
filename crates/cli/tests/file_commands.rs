//! `rex mkdir`, `mv` and `rm`, and the forms of `exec`, `attach` and `logs` that people know from other programs.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

mod support;

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::process::Stdio;
use std::time::{Duration, Instant, SystemTime};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use support::{rex, run, text};
use testkit::daemon::PATIENCE;
use testkit::sandbox::Sandbox;
use testkit::tries::Tries;

/// The error text of a command that must fail with 255.
fn error(sandbox: &Sandbox, arguments: &[&str]) -> String {
    let output = run(sandbox, arguments);
    assert_eq!(output.status.code(), Some(255), "rex {arguments:?}: {output:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn directories_are_created_moved_and_removed() {
    let sandbox = Sandbox::new();
    let root = sandbox.root();
    error(&sandbox, &["mkdir", "a/b"]);
    text(&sandbox, &["mkdir", "-p", "a/b"]);
    text(&sandbox, &["mkdir", "-p", ":a/b"]);
    assert!(error(&sandbox, &["mkdir", "a/b"]).contains("exists"));
    sandbox.write("root/file", "content");
    text(&sandbox, &["mv", "file", "a/b"]);
    assert_eq!(sandbox.read("root/a/b/file"), "content");
    text(&sandbox, &["mv", "a/b/file", "other"]);
    sandbox.write("root/taken", "kept");
    assert!(error(&sandbox, &["mv", "-n", "other", "taken"]).contains("exists"));
    text(&sandbox, &["mv", "other", "taken"]);
    assert_eq!(sandbox.read("root/taken"), "content");
    assert!(error(&sandbox, &["rm", "a"]).contains("rex rm -r"));
    assert!(root.join("a/b").is_dir());
    assert_eq!(text(&sandbox, &["rm", "-r", "--json", "a", "taken"]), "{\"ok\":true}\n");
    assert!(!root.join("a").exists() && !root.join("taken").exists());
    error(&sandbox, &["rm", "taken"]);
    text(&sandbox, &["rm", "-f", "taken"]);
    let refused = error(&sandbox, &["rm", "-r", sandbox.outside().to_str().unwrap()]);
    assert!(sandbox.outside().is_dir(), "{refused}");
    let two_targets = ["-t", "unix:/nowhere", "mv", "x", "local:y"];
    assert!(error(&sandbox, &two_targets).contains("conflicting targets"));
}

#[test]
fn a_line_of_shell_runs_with_its_pipes_and_its_status() {
    let sandbox = Sandbox::new();
    assert_eq!(text(&sandbox, &["exec", "-c", "printf 'a\\nb\\n' | wc -l"]).trim(), "2");
    assert_eq!(run(&sandbox, &["exec", "-i", "-c", "exit 7"]).status.code(), Some(7));
    error(&sandbox, &["exec", "-c", "true", "--", "true"]);
}

#[test]
fn the_last_lines_of_a_log_are_printed() {
    let sandbox = Sandbox::new();
    let id = text(&sandbox, &["exec", "--detach", "--", "seq", "1", "1000"]);
    let id = id.trim();
    text(&sandbox, &["wait", id]);
    assert_eq!(text(&sandbox, &["logs", "--tail", "3", id]), "998\n999\n1000\n");
    assert_eq!(text(&sandbox, &["logs", "--tail", "0", id]), "");
    assert_eq!(text(&sandbox, &["logs", "-f", "--tail", "1", id]), "1000\n");
}

#[test]
fn attaching_without_an_id_takes_the_only_process() {
    let sandbox = Sandbox::new();
    assert!(error(&sandbox, &["attach"]).contains("no process is running"));
    let line = "echo ready; until test -e go; do sleep 0.01; done; echo ended";
    text(&sandbox, &["exec", "--detach", "--", "sh", "-c", line]);
    let two = text(&sandbox, &["exec", "--detach", "--", "sleep", "1000"]);
    assert!(error(&sandbox, &["attach"]).contains("2 processes are running"));
    text(&sandbox, &["kill", two.trim()]);
    run(&sandbox, &["wait", two.trim()]);
    let mut attached =
        rex(&sandbox, &["attach"]).stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let mut output = BufReader::new(attached.stdout.take().unwrap()).lines();
    assert_eq!(output.next().unwrap().unwrap(), "ready");
    sandbox.write("root/go", "");
    assert_eq!(output.next().unwrap().unwrap(), "ended");
    assert_eq!(attached.wait().unwrap().code(), Some(0));
}

#[test]
fn the_output_of_the_last_time_is_printed() {
    let sandbox = Sandbox::new();
    let id = text(&sandbox, &["exec", "--detach", "--name", "build", "--", "seq", "1", "5"]);
    text(&sandbox, &["wait", id.trim()]);
    let since = |time: &str| text(&sandbox, &["logs", "--since", time, "build"]);
    assert_eq!(since("1h"), "1\n2\n3\n4\n5\n");
    assert_eq!(text(&sandbox, &["logs", "--since", "1h", "--tail", "2", "build"]), "4\n5\n");
    // Its output becomes two hours old.
    let old = SystemTime::now() - Duration::from_secs(7200);
    let log = sandbox.path(format!("home/state/rexd/keepers/{}/log", id.trim()));
    for entry in std::fs::read_dir(&log).unwrap_or_else(|error| panic!("{}: {error}", log.display())) {
        File::options().write(true).open(entry.unwrap().path()).unwrap().set_modified(old).unwrap();
    }
    assert_eq!(since("1h"), "");
    assert_eq!(since("3h"), "1\n2\n3\n4\n5\n");
    assert!(error(&sandbox, &["logs", "--since", "yesterday", "build"]).contains("--since"));
}

/// The output of `rex watch` from before a directory is renamed until it is interrupted afterwards.
fn watched_rename(sandbox: &Sandbox, arguments: &[&str]) -> String {
    sandbox.write("root/old/deep/file", "content");
    let output = File::create(sandbox.path("output")).unwrap();
    let mut watch = rex(sandbox, &[&["watch"], arguments].concat()).stdout(output).spawn().unwrap();
    // The watch has started when it reports a change.
    let mut tries = Tries::within(PATIENCE, "a change to be reported");
    while !sandbox.read("output").contains("probe") {
        sandbox.write("root/probe", "");
        tries.again();
    }
    fs::rename(sandbox.path("root/old"), sandbox.path("root/new")).unwrap();
    sandbox.gains("output", "new/deep/file", Instant::now() + PATIENCE);
    kill_process(Pid::from_child(&watch), Signal::INT).unwrap();
    assert_eq!(watch.wait().unwrap().code(), Some(0));
    fs::remove_dir_all(sandbox.path("root/new")).unwrap();
    sandbox.read("output")
}

#[test]
fn a_watch_reports_the_files_of_a_renamed_directory_and_ends_with_a_summary() {
    let sandbox = Sandbox::new();
    let shown = watched_rename(&sandbox, &[]);
    let line = shown.lines().find(|line| line.contains("new/deep/file")).unwrap();
    assert!(line.starts_with("renamed ") && line.contains("old/deep/file -> "), "{shown}");
    let printed = watched_rename(&sandbox, &["--json"]);
    let lines: Vec<Value> = printed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let (summary, events) = lines.split_last().unwrap();
    let changes: usize = events.iter().map(|event| changes_of(event).len()).sum();
    assert_eq!(*summary, json!({ "changes": changes }), "{printed}");
    let is_renamed = |change: &Value| {
        let has = |field: &str, end: &str| change[field].as_str().is_some_and(|path| path.ends_with(end));
        change["kind"] == "renamed" && has("path", "old/deep/file") && has("to", "new/deep/file")
    };
    assert!(events.iter().flat_map(changes_of).any(is_renamed), "{printed}");
}

fn changes_of(event: &Value) -> &Vec<Value> {
    let event = event.get("params").unwrap_or(event);
    event["changes"].as_array().unwrap_or_else(|| panic!("{event}"))
}
