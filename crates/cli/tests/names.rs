//! Processes with names: started, found, replaced.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on says so and ends")]

mod support;

use std::time::Duration;

use serde_json::Value;
use support::{run, text};
use testkit::sandbox::Sandbox;
use testkit::tries::Tries;

/// Each `rex` starts a daemon of its own, so that the name is found by another daemon than the one that started the process.
#[test]
fn a_named_process_is_found_by_its_name_until_another_one_has_it() {
    let sandbox = Sandbox::new();
    let start = |line: &str| run(&sandbox, &["exec", "-d", "--name", "build", "--", "sh", "-c", line]);
    let first = start("echo one; exec sleep 1000");
    assert!(first.status.success(), "{first:?}");
    let first = String::from_utf8(first.stdout).unwrap().trim().to_owned();
    let refused = start("true");
    let said = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(255), "{said}");
    assert!(said.contains(&format!("a running process has the name build already: {first}")), "{said}");

    let listed: Value = serde_json::from_str(&text(&sandbox, &["ps", "--json"])).unwrap();
    let listed = &listed["processes"][0];
    assert_eq!(
        (listed["name"].as_str(), listed["process_id"].as_str()),
        (Some("build"), Some(first.as_str()))
    );
    let shown = text(&sandbox, &["ps"]);
    assert!(shown.starts_with("ID              NAME   STATUS"), "{shown}");
    let mut tries = Tries::within(Duration::from_secs(60), "the output of the process");
    while text(&sandbox, &["logs", "build"]) != "one\n" {
        tries.again();
    }
    text(&sandbox, &["kill", "build"]);
    // A sleep that gets no processor time after TERM is killed.
    assert!(matches!(run(&sandbox, &["wait", "build"]).status.code(), Some(143 | 137)));

    assert!(start("echo two; exit 3").status.success(), "the name is free again");
    assert_eq!(run(&sandbox, &["wait", "build"]).status.code(), Some(3), "the last process of this name");
    let attached = run(&sandbox, &["attach", "build"]);
    assert_eq!((attached.stdout.as_slice(), attached.status.code()), (&b"two\n"[..], Some(3)));
    assert_eq!(text(&sandbox, &["logs", &first]), "one\n", "the first one is found by its id");
}

#[test]
fn a_name_that_is_none_and_one_that_is_unknown_are_refused() {
    let sandbox = Sandbox::new();
    let refused = run(&sandbox, &["exec", "--name", "p_1", "--", "true"]);
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(refused.status.code() == Some(255) && said.contains("must not start with"), "{said}");
    for command in ["attach", "logs", "kill", "wait"] {
        let unknown = run(&sandbox, &[command, "nothing"]);
        let said = String::from_utf8(unknown.stderr).unwrap();
        assert!(
            unknown.status.code() == Some(255) && said.contains("no process nothing"),
            "{command}: {said}"
        );
        assert!(said.contains("hint: `rex ps -a`"), "{command}: {said}");
    }
}

#[test]
fn a_process_that_has_ended_cannot_be_killed() {
    let sandbox = Sandbox::new();
    let id = text(&sandbox, &["exec", "-d", "--name", "short", "--", "true"]);
    assert_eq!(run(&sandbox, &["wait", "short"]).status.code(), Some(0));
    for arguments in [&["kill", "short"][..], &["kill", "-s", "INT", "short"], &["kill", id.trim()]] {
        let refused = run(&sandbox, arguments);
        let said = String::from_utf8(refused.stderr).unwrap();
        assert_eq!(refused.status.code(), Some(255), "{arguments:?}: {said}");
        assert!(said.contains("already exited") && said.contains("hint: `rex ps`"), "{arguments:?}: {said}");
    }
}
