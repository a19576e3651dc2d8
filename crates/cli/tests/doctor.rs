//! `rex doctor`, `rex prune` and the hints for mistakes.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

mod support;

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use serde_json::{Value, json};
use support::{rex, run, text};
use testkit::programs::program;
use testkit::sandbox::Sandbox;
use testkit::screen::Screen;
use testkit::serve::ServedDaemon;

const REGISTRY: &str = "home/config/rexd/targets.json";

#[test]
fn a_machine_without_configuration_is_healthy() {
    let sandbox = Sandbox::new();
    let shown = text(&sandbox, &["doctor"]);
    let names: Vec<&str> = shown.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(names, ["NAME", "rex", "registry", "local"], "{shown}");
    assert_eq!(shown.matches(" ok ").count(), 3, "{shown}");
}

#[test]
fn every_target_has_a_row_and_one_that_fails_decides_the_status() {
    let sandbox = Sandbox::new();
    let served = ServedDaemon::start(&program("rexd"), &sandbox);
    let targets = json!({
        "up": { "transport": "unix", "path": served.addresses.unix },
        "down": { "transport": "unix", "path": sandbox.path("nothing.sock") },
        "odd": { "transport": "pigeon" },
    });
    sandbox.write(REGISTRY, json!({ "version": 1, "targets": targets }).to_string());
    let output = run(&sandbox, &["doctor", "--json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), &report["ok"]), (Some(1), &json!(false)), "{report}");
    let checks = report["checks"].as_array().unwrap();
    let found: Vec<(&str, bool)> =
        checks.iter().map(|one| (one["name"].as_str().unwrap(), one["ok"].as_bool().unwrap())).collect();
    let expected =
        [("rex", true), ("registry", true), ("local", true), ("down", false), ("odd", false), ("up", true)];
    assert_eq!(found, expected, "{report}");
    assert!(checks[3]["hint"].as_str().unwrap().contains("rexd serve --unix"), "{report}");
    assert!(checks[4]["detail"].as_str().unwrap().contains("pigeon"), "{report}");
    let shown = run(&sandbox, &["doctor"]);
    let (rows, hints) = (String::from_utf8(shown.stdout).unwrap(), String::from_utf8(shown.stderr).unwrap());
    assert!(rows.contains("down      failed") && hints.contains("rex: down: "), "{rows}{hints}");
    sandbox.write(REGISTRY, "{");
    let broken = run(&sandbox, &["doctor"]);
    assert_eq!(broken.status.code(), Some(1), "{broken:?}");
    assert!(String::from_utf8(broken.stdout).unwrap().contains("invalid registry"));
}

#[test]
fn misspelt_keys_of_both_files_are_shown_by_doctor_and_target_list() {
    let sandbox = Sandbox::new();
    let targets = json!({
        "x": { "transport": "local", "workspaceRoot": ["/"], "custom": 1 },
        "y": { "transport": "local", "defaultCdw": "/" },
    });
    sandbox.write(REGISTRY, json!({ "targets": targets, "verson": 1, "plugins": {} }).to_string());
    let root = sandbox.root().display().to_string();
    let config = format!("defualt_timeout_ms = 1\n[[security.allowed_roots]]\npath = \"{root}\"\n");
    sandbox.write("home/config/rexd/config.toml", config);
    let shown = |arguments: &[&str]| {
        let output = run(&sandbox, arguments);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let (listed, examined) = (shown(&["target", "list"]), shown(&["doctor"]));
    for said in [&listed, &examined] {
        for meant in ["`workspaceRoots`?", "`defaultCwd`?", "`version`?"] {
            assert!(said.contains(meant), "{meant}: {said}");
        }
        assert!(!said.contains("custom") && !said.contains("plugins"), "{said}");
    }
    assert!(examined.contains("rex: local: ") && examined.contains("defualt_timeout_ms"), "{examined}");
    sandbox.write(REGISTRY, json!({ "targts": targets }).to_string());
    assert!(shown(&["target", "list"]).contains("unknown key `targts`"));
    let report: Value = serde_json::from_str(&text(&sandbox, &["doctor", "--json"])).unwrap();
    assert_eq!(report["checks"][1]["warnings"].as_array().unwrap().len(), 1, "{report}");
}

#[test]
fn the_logs_of_ended_processes_are_removed_and_those_of_running_ones_stay() {
    let sandbox = Sandbox::new();
    let start = |line: &str| text(&sandbox, &["exec", "-d", "--", "sh", "-c", line]).trim().to_owned();
    let (ended, running) = (start("echo one"), start("echo two; exec sleep 1000"));
    text(&sandbox, &["wait", &ended]);
    // The keeper of an ended process exits soon after it.
    let mut removed: Vec<String> = Vec::new();
    let mut tries =
        testkit::tries::Tries::within(std::time::Duration::from_secs(60), "the log to be removed");
    loop {
        let pruned: Value = serde_json::from_str(&text(&sandbox, &["prune", "--json"])).unwrap();
        let ids = pruned["removed"].as_array().unwrap().iter();
        removed.extend(ids.map(|id| id.as_str().unwrap().to_owned()));
        if !removed.is_empty() {
            break;
        }
        tries.again();
    }
    assert_eq!(removed, std::slice::from_ref(&ended));
    let gone = run(&sandbox, &["logs", &ended]);
    assert!(String::from_utf8(gone.stderr).unwrap().contains("no process"));
    let listed: Value = serde_json::from_str(&text(&sandbox, &["ps", "-a", "--json"])).unwrap();
    assert_eq!(listed["processes"][0]["process_id"], running.as_str());
    assert_eq!(text(&sandbox, &["prune"]), "removed the logs of 0 processes\n");
}

#[test]
fn mistakes_get_a_hint_to_what_was_meant() {
    let sandbox = Sandbox::new();
    let hint = |arguments: &[&str]| {
        let output = run(&sandbox, arguments);
        assert!(!output.status.success(), "{output:?}");
        let said = String::from_utf8(output.stderr).unwrap();
        said.lines().find_map(|line| line.strip_prefix("hint: ").map(str::to_owned)).unwrap_or(said)
    };
    for line in [&["exec", "-it", "bash"][..], &["exec", "-ti", "bash"]] {
        assert!(hint(line).contains("rex exec --tty"), "{line:?}: {}", hint(line));
    }
    assert_eq!(hint(&["exec", "ls | wc -l"]), "run it in a shell: `rex exec -c 'ls | wc -l'`");
    assert!(!hint(&["exec", "no-such-program"]).contains("exec -c"));
    assert_eq!(run(&sandbox, &["exec", "no such"]).status.code(), Some(127));
    let registry =
        json!({ "targets": { "x": { "transport": "local", "workspaceRoot": ["/"], "custom": 1 } } });
    sandbox.write(REGISTRY, registry.to_string());
    let output = run(&sandbox, &["-t", "x", "exec", "--", "true"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        said.contains("unknown field `workspaceRoot` of `x`") && said.contains("`workspaceRoots`?"),
        "{said}"
    );
    assert!(!said.contains("custom"), "{said}");
}

#[test]
fn listings_show_modes_and_searches_relative_paths() {
    let sandbox = Sandbox::new();
    sandbox.write("root/src/main.rs", "fn main() {}\n");
    sandbox.write("root/run.sh", "main\n");
    fs::set_permissions(sandbox.path("root/run.sh"), fs::Permissions::from_mode(0o750)).unwrap();
    symlink("run.sh", sandbox.path("root/link")).unwrap();
    let listed = text(&sandbox, &["ls", "-la"]);
    let line =
        |end: &str| listed.lines().find(|line| line.ends_with(end)).unwrap_or_else(|| panic!("{listed}"));
    assert!(line("  run.sh").starts_with("-rwxr-x---  "), "{listed}");
    assert!(line("  src/").starts_with("drwx"), "{listed}");
    assert!(line("  link -> run.sh").starts_with("lrwxrwxrwx  "), "{listed}");
    assert_eq!(text(&sandbox, &["glob", "**/*.rs"]), "src/main.rs\n");
    assert_eq!(text(&sandbox, &["grep", "fn main"]), "src/main.rs:1:fn main() {}\n");
    assert_eq!(text(&sandbox, &["grep", "main", "run.sh"]), "run.sh:1:main\n");
    let mut screen = Screen::start(&rex(&sandbox, &["grep", "fn main"]), 120, 24);
    let (status, seen) = screen.end();
    assert!(status.success() && seen.contains("src/main.rs:1:fn main() {}"), "{seen}");
    assert!(screen.raw().contains("\u{1b}[35msrc/main.rs\u{1b}[0m:1:"), "{:?}", screen.raw());
}

#[test]
fn a_job_without_a_terminal_is_left_and_goes_on() {
    let sandbox = Sandbox::new();
    for leave in ["~.\n", "\u{3}"] {
        let id = text(&sandbox, &["exec", "-d", "--", "sh", "-c", "echo ready; exec sleep 1000"]);
        let mut screen = Screen::start(&rex(&sandbox, &["attach", id.trim()]), 120, 24);
        screen.shows("ready");
        screen.type_in(leave);
        let (status, seen) = screen.end();
        assert_eq!(status.code(), Some(0), "{seen}");
        assert!(seen.contains(&format!("detached from {}", id.trim())), "{seen}");
        let listed = text(&sandbox, &["ps"]);
        assert!(listed.contains(id.trim()), "it goes on: {listed}");
        text(&sandbox, &["kill", id.trim()]);
    }
}
