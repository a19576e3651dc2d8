//! What `rexd policy` says.

use super::*;
use engine::policy::Access;
use std::path::Path;

const POLICY: &str = r#"
[policy]
default = "ask"
[[policy.rules]]
name = "no pushing"
action = "deny"
argv = ["git", "push", "*"]
[[policy.rules]]
name = "looking"
action = "allow"
class = "read-only"
[[policy.rules]]
name = "secrets"
action = "deny"
paths = ["**/.env"]
"#;

struct Fixture {
    directory: tempfile::TempDir,
}

impl Fixture {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("c.toml"), POLICY).unwrap();
        Self { directory }
    }

    fn config(&self) -> ConfigArgs {
        ConfigArgs { file: Some(self.directory.path().join("c.toml")), roots: Vec::new() }
    }

    fn policy_test(&self, operation: TestedOperation, json: bool) -> PolicyTest {
        let (face, client) = ("rexd".to_owned(), String::new());
        PolicyTest { config: self.config(), face, client, caller: None, cwd: None, json, operation }
    }

    fn run(&self, command: &PolicyCommand) -> (u8, String) {
        let mut out = Vec::new();
        let paths = Paths { current: self.directory.path().to_owned(), ..Paths::default() };
        let status = command.run(&paths, &mut out).unwrap();
        (status, String::from_utf8(out).unwrap())
    }

    fn test(&self, line: &str) -> (u8, String) {
        self.run(&PolicyCommand::Test(self.policy_test(TestedOperation::Shell(line.to_owned()), false)))
    }
}

#[test]
fn a_test_prints_verdict_rule_and_reason_and_sets_the_exit_status() {
    let fixture = Fixture::new();
    assert_eq!(fixture.test("ls | wc").0, 0);
    let (status, printed) = fixture.test("cd x && git push");
    assert_eq!(status, 1);
    assert!(printed.starts_with("verdict  deny\nrule     no pushing ("), "{printed}");
    assert!(printed.contains("c.toml:4)"), "{printed}");
    assert_eq!(fixture.test("make").0, 2);
    let files = |path: &str| TestedOperation::Files(vec![(Access::Read, path.into())]);
    assert_eq!(fixture.run(&PolicyCommand::Test(fixture.policy_test(files("x/.env"), false))).0, 1);
    assert_eq!(fixture.run(&PolicyCommand::Test(fixture.policy_test(files("x/env"), false))).0, 0);
    let json = fixture.run(&PolicyCommand::Test(fixture.policy_test(files("x/.env"), true))).1;
    let printed: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&printed["verdict"], &printed["line"]), (&"deny".into(), &12.into()));
}

#[test]
fn an_invalid_configuration_has_its_own_exit_status() {
    let fixture = Fixture::new();
    std::fs::write(fixture.directory.path().join("c.toml"), "[policy]\ndefault = 3\n").unwrap();
    let (status, printed) = fixture.test("ls");
    assert_eq!(status, 78);
    assert_eq!(printed, "", "the error goes to stderr");
}

#[test]
fn an_explanation_lists_commands_classes_rules_and_lines() {
    let fixture = Fixture::new();
    let operation = TestedOperation::Shell("ls; env git push \u{1b}[2J $x".to_owned());
    let (status, printed) =
        fixture.run(&PolicyCommand::Explain(fixture.policy_test(operation.clone(), false)));
    assert_eq!(status, 1);
    for expected in [
        "1. ls\n   classes: read-only\n   line 4: no pushing names another program\n",
        "   line 8: looking matches and decides\n   -> allow by looking\n",
        "   it runs another command, which is evaluated separately\n",
        "   line 4: no pushing matches and decides\n   -> deny by no pushing\n",
        "the strictest decision applies:\nverdict  deny\n",
    ] {
        assert!(printed.contains(expected), "{expected:?} is not in\n{printed}");
    }
    assert!(!printed.contains('\u{1b}'), "escape sequences of the command must not reach the terminal");
    let json = fixture.run(&PolicyCommand::Explain(fixture.policy_test(operation, true))).1;
    let printed: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(printed["subjects"][0]["rules"][1]["finding"], "matches and decides");
}

#[test]
fn a_replay_prints_what_would_change() {
    let fixture = Fixture::new();
    let file = fixture.directory.path().join("audit.log");
    let line = |method: &str, params: &str, more: &str| {
        format!(
            "{{\"timestamp\":\"2026-11-15T08:00:00.000000000Z\",\"caller\":\"token:ci\",\"client_name\":\"c\",\
             \"face\":\"rexd\",\"method\":\"{method}\",\"params\":{params}{more}}}\n"
        )
    };
    let text = [
        line("exec.start", r#"{"argv":["git","push"]}"#, ""),
        line("exec.start", r#"{"command":"ls -l"}"#, ""),
        line("exec.start", r#"{"command":"tool --password=[hidden]"}"#, r#","rule":"x","decision":"ask""#),
        line("fs.read", r#"{"path":"/code/.env"}"#, ""),
        line("fs.read", r#"{"path":"relative"}"#, ""),
        line("session.open", "{}", ""),
        "torn {".to_owned(),
    ]
    .concat();
    std::fs::write(&file, text).unwrap();
    let replay = |json| PolicyCommand::Replay(Replay { config: fixture.config(), file: file.clone(), json });
    let (status, printed) = fixture.run(&replay(false));
    assert_eq!(status, 1);
    assert!(
        printed.contains(
            "line 1: 2026-11-15T08:00:00 token:ci exec.start: allow -> deny (no pushing): git push\n"
        ),
        "{printed}"
    );
    assert!(
        printed.contains("2 of 4 would change: allow -> deny 2 (no pushing 1, secrets 1)\n"),
        "{printed}"
    );
    assert!(printed.contains("1 were decided without replaced secrets"), "{printed}");
    assert!(printed.contains("1 could not be decided") && printed.contains("skipped 1 lines"), "{printed}");
    let printed: serde_json::Value = serde_json::from_str(&fixture.run(&replay(true)).1).unwrap();
    assert_eq!((&printed["judged"], &printed["changed"]), (&4.into(), &2.into()));
    let missing = Replay { config: fixture.config(), file: Path::new("/nowhere").into(), json: false };
    assert_eq!(fixture.run(&PolicyCommand::Replay(missing)).0, 78);
}
