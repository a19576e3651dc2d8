//! Several ssh connections to one machine: approvals and processes of one are reached through the others.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

#[path = "support/ssh.rs"]
mod ssh;
mod support;

use std::process::{Command, Stdio};
use std::time::Duration;

use ssh::Machine;
use support::REX;
use testkit::programs::program;
use testkit::screen::Screen;
use testkit::tries::Tries;

/// A machine behind ssh on which `touch` needs an approval.
fn machine() -> Machine {
    let machine = Machine::start();
    machine
        .sandbox
        .configure("[[policy.rules]]\nname = \"touching\"\naction = \"ask\"\nargv = [\"touch\", \"*\"]\n");
    let registry = serde_json::json!({ "version": 1, "targets": { "far": {
        "transport": "ssh",
        "host": "far",
        "sshOptions": ["-F", machine.sshd.client_config(&machine.sandbox)],
        "command": { "program": program("rexd"), "args": ["--stdio", "--config", machine.sandbox.config()] },
        "defaultCwd": machine.sandbox.root(),
    } } });
    machine.sandbox.write("home/config/rexd/targets.json", registry.to_string());
    machine
}

fn rex(machine: &Machine, arguments: &[&str]) -> Command {
    let mut command = machine.sandbox.command(REX);
    command.args(["-t", "far"]).args(arguments).stdin(Stdio::null());
    command
}

fn stdout(machine: &Machine, arguments: &[&str]) -> String {
    let output = rex(machine, arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_request_over_ssh_is_approved_over_another_connection() {
    let machine = machine();
    let mut watch = Screen::start(&rex(&machine, &["approvals", "watch"]), 120, 40);
    watch.shows("waiting for approval requests");
    let exec = rex(&machine, &["exec", "--", "touch", "made"]).spawn().unwrap();
    watch.shows("approve? [y]es");
    watch.shows("touch made");
    let listed = stdout(&machine, &["approvals", "list"]);
    assert!(listed.contains("touch made"), "{listed}");
    watch.type_in("y\n");
    let output = exec.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(machine.sandbox.path("root/made").exists());
    // Without a watcher connected, a list from a later connection is too late: the request is denied at once.
    drop(watch);
    let mut tries = Tries::within(Duration::from_secs(60), "the watcher's daemon ends");
    while rex(&machine, &["exec", "--", "touch", "more"]).stderr(Stdio::null()).status().unwrap().success() {
        tries.again();
    }
    assert!(!machine.sandbox.path("root/more").exists());
}

#[test]
fn a_command_over_ssh_is_listed_and_killed_over_another_connection() {
    let machine = machine();
    let mut exec = rex(&machine, &["exec", "--", "sleep", "1000"]).spawn().unwrap();
    let mut tries = Tries::within(Duration::from_secs(60), "the command is listed");
    let id = loop {
        let listed: serde_json::Value = serde_json::from_str(&stdout(&machine, &["ps", "--json"])).unwrap();
        let processes = listed["processes"].as_array().unwrap().clone();
        let found = processes.iter().find(|process| process["argv"][0] == "sleep");
        if let Some(found) = found {
            break found["process_id"].as_str().unwrap().to_owned();
        }
        tries.again();
    };
    let killed = stdout(&machine, &["kill", &id]);
    assert!(killed.contains("sleep"), "{killed}");
    // A program that gets no processor time after TERM is killed.
    assert!(matches!(exec.wait().unwrap().code(), Some(143 | 137)));
}
