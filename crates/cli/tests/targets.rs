//! `rex target` with the real program: the registry, and the steps of a test over a real sshd.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on says so and ends")]

#[path = "support/ssh.rs"]
mod ssh;
mod support;

use serde_json::{Value, json};
use ssh::Machine;
use support::{rex, run, text};
use testkit::programs::program;
use testkit::sandbox::Sandbox;
use testkit::serve::{ServedDaemon, TOKEN};

const REGISTRY: &str = "home/config/rexd/targets.json";

#[test]
fn what_is_added_is_listed_and_what_others_wrote_stays() {
    let sandbox = Sandbox::new();
    let foreign = r#"{"version": 1, "ui": {"z": 1, "a": [2.50]}, "targets": {"old": {"transport": "ssh", "host": "o", "capabilities": {"pty": true}, "x": 1e3}}}"#;
    sandbox.write(REGISTRY, foreign);
    let arguments = [
        "target",
        "add",
        "web",
        "ssh:deploy@web.example:2222",
        "--cwd",
        "/srv/app",
        "--root",
        "/srv/app",
        "-i",
        "~/.ssh/id",
        "-o",
        "Compression=yes",
        "-o",
        "-4",
        "--prefix",
        "/home/me/app=/srv/app",
    ];
    text(&sandbox, &arguments);
    let line = text(&sandbox, &["target", "list", "--json"]);
    assert_eq!(line.lines().count(), 1);
    assert!(line.contains(r#""ui":{"z":1,"a":[2.50]}"#) && line.contains(r#""x":1e3"#), "{line}");
    let listed: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(
        listed["targets"]["web"],
        json!({
            "transport": "ssh", "host": "web.example", "user": "deploy", "port": 2222, "identityFile": "~/.ssh/id",
            "sshOptions": ["-o", "Compression=yes", "-4"], "workspaceRoots": ["/srv/app"], "defaultCwd": "/srv/app",
            "pathPrefixes": [{ "from": "/home/me/app", "to": "/srv/app" }],
        })
    );
    text(&sandbox, &["target", "use", "web"]);
    let table = text(&sandbox, &["target", "list"]);
    let marked: Vec<&str> = table.lines().filter(|line| line.starts_with('*')).collect();
    assert!(
        marked.len() == 1 && marked[0].contains("web") && marked[0].contains("ssh:deploy@web.example:2222"),
        "{table}"
    );
    text(&sandbox, &["target", "remove", "web"]);
    let without: String = foreign.split_whitespace().collect();
    assert_eq!(text(&sandbox, &["target", "list", "--json"]).trim(), without);
}

#[test]
fn an_alias_is_replaced_only_by_force_and_keeps_what_plugins_say_about_it() {
    let sandbox = Sandbox::new();
    sandbox.write(
        REGISTRY,
        r#"{"targets": {"a": {"host": "old", "user": "me", "rootPolicy": {"mode": "strict"}}}}"#,
    );
    let refused = run(&sandbox, &["target", "add", "a", "ssh:new"]);
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(said.contains("alias `a` exists: ssh:me@old") && said.contains("--force"), "{said}");
    text(&sandbox, &["target", "add", "a", "ssh:new", "--force"]);
    let listed: Value = serde_json::from_str(&text(&sandbox, &["target", "list", "--json"])).unwrap();
    let entry = json!({ "transport": "ssh", "host": "new", "rootPolicy": { "mode": "strict" } });
    assert_eq!(listed["targets"]["a"], entry);
}

#[test]
fn two_that_add_at_once_lose_nothing() {
    let sandbox = Sandbox::new();
    let started: Vec<_> = (0..12)
        .map(|index| {
            let (alias, place) = (format!("t{index}"), format!("ssh:host{index}"));
            rex(&sandbox, &["target", "add", &alias, &place])
                .stdout(std::process::Stdio::null())
                .spawn()
                .unwrap()
        })
        .collect();
    for mut adding in started {
        assert!(adding.wait().unwrap().success());
    }
    let listed: Value = serde_json::from_str(&text(&sandbox, &["target", "list", "--json"])).unwrap();
    assert_eq!(listed["targets"].as_object().unwrap().len(), 12);
}

/// The steps of a test, by name and result, and the whole report.
fn tested(sandbox: &Sandbox, name: &str) -> (Vec<(String, Value)>, Value, Option<i32>) {
    let output = run(sandbox, &["target", "test", name, "--json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    let steps = report["steps"].as_array().unwrap().iter();
    let steps = steps.map(|step| (step["step"].as_str().unwrap().to_owned(), step["ok"].clone())).collect();
    (steps, report, output.status.code())
}

/// The step that failed, what it said and what it advises; those before went well, those after were not tried.
fn failing(sandbox: &Sandbox, name: &str) -> (String, String, String) {
    let (steps, report, status) = tested(sandbox, name);
    assert_eq!((status, &report["ok"]), (Some(1), &json!(false)), "{report}");
    let place = steps.iter().position(|(_, ok)| ok == &json!(false)).unwrap_or_else(|| panic!("{report}"));
    assert!(steps[..place].iter().all(|(_, ok)| ok == &json!(true)), "{report}");
    assert!(steps[place + 1..].iter().all(|(_, ok)| ok.is_null()), "{report}");
    let text = |key: &str| report["steps"][place][key].as_str().unwrap_or_default().to_owned();
    (steps[place].0.clone(), text("detail"), text("hint"))
}

#[test]
fn a_target_that_works_passes_every_step() {
    let machine = Machine::start_with("REXD_CONFIG=$DIR/config.toml");
    machine.add("box", &["--command", &format!("{} --stdio", program("rexd"))]);
    let (steps, report, status) = tested(&machine.sandbox, "box");
    let names: Vec<&str> = steps.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["name", "reach", "log in", "rexd", "session", "roots", "command", "file"]);
    assert_eq!((status, &report["ok"]), (Some(0), &json!(true)), "{report}");
    let left: Vec<_> = std::fs::read_dir(machine.sandbox.root()).unwrap().collect();
    assert!(left.is_empty(), "the file that was tried is gone: {left:?}");
    let shown = text(&machine.sandbox, &["target", "test", "box"]);
    assert_eq!(shown.lines().filter(|line| line.starts_with("ok ")).count(), 8, "{shown}");
}

#[test]
fn this_machine_passes_every_step_too() {
    let sandbox = Sandbox::new();
    let (steps, report, status) = tested(&sandbox, "local");
    assert_eq!((steps.len(), status), (6, Some(0)), "{report}");
}

#[test]
fn the_step_that_fails_is_named_with_what_to_do() {
    let machine = Machine::start_with("REXD_CONFIG=$DIR/config.toml");
    let sandbox = &machine.sandbox;
    let line = format!("{} --stdio", program("rexd"));
    machine.add("box", &["--command", &line]);

    let (step, said, hint) = failing(sandbox, "bxo");
    assert_eq!(step, "name");
    assert!(said.contains("unknown target `bxo`") && hint.contains("did you mean `box`?"), "{said} {hint}");

    machine.add("closed", &["-o", "Port=1", "--force"]);
    let closed = failing(sandbox, "closed");
    assert_eq!(closed.0, "reach", "{closed:?}");

    machine.add("empty", &[]);
    let (step, said, hint) = failing(sandbox, "empty");
    assert_eq!(step, "rexd");
    assert!(
        said.contains("rexd is not installed on that machine") && hint.contains("rex target install"),
        "{said} {hint}"
    );

    let answer = r#"{"jsonrpc":"2.0","id":1,"result":{"session_id":"s","protocol":"rexd/0"}}"#;
    machine.add("old", &["--command", &format!("echo '{answer}'; cat >/dev/null")]);
    let (step, said, hint) = failing(sandbox, "old");
    assert_eq!(step, "session");
    assert!(hint.contains("rex target install"), "{said} {hint}");

    machine.add("astray", &["--command", &line, "--cwd", "/etc"]);
    let (step, said, hint) = failing(sandbox, "astray");
    assert_eq!(step, "roots");
    assert!(
        said.contains("invalid working directory /etc") && hint.contains("allowed roots"),
        "{said} {hint}"
    );

    sandbox.configure("[[policy.rules]]\nname = \"no\"\naction = \"deny\"\nargv = [\"uname\", \"*\"]\n");
    assert_eq!(failing(sandbox, "box").0, "command");
    sandbox.configure(
        "[[policy.rules]]\nname = \"no\"\naction = \"deny\"\npaths = [\"$ROOT/**\"]\naccess = \"write\"\n",
    );
    assert_eq!(failing(sandbox, "box").0, "file");
    sandbox.configure("[[security.allowed_roots]\n");
    let (step, said, _) = failing(sandbox, "box");
    assert_eq!(step, "rexd");
    assert!(said.contains("config.toml"), "the daemon's own words: {said}");

    sandbox.write("ssh/authorized_keys", "");
    let (step, said, hint) = failing(sandbox, "box");
    assert_eq!(step, "log in", "{said}");
    assert!(said.contains("Permission denied") && hint.contains("ssh-copy-id"), "{said} {hint}");
}

#[test]
fn a_daemon_that_listens_is_tested_with_its_token() {
    let sandbox = Sandbox::new();
    let served = ServedDaemon::start(&program("rexd"), &sandbox);
    let (url, socket) =
        (format!("http://{}", served.addresses.http), format!("unix:{}", served.addresses.unix.display()));
    assert_eq!(tested(&sandbox, &socket).2, Some(0));
    let (step, _, hint) = failing(&sandbox, &url);
    assert_eq!(step, "log in");
    assert!(hint.contains("REX_TOKEN") && hint.contains("tokenFile"), "{hint}");
    let file = sandbox.write("token", format!("{TOKEN}\n"));
    text(&sandbox, &["target", "add", "api", &url, "--token-file", file.to_str().unwrap()]);
    assert_eq!(tested(&sandbox, "api").2, Some(0));

    let status = |project: &str| {
        sandbox.write("root/.rex.toml", format!("target = \"{project}\"\n"));
        let mut command = rex(&sandbox, &["exec", "--", "true"]);
        command.env("REX_TOKEN", TOKEN).output().unwrap().status.code()
    };
    assert_eq!(status(&url), Some(255), "a project file sends our token nowhere");
    assert_eq!(status("api"), Some(0), "an alias has its own");
    std::fs::remove_file(sandbox.path("root/.rex.toml")).unwrap();
    let mut asked = rex(&sandbox, &["-t", &url, "exec", "--", "true"]);
    assert_eq!(asked.env("REX_TOKEN", TOKEN).output().unwrap().status.code(), Some(0), "we may");

    let gone = failing(&sandbox, "unix:/nowhere/rexd.sock");
    assert_eq!(gone.0, "reach", "{gone:?}");
}
