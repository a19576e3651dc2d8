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

    fn question(&self, wanted: TestedOperation, json: bool) -> PolicyTest {
        let (face, client) = ("rexd".to_owned(), String::new());
        PolicyTest { config: self.config(), face, client, caller: None, cwd: None, json, wanted }
    }

    fn run(&self, command: &PolicyCommand) -> (u8, String) {
        let mut out = Vec::new();
        let paths = Paths { current: self.directory.path().to_owned(), ..Paths::default() };
        let status = command.run(&paths, &mut out).unwrap();
        (status, String::from_utf8(out).unwrap())
    }

    fn test(&self, line: &str) -> (u8, String) {
        self.run(&PolicyCommand::Test(self.question(TestedOperation::Shell(line.to_owned()), false)))
    }
}

#[test]
fn a_test_says_verdict_rule_and_reason_and_exits_accordingly() {
    let fixture = Fixture::new();
    assert_eq!(fixture.test("ls | wc").0, 0);
    let (status, said) = fixture.test("cd x && git push");
    assert_eq!(status, 1);
    assert!(said.starts_with("verdict  deny\nrule     no pushing ("), "{said}");
    assert!(said.contains("c.toml:4)"), "{said}");
    assert_eq!(fixture.test("make").0, 2);
    let files = |path: &str| TestedOperation::Files(vec![(Access::Read, path.into())]);
    assert_eq!(fixture.run(&PolicyCommand::Test(fixture.question(files("x/.env"), false))).0, 1);
    assert_eq!(fixture.run(&PolicyCommand::Test(fixture.question(files("x/env"), false))).0, 0);
    let json = fixture.run(&PolicyCommand::Test(fixture.question(files("x/.env"), true))).1;
    let said: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&said["verdict"], &said["line"]), (&"deny".into(), &12.into()));
}

#[test]
fn a_bad_configuration_is_no_verdict() {
    let fixture = Fixture::new();
    std::fs::write(fixture.directory.path().join("c.toml"), "[policy]\ndefault = 3\n").unwrap();
    let (status, said) = fixture.test("ls");
    assert_eq!(status, 78);
    assert_eq!(said, "", "what is wrong goes to standard error");
}

#[test]
fn an_explanation_names_commands_classes_rules_and_lines() {
    let fixture = Fixture::new();
    let wanted = TestedOperation::Shell("ls; env git push \u{1b}[2J $x".to_owned());
    let (status, said) = fixture.run(&PolicyCommand::Explain(fixture.question(wanted.clone(), false)));
    assert_eq!(status, 1);
    for expected in [
        "1. ls\n   classes: read-only\n   line 4: no pushing is about another program\n",
        "   line 8: looking matches and decides\n   -> allow by looking\n",
        "   it runs another command, which is judged on its own\n",
        "   line 4: no pushing matches and decides\n   -> deny by no pushing\n",
        "the strictest of these decides:\nverdict  deny\n",
    ] {
        assert!(said.contains(expected), "{expected:?} is not in\n{said}");
    }
    assert!(!said.contains('\u{1b}'), "what is asked about must not reach the terminal as it is");
    let json = fixture.run(&PolicyCommand::Explain(fixture.question(wanted, true))).1;
    let said: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(said["subjects"][0]["rules"][1]["finding"], "matches and decides");
}

#[test]
fn a_replay_says_what_would_change() {
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
    let (status, said) = fixture.run(&replay(false));
    assert_eq!(status, 1);
    assert!(
        said.contains(
            "line 1: 2026-11-15T08:00:00 token:ci exec.start: allow -> deny (no pushing): git push\n"
        ),
        "{said}"
    );
    assert!(said.contains("2 of 4 would change: allow -> deny 2 (no pushing 1, secrets 1)\n"), "{said}");
    assert!(said.contains("1 were judged with secrets hidden"), "{said}");
    assert!(said.contains("1 could not be judged") && said.contains("1 lines are no records"), "{said}");
    let said: serde_json::Value = serde_json::from_str(&fixture.run(&replay(true)).1).unwrap();
    assert_eq!((&said["judged"], &said["changed"]), (&4.into(), &2.into()));
    let missing = Replay { config: fixture.config(), file: Path::new("/nowhere").into(), json: false };
    assert_eq!(fixture.run(&PolicyCommand::Replay(missing)).0, 78);
}
