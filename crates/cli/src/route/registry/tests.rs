//! Tests of the registry: rewrites, concurrent writers and invalid files.

use std::os::unix::fs::PermissionsExt as _;

use client::Target;
use client::target::RemoteCommand;

use super::*;

/// A registry with fields of other programs.
const FOREIGN: &str = r#"{
  "$schema": "https://example.org/targets.json",
  "version": 1,
  "targets": {
    "zeta": { "transport": "ssh", "host": "z", "loginShell": false, "capabilities": {"shell": true, "pty": false},
              "rootPolicy": {"mode": "strict", "extraRoots": []}, "homeDir": "/home/z", "x-ratio": 1.50, "big": 12345678901234567890123 },
    "alpha": {"transport": "carrier-pigeon", "coop": [3, 1, 2], "note": "caf\u00e9"}
  },
  "ui": {"order": ["zeta", "alpha"], "dark": true}
}
"#;

fn object(text: &str) -> RawObject {
    serde_json::from_str(text).unwrap()
}

fn add(path: &Path, alias: &str, text: &str) -> Result<(), Failure> {
    Registry::change(path, |registry| {
        registry.set(alias, &object(text));
        Ok(())
    })
}

/// ARCHITECTURE.md, invariant 52.
#[test]
fn fields_of_other_programs_survive_every_rewrite() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("targets.json");
    std::fs::write(&path, FOREIGN).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
    add(&path, "web", r#"{"transport": "ssh", "host": "w"}"#).unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    for kept in ["\"x-ratio\": 1.50", "12345678901234567890123", "caf\\u00e9", "\"coop\": [3, 1, 2]"] {
        assert!(text.contains(kept), "{kept} in {text}");
    }
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640, "the mode is kept");
    assert!(Registry::change(&path, |registry| Ok(registry.remove("web"))).unwrap());
    let back = std::fs::read_to_string(&path).unwrap();
    assert_eq!(one_line(&back), one_line(FOREIGN), "nothing else has changed, not even the order");
    let names: Vec<_> =
        std::fs::read_dir(dir.path()).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert_eq!(names.len(), 2, "no temporary file is left: {names:?}");
}

#[test]
fn a_new_registry_is_private() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("deep/er/targets.json");
    add(&path, "a", r#"{"host": "h"}"#).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let text = std::fs::read_to_string(&path).unwrap();
    assert_eq!(one_line(&text), r#"{"version":1,"targets":{"a":{"host":"h"}}}"#);
}

#[test]
fn a_symbolic_link_to_the_registry_stays_a_link() {
    let dir = tempfile::tempdir().unwrap();
    let (real, link) = (dir.path().join("real.json"), dir.path().join("targets.json"));
    std::fs::write(&real, FOREIGN).unwrap();
    std::os::unix::fs::symlink(&real, &link).unwrap();
    add(&link, "a", "{}").unwrap();
    assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
    assert!(Registry::load(&real).unwrap().has("a"));
}

/// ARCHITECTURE.md, invariant 52.
#[test]
fn an_invalid_registry_is_reported_with_its_position_and_left_unchanged() {
    for (text, words) in [
        ("{\n  \"targets\": {\n    \"a\": {\"host\": ", ":3:"),
        ("", ":1:0"),
        ("[]", "an object"),
        ("{\"targets\": []}", "`targets` must be an object"),
        ("{\"version\": 2, \"targets\": {}}", "version 2"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("targets.json");
        std::fs::write(&path, text).unwrap();
        let failure = add(&path, "a", "{}").unwrap_err();
        assert!(failure.message.contains(words), "{text:?}: {failure}");
        assert!(failure.message.contains("targets.json") && failure.hint.is_some(), "{failure:?}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    }
}

/// ARCHITECTURE.md, invariant 52.
#[test]
fn concurrent_writers_lose_no_entry() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("targets.json");
    std::thread::scope(|scope| {
        for writer in 0..8 {
            let path = &path;
            scope.spawn(move || {
                for target in 0..5 {
                    let alias = format!("t{writer}-{target}");
                    add(path, &alias, "{}").unwrap();
                }
            });
        }
    });
    assert_eq!(Registry::load(&path).unwrap().aliases().count(), 40);
}

#[test]
fn a_command_may_be_written_in_three_ways() {
    let argv =
        |words: &[&str]| Some(RemoteCommand::Argv(words.iter().map(|&word| word.to_owned()).collect()));
    for (text, command) in [
        (r#""/opt/rexd --stdio""#, Some(RemoteCommand::Line("/opt/rexd --stdio".to_owned()))),
        (r#"["/opt/my rexd", "--stdio"]"#, argv(&["/opt/my rexd", "--stdio"])),
        (
            r#"{"program": "/opt/rexd", "args": ["--stdio", "--config", "c"]}"#,
            argv(&["/opt/rexd", "--stdio", "--config", "c"]),
        ),
        (r#"{"program": "/opt/rexd"}"#, argv(&["/opt/rexd"])),
        ("null", None),
        (r#""""#, None),
    ] {
        let entry = TargetEntry::parse(&format!(r#"{{"host": "h", "command": {text}}}"#)).unwrap();
        let Target::Ssh(ssh) = entry.target else { panic!("{entry:?}") };
        assert_eq!(ssh.command, command, "{text}");
    }
}

#[test]
fn an_invalid_field_is_named() {
    for (text, words) in [
        ("7", "not a JSON object"),
        ("{}", "needs `host`"),
        (r#"{"host": "h", "port": "x"}"#, "`port`: invalid type"),
        (r#"{"host": "h", "port": 70000}"#, "`port`: invalid value"),
        (r#"{"host": "-oProxyCommand=x"}"#, "plain names"),
        (r#"{"host": "h", "command": 7}"#, "`command`: a line, an array"),
        (r#"{"transport": "unix"}"#, "needs `path`"),
        (r#"{"transport": "ws", "url": "web"}"#, "`url`: invalid target `web`"),
        (r#"{"transport": "smoke"}"#, "unknown transport `smoke`"),
    ] {
        let problem = TargetEntry::parse(text).unwrap_err();
        assert!(problem.contains(words), "{text}: {problem}");
    }
}

#[test]
fn prefixes_are_read_even_if_the_target_is_invalid_otherwise() {
    let read = |target: &str| {
        let text = format!(r#"{{"targets": {{"a": {target}}}}}"#);
        Registry::parse(&text, Path::new("t")).unwrap().prefixes().map(|found| found.len())
    };
    assert_eq!(read(r#"{"port": "x", "pathPrefixes": ["/a", {"from": "/b", "to": "/c"}]}"#).unwrap(), 2);
    let failure = read(r#"{"host": "h", "pathPrefixes": [7]}"#).unwrap_err();
    assert!(failure.message.contains("`a`") && failure.message.contains("a directory, or"), "{failure}");
}
