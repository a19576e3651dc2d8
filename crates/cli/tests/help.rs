//! The help: what is printed is what the reference shows, its examples are understood, and colours stay on terminals.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on says so and ends")]

mod support;

use clap::{CommandFactory as _, Parser as _};
use cli::args::RexArgs;
use support::{REX, rex, run, text};
use testkit::sandbox::Sandbox;

const REFERENCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/rex.md");
/// As wide as help may be.
const WIDTH: usize = 100;

/// Every command with the help that the reference shows for it.
fn reference() -> Vec<(Vec<String>, String)> {
    let reference = std::fs::read_to_string(REFERENCE).expect("docs/reference/rex.md: run `make generate`");
    let sections = reference.split("\n## rex").skip(1);
    let sections = sections.map(|section| section.split_once("\n\n```text\n").expect("its help"));
    let words = |name: &str| name.split_whitespace().map(str::to_owned).collect();
    sections.map(|(name, rest)| (words(name), rest.trim_end().trim_end_matches("```").to_owned())).collect()
}

/// ARCHITECTURE.md, invariant 54.
#[test]
fn every_help_is_the_one_in_the_reference() {
    let sandbox = Sandbox::new();
    let reference = reference();
    assert!(reference.len() > 35, "{} commands", reference.len());
    for (command, shown) in reference {
        let mut arguments: Vec<&str> = command.iter().map(String::as_str).collect();
        arguments.push("-h");
        assert_eq!(text(&sandbox, &arguments), shown, "rex {arguments:?}: run `make generate`");
    }
}

#[test]
fn the_help_begins_with_what_it_is_and_ends_with_examples() {
    let shown = text(&Sandbox::new(), &["-h"]);
    let first: Vec<&str> = shown.lines().take(3).collect();
    assert_eq!(
        first,
        [
            "Run commands, open terminals and work with files on any machine",
            "",
            "Usage: rex [OPTIONS] <COMMAND>"
        ]
    );
    for command in ["exec", "shell", "write", "patch", "grep", "cp", "target", "approvals", "mcp"] {
        let shown = text(&Sandbox::new(), &[command, "-h"]);
        assert!(shown.contains("\nExamples:\n  "), "{command}");
    }
}

#[test]
fn no_line_of_the_help_is_wider_than_it_may_be() {
    for (command, shown) in reference() {
        for line in shown.lines() {
            assert!(line.chars().count() <= WIDTH, "rex {command:?}: {line}");
        }
    }
}

#[test]
fn every_command_and_every_flag_says_what_it_is_for() {
    fn check(command: &clap::Command) {
        let name = command.get_name();
        assert!(command.get_about().is_some(), "{name}");
        for argument in command.get_arguments() {
            assert!(argument.get_help().is_some(), "{name} {}", argument.get_id());
        }
        command.get_subcommands().for_each(check);
    }
    check(&RexArgs::command());
}

/// ARCHITECTURE.md, invariant 54.
#[test]
fn every_example_in_the_help_is_understood() {
    let mut tried = 0;
    for (command, shown) in reference() {
        let examples = shown.split_once("\nExamples:\n").map(|(_, examples)| examples).unwrap_or_default();
        for line in examples.lines().take_while(|line| line.is_empty() || line.starts_with("  ")) {
            // What is piped in or redirected is the shell's; behind two spaces it is explained.
            let Some(start) = line.find("rex ") else { continue };
            // In quotes, it is an argument of another program.
            if line[..start].ends_with('\'') {
                continue;
            }
            let words = words(&line[start..]);
            let parsed = RexArgs::try_parse_from(&words);
            assert!(parsed.is_ok(), "rex {command:?}: {words:?}: {}", parsed.unwrap_err());
            tried += 1;
        }
    }
    assert!(tried > 30, "{tried}");
}

/// The words of a line as a shell splits them, up to a redirection, a pipe, or two spaces.
fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut is_quoted = false;
    for c in line.chars() {
        let last = words.last_mut().unwrap();
        match c {
            '\'' => is_quoted = !is_quoted,
            ' ' if !is_quoted && last.is_empty() => break,
            ' ' if !is_quoted => words.push(String::new()),
            '<' | '|' if !is_quoted => break,
            c => last.push(c),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

#[test]
fn colours_are_for_terminals_and_for_those_who_want_them() {
    let sandbox = Sandbox::new();
    let on_terminal = |more: &[&str]| {
        let arguments = [&["exec", "--tty", "-e", "TERM=xterm"], more, &["--", REX, "-h"]].concat();
        text(&sandbox, &arguments)
    };
    assert!(on_terminal(&[]).contains("\u{1b}["));
    assert!(!on_terminal(&["-e", "NO_COLOR=1"]).contains("\u{1b}["));
    assert!(!text(&sandbox, &["-h"]).contains('\u{1b}'));
    let failed = run(&sandbox, &["read", "not-there"]);
    assert_eq!(failed.status.code(), Some(255));
    assert!(!String::from_utf8(failed.stderr).unwrap().contains('\u{1b}'));
}

#[test]
fn a_slip_is_told_with_what_was_meant() {
    let output = rex(&Sandbox::new(), &["exce", "--", "true"]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(255));
    assert!(said.contains("exec"), "{said}");
}
