//! `rex target install` over a real sshd, into a home of its own. Every test names where the program goes: the default
//! would be this machine's own program directory.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on says so and ends")]

#[path = "support/ssh.rs"]
mod ssh;
mod support;

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::process::{Output, Stdio};

use serde_json::Value;
use ssh::Machine;
use support::{rex, run, text};
use testkit::programs::program;

/// Installs on the machine, into its `bin`.
fn install(machine: &Machine, more: &[&str]) -> Output {
    let dir = machine.home("bin");
    let arguments = ["target", "install", "box", "--into", dir.to_str().unwrap()];
    run(&machine.sandbox, &[&arguments[..], more].concat())
}

fn words(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (text(&output.stdout), text(&output.stderr))
}

/// A copy of rexd with one different, unused byte.
fn another_rexd(machine: &Machine) -> String {
    let mut content = std::fs::read(program("rexd")).unwrap();
    content.push(0);
    let file = machine.sandbox.write("another-rexd", content);
    file.into_os_string().into_string().unwrap()
}

fn names_in(dir: &Path) -> Vec<String> {
    let names = std::fs::read_dir(dir).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
    names.collect()
}

#[test]
fn a_machine_without_anything_serves_its_roots_afterwards() {
    let machine = Machine::start();
    machine.add("box", &[]);
    std::fs::create_dir(machine.home("srv")).unwrap();
    let output = install(&machine, &["--root", "~/srv"]);
    let (shown, remarks) = words(&output);
    assert!(output.status.success(), "{shown}{remarks}");
    for step in ["machine", "program", "config", "alias", "reach", "session", "roots", "command", "file"] {
        assert!(
            shown.lines().any(|line| line.starts_with("ok ") && line.contains(step)),
            "{step} in {shown}"
        );
    }
    assert_eq!(names_in(&machine.home("bin")), ["rexd"], "no draft is left");
    let config = machine.home(".config/rexd/config.toml");
    assert_eq!(std::fs::metadata(&config).unwrap().permissions().mode() & 0o777, 0o600);
    let table: toml::Table = std::fs::read_to_string(&config).unwrap().parse().unwrap();
    assert_eq!(table["limits"]["hard_timeout_ms"].as_integer(), Some(0));
    let root = machine.home("srv");
    assert_eq!(table["security"]["allowed_roots"][0]["path"].as_str(), root.to_str());
    assert_eq!(table["security"]["allowed_roots"].as_array().unwrap().len(), 1);

    let there = text(&machine.sandbox, &["exec", "-t", "box", "--", "pwd"]);
    assert_eq!(there.trim(), root.to_str().unwrap());
    let outside = run(&machine.sandbox, &["read", "-t", "box", "/etc/passwd"]);
    assert!(words(&outside).1.contains("allowed roots"), "{outside:?}");
}

#[test]
fn an_update_takes_its_place_while_the_old_one_runs() {
    let machine = Machine::start();
    machine.add("box", &[]);
    assert!(install(&machine, &["--root", "~"]).status.success());
    let mut running =
        rex(&machine.sandbox, &["exec", "-t", "box", "--", "sh", "-c", "echo up; read word; echo got $word"]);
    let mut running = running.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(running.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "up");

    let inode = || std::fs::metadata(machine.home("bin/rexd")).unwrap().ino();
    let first = inode();
    let again = install(&machine, &[]);
    assert!(again.status.success() && inode() == first, "the same program is not copied again: {again:?}");
    let update = install(&machine, &["--rexd", &another_rexd(&machine), "--json"]);
    assert!(update.status.success(), "{update:?}");
    let report: Value = serde_json::from_slice(&update.stdout).unwrap();
    assert_eq!((&report["before"], &report["ok"]), (&report["version"], &Value::Bool(true)), "{report}");
    assert_ne!(inode(), first);
    assert_eq!(names_in(&machine.home("bin")), ["rexd"]);

    writeln!(running.stdin.take().unwrap(), "it").unwrap();
    assert_eq!(lines.next().unwrap().unwrap(), "got it", "what ran goes on");
    assert!(running.wait().unwrap().success());
}

#[test]
fn a_config_that_is_there_only_gains_roots_and_they_are_shown() {
    let machine = Machine::start();
    machine.add("box", &[]);
    let mine =
        "# my own\n[limits]\nhard_timeout_ms = 7000 # slow\n\n[[security.allowed_roots]]\npath = \"/srv\"\n";
    let file = machine.sandbox.write("there/.config/rexd/config.toml", mine);
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).unwrap();
    let output = install(&machine, &["--root", "/srv", "--root", "~/it's \"odd\""]);
    let (_, remarks) = words(&output);
    let now = std::fs::read_to_string(&file).unwrap();
    let added = now.strip_prefix(mine).unwrap_or_else(|| panic!("{now}"));
    assert_eq!(added.matches("[[security.allowed_roots]]").count(), 1, "only what was missing: {added}");
    let shown = added.trim().replace('\n', "\n  ");
    assert!(added.contains("it's") && remarks.contains(&shown), "shown as it is written: {remarks}");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
    assert_eq!(names_in(file.parent().unwrap()), ["config.toml"]);
}

#[test]
fn what_would_not_run_there_is_refused_and_what_is_there_stays() {
    let machine = Machine::start();
    machine.add("box", &[]);
    assert!(install(&machine, &["--root", "~"]).status.success());
    let before = std::fs::read(machine.home("bin/rexd")).unwrap();
    let mut foreign = before.clone();
    foreign[18] = if foreign[18] == 183 { 62 } else { 183 };
    let mut broken = before[..64].to_vec();
    broken.extend_from_slice(&[0; 4096]);
    for (content, words_of_it) in [
        (foreign, "it is a binary for"),
        (broken, "rexd does not run on the machine"),
        (b"#!/bin/sh\n".to_vec(), "not a Linux binary"),
        (std::fs::read("/bin/ls").unwrap(), "is not rexd"),
    ] {
        let file = machine.sandbox.write("odd-rexd", content);
        let output = install(&machine, &["--rexd", file.to_str().unwrap()]);
        let (_, remarks) = words(&output);
        assert_eq!(output.status.code(), Some(255));
        assert!(remarks.contains(words_of_it) && remarks.contains("hint:"), "{remarks}");
        assert_eq!(names_in(&machine.home("bin")), ["rexd"], "no draft is left");
        assert!(std::fs::read(machine.home("bin/rexd")).unwrap() == before);
    }
}

#[test]
fn names_that_a_shell_would_obey_are_only_names() {
    let machine = Machine::start();
    machine.add("box", &[]);
    let odd = "it's $(touch pwned) `touch pwned` \"; touch pwned; #";
    let dir = machine.home(odd);
    let root = machine.home("srv $(touch pwned)'");
    std::fs::create_dir(&root).unwrap();
    let arguments =
        ["target", "install", "box", "--into", dir.to_str().unwrap(), "--root", root.to_str().unwrap()];
    let output = run(&machine.sandbox, &arguments);
    assert!(output.status.success(), "{output:?}");
    assert!(dir.join("rexd").exists());
    assert_eq!(text(&machine.sandbox, &["exec", "-t", "box", "--", "pwd"]).trim(), root.to_str().unwrap());
    for place in [machine.home("pwned"), machine.sandbox.path("pwned"), machine.sandbox.path("root/pwned")] {
        assert!(!place.exists());
    }
    let home = std::path::PathBuf::from(std::env::var_os("HOME").unwrap_or_default());
    assert!(!home.join("pwned").exists(), "the login's real directory");
}

#[test]
fn an_alias_of_an_installed_machine_is_whole() {
    let machine = Machine::start();
    machine.add("box", &[]);
    std::fs::create_dir(machine.home("srv")).unwrap();
    let output = install(&machine, &["--root", "~/srv", "--alias", "app"]);
    assert!(output.status.success(), "{output:?}");
    let listed: Value = serde_json::from_str(&text(&machine.sandbox, &["target", "list", "--json"])).unwrap();
    let app = &listed["targets"]["app"];
    let rexd = machine.home("bin/rexd");
    assert_eq!(app["command"], format!("{} --stdio", rexd.display()), "as the plugins start it");
    assert_eq!(app["defaultCwd"].as_str(), machine.home("srv").to_str());
    let options = app["sshOptions"].to_string();
    assert!(!options.contains("ControlPath"), "the shared connection was ours alone: {options}");
    assert_eq!(text(&machine.sandbox, &["-t", "app", "exec", "--", "echo", "hi"]), "hi\n");
}

#[test]
fn everything_goes_through_one_connection() {
    // Each command is noted with the connection it came through.
    let noted =
        r#"ForceCommand echo "$SSH_CONNECTION" >> $DIR/connections; exec sh -c "$SSH_ORIGINAL_COMMAND""#;
    for sharing in ["", "ControlMaster auto\nControlPath $DIR/shared\n"] {
        let machine = Machine::start_so("", noted);
        machine.add("box", &[]);
        let config = machine.sandbox.read("ssh/config") + &machine.sandbox.expand(sharing);
        machine.sandbox.write("ssh/config", config);
        let output = install(&machine, &["--root", "~"]);
        assert!(output.status.success(), "{output:?}");
        let connections = machine.sandbox.read("connections");
        let mut each: Vec<&str> = connections.lines().collect();
        let commands = each.len();
        each.dedup();
        assert!(commands > 4 && each.len() == 1, "{connections}");
        assert!(!machine.sandbox.path("shared").exists(), "nothing is left of it");
    }
}
