//! Completions in a real bash: commands, aliases, processes and paths, and targets that do not answer.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on says so and ends")]

mod support;

use std::os::unix::net::UnixListener;
use std::path::Path;

use support::{REX, rex, text};
use testkit::sandbox::Sandbox;
use testkit::screen::Screen;

/// A bash with the completions, in the root.
fn bash(sandbox: &Sandbox) -> Screen {
    sandbox.write("completions", text(sandbox, &["completions", "bash"]));
    let mut bash = sandbox.command("/bin/bash");
    for (name, value) in rex(sandbox, &[]).get_envs() {
        bash.env(name, value.unwrap_or_default());
    }
    let path = format!("{}:/usr/bin:/bin", Path::new(REX).parent().unwrap().display());
    // The answer may take longer on a slow machine.
    bash.env("REX_COMPLETE_MS", "60000").env("PATH", path).env("PS1", "ready> ").args([
        "--norc",
        "--noprofile",
        "-i",
    ]);
    let mut screen = Screen::start(bash.current_dir(sandbox.root()), 120, 24);
    screen.shows("ready>");
    screen.type_in("source ../completions; clear\r");
    screen.until("clear the screen", |seen| seen.trim() == "ready>");
    screen
}

/// Types the beginning of a line and a tab; the line must become `whole`.
fn completes(screen: &mut Screen, typed: &str, whole: &str) {
    screen.type_in(&format!("{typed}\t"));
    screen.until(&format!("complete {typed:?} to {whole:?}"), |seen| {
        seen.lines().next_back().is_some_and(|line| line.trim_end() == format!("ready> {whole}").trim_end())
    });
    // The line is removed.
    screen.type_in("\x15");
    screen.until("remove the line", |seen| seen.trim_end().ends_with("ready>"));
}

#[test]
fn bash_completes_commands_aliases_processes_and_paths() {
    let sandbox = Sandbox::new();
    sandbox.write("root/source/main file.rs", "");
    sandbox.write("root/source/.hidden", "");
    text(&sandbox, &["target", "add", "building", "local"]);
    text(&sandbox, &["exec", "--detach", "--name", "nightly", "--", "sleep", "1000"]);
    let mut screen = bash(&sandbox);
    for (typed, whole) in [
        ("rex att", "rex attach"),
        ("rex logs --si", "rex logs --since"),
        ("rex -t bui", "rex -t building"),
        ("rex target use bui", "rex target use building"),
        ("rex attach ni", "rex attach nightly"),
        ("rex --json kill ni", "rex --json kill nightly"),
        ("rex ls so", "rex ls source/"),
        ("rex read source/", "rex read source/main\\ file.rs"),
        ("rex cp bui", "rex cp building:"),
        ("rex cp building:so", "rex cp building:source/"),
        ("rex cp :so", "rex cp :source/"),
        ("rex cp source/", "rex cp source/main\\ file.rs"),
        ("rex exec -- cat so", "rex exec -- cat source/"),
    ] {
        completes(&mut screen, typed, whole);
    }
    text(&sandbox, &["kill", "nightly"]);
}

#[test]
fn a_target_that_does_not_answer_or_is_not_there_has_no_candidates() {
    let sandbox = Sandbox::new();
    // It accepts connections and is silent.
    let _silent = UnixListener::bind(sandbox.path("silent.sock")).unwrap();
    let silent = format!("unix:{}", sandbox.path("silent.sock").display());
    for target in [silent.as_str(), "unix:/nothing", "ssh:nobody@127.0.0.1:1", "unknown"] {
        for words in [["attach", ""], ["ls", "s"]] {
            let line = [&["complete", "--", "rex", "-t", target], &words[..]].concat();
            let output = support::run(&sandbox, &line);
            assert!(output.status.success(), "{target}: {output:?}");
            let said = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
            assert_eq!(said, (String::new(), String::new()), "{target}");
        }
    }
}

#[test]
fn every_shell_has_a_script() {
    let sandbox = Sandbox::new();
    for shell in ["bash", "zsh", "fish"] {
        assert!(text(&sandbox, &["completions", shell]).contains("complete -- "), "{shell}");
    }
    for shell in ["elvish", "powershell"] {
        assert!(text(&sandbox, &["completions", shell]).contains("attach"), "{shell}");
    }
}
