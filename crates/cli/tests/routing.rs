//! Which target is used: the real program in directories, with files and variables as people have them.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on says so and ends")]

mod support;

use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Output};

use serde_json::{Value, json};
use support::{rex, run, text};
use testkit::sandbox::Sandbox;

/// What `rex target show` says, with changes to how it is run.
fn show(sandbox: &Sandbox, change: impl FnOnce(&mut Command)) -> Value {
    let output = shown(sandbox, change);
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn shown(sandbox: &Sandbox, change: impl FnOnce(&mut Command)) -> Output {
    let mut command = rex(sandbox, &["target", "show", "--json"]);
    change(&mut command);
    command.output().unwrap()
}

fn registry(sandbox: &Sandbox, targets: &Value) {
    let text = json!({ "version": 1, "targets": targets }).to_string();
    sandbox.write("home/config/rexd/targets.json", text);
}

#[test]
fn each_rule_gives_way_to_the_one_before_it() {
    let sandbox = Sandbox::new();
    let root = sandbox.root();
    registry(&sandbox, &json!({ "claimed": { "transport": "ssh", "host": "h", "pathPrefixes": [root] } }));
    let rule = |change: &dyn Fn(&mut Command)| {
        let said = show(&sandbox, |command| change(command));
        (said["rule"].as_str().unwrap().to_owned(), said["target"].as_str().unwrap().to_owned())
    };
    let said = |rule: &str, target: &str| (rule.to_owned(), target.to_owned());
    text(&sandbox, &["target", "use", "ssh:used"]);
    sandbox.write("root/.rex.toml", "target = \"ssh:project\"\n");

    let environment = |command: &mut Command| {
        command.env("REX_TARGET", "ssh:environment");
    };
    let flag = |command: &mut Command| {
        environment(command);
        command.args(["-t", "ssh:flag"]);
    };
    assert_eq!(rule(&flag), said("-t", "ssh:flag"));
    assert_eq!(rule(&environment), said("REX_TARGET", "ssh:environment"));
    assert_eq!(rule(&|_| {}), said("project file", "ssh:project"));
    std::fs::remove_file(sandbox.path("root/.rex.toml")).unwrap();
    assert_eq!(rule(&|_| {}), said("path prefix", "ssh:h"));
    registry(&sandbox, &json!({}));
    assert_eq!(rule(&|_| {}), said("rex target use", "ssh:used"));
    text(&sandbox, &["target", "use", "-"]);
    assert_eq!(rule(&|_| {}), said("default", "local"));
}

#[test]
fn the_nearest_project_file_counts_and_its_directory_does_too() {
    let sandbox = Sandbox::new();
    registry(&sandbox, &json!({ "web": { "transport": "ssh", "host": "web", "defaultCwd": "/srv" } }));
    sandbox.write("root/.rex.toml", "target = \"web\"\ncwd = \"/srv/app\"\n");
    sandbox.write("root/deep/.rex.toml", "target = \"web\"\n");
    std::fs::create_dir_all(sandbox.path("root/deep/er")).unwrap();
    std::fs::create_dir_all(sandbox.path("root/other")).unwrap();
    let cwd = |dir: &str| {
        show(&sandbox, |command| {
            command.current_dir(sandbox.path(dir));
        })["cwd"]
            .clone()
    };
    assert_eq!(cwd("root/other"), "/srv/app");
    assert_eq!(cwd("root/deep/er"), "/srv");
}

#[test]
fn a_project_file_that_others_may_write_does_not_count() {
    let sandbox = Sandbox::new();
    let file = sandbox.write("root/.rex.toml", "target = \"ssh:elsewhere\"\n");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o666)).unwrap();
    let output = run(&sandbox, &["exec", "--", "true"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(255));
    assert!(said.contains("it is world-writable") && said.contains("chmod o-w"), "{said}");
    let asked = run(&sandbox, &["exec", "-t", "local", "--", "true"]);
    assert_eq!(asked.status.code(), Some(0), "-t goes past it: {asked:?}");
}

#[test]
fn a_project_file_of_somebody_else_does_not_count() {
    let sandbox = Sandbox::new();
    let file = sandbox.write("root/.rex.toml", "target = \"ssh:elsewhere\"\n");
    // Only root can change the owner of a file.
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let said = || String::from_utf8(run(&sandbox, &["exec", "--", "true"]).stderr).unwrap();
    std::os::unix::fs::chown(&file, Some(12_345), None).unwrap();
    assert!(said().contains("it belongs to user 12345"), "{}", said());
    std::fs::remove_file(&file).unwrap();
    let own = sandbox.write("own.toml", "target = \"local\"\n");
    std::os::unix::fs::symlink(own, &file).unwrap();
    assert_eq!(said(), "", "a link of our own is fine");
    std::os::unix::fs::lchown(&file, Some(12_345), None).unwrap();
    assert!(said().contains("it belongs to user 12345"), "{}", said());
}

/// ARCHITECTURE.md, invariant 51.
#[test]
fn a_session_of_a_runtime_carries_its_target_over_and_a_terminal_does_not() {
    let sandbox = Sandbox::new();
    registry(&sandbox, &json!({ "here": { "transport": "local" } }));
    let exec = |session: Option<&str>| {
        let mut command = rex(&sandbox, &["-t", "here", "exec", "--", "true"]);
        command.envs(session.map(|session| ("REX_SESSION", session)));
        assert_eq!(command.output().unwrap().status.code(), Some(0));
    };
    let alias = |session: Option<&str>| {
        show(&sandbox, |command| {
            command.envs(session.map(|session| ("REX_SESSION", session)));
        })["alias"]
            .clone()
    };
    exec(None);
    assert_eq!(alias(None), Value::Null);
    exec(Some("chat-1"));
    assert_eq!(
        (alias(Some("chat-1")), alias(Some("chat-2")), alias(None)),
        (json!("here"), Value::Null, Value::Null)
    );
}

#[test]
fn an_alias_before_a_path_holds_once() {
    let sandbox = Sandbox::new();
    registry(&sandbox, &json!({ "here": { "transport": "local", "workspaceRoots": [sandbox.root()] } }));
    sandbox.write("root/note.txt", "found\n");
    let path = format!("here:{}", sandbox.path("root/note.txt").display());
    let mut command = rex(&sandbox, &["read", &path]);
    let output = command.env("REX_SESSION", "chat").output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "found\n");
    let said = show(&sandbox, |command| {
        command.env("REX_SESSION", "chat");
    });
    assert_eq!(said["rule"], "default");
}

#[test]
fn a_mapped_prefix_starts_commands_in_the_directory_that_belongs_to_this_one() {
    let sandbox = Sandbox::new();
    std::fs::create_dir_all(sandbox.path("outside/app/src")).unwrap();
    std::fs::create_dir_all(sandbox.path("root/app/src")).unwrap();
    // The roots of the target are another tree, as they would be on another machine.
    let roots = json!([sandbox.outside()]);
    let prefixes = json!([{ "from": sandbox.root(), "to": sandbox.outside() }]);
    registry(
        &sandbox,
        &json!({ "there": { "transport": "local", "workspaceRoots": roots, "pathPrefixes": prefixes } }),
    );
    let mut command = rex(&sandbox, &["exec", "--", "pwd"]);
    let output = command.current_dir(sandbox.path("root/app/src")).output().unwrap();
    let expected = sandbox.path("outside/app/src");
    assert_eq!(String::from_utf8(output.stdout).unwrap().trim(), expected.to_str().unwrap());
}
