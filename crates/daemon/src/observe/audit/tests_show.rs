//! What `rexd audit show` lets through and how it reads.

use super::tests::{judged, record};
use super::*;
use engine::audit::{AuditOutcome, Detail, PolicyOutcome};
use engine::policy::{Glob, Verdict};

fn written() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("audit.log");
    let audit = AuditFile::open(&path, true).unwrap();
    let denied = PolicyOutcome { verdict: Verdict::Deny, rule: Arc::from("no rm"), approval: None };
    let command = |text: &str| vec![("command".into(), Detail::Shell(text.to_owned()))];
    let failed = || AuditOutcome::Failed { code: -32001, message: "denied".to_owned() };
    audit.record(AuditRecord { details: command("ls"), ..record(1) });
    audit.record(AuditRecord {
        details: command("rm \u{1b}]0;x\u{7}\u{202e}"),
        outcome: failed(),
        decision: Some(denied),
        ..record(2)
    });
    audit.record(AuditRecord { decision: Some(judged()), caller: Arc::from("uid:7"), ..record(3) });
    audit.record(AuditRecord { operation: "fs.read".into(), outcome: failed(), ..record(4) });
    audit.close();
    (directory, path)
}

fn shown(show: &Show, colours: bool) -> String {
    let (_directory, path) = written();
    let mut out = Vec::new();
    assert_eq!(show.run(&path, colours, &mut out).unwrap(), 0);
    String::from_utf8(out).unwrap()
}

fn count(show: Show) -> usize {
    shown(&Show { json: true, ..show }, false).lines().count()
}

#[test]
fn every_filter_lets_through_what_it_names() {
    let glob = |text: &str| Some(Glob::new(text));
    let decision = |word: &str| Some(word.to_owned());
    assert_eq!(count(Show::default()), 4);
    assert_eq!(count(Show { caller: glob("uid:*"), ..Show::default() }), 1);
    assert_eq!(count(Show { client: glob("test*"), ..Show::default() }), 4);
    assert_eq!(count(Show { face: glob("codex"), ..Show::default() }), 0);
    assert_eq!(count(Show { session: decision("s1"), ..Show::default() }), 4);
    assert_eq!(count(Show { operation: glob("fs.*"), ..Show::default() }), 1);
    assert_eq!(count(Show { rule: glob("no *"), ..Show::default() }), 1);
    assert_eq!(count(Show { decision: decision("deny"), ..Show::default() }), 1);
    assert_eq!(count(Show { decision: decision("ask"), ..Show::default() }), 1);
    assert_eq!(count(Show { decision: decision("approved"), ..Show::default() }), 1);
    assert_eq!(count(Show { decision: decision("allow"), ..Show::default() }), 0);
    assert_eq!(count(Show { failed: true, ..Show::default() }), 2);
    assert_eq!(count(Show { limit: Some(3), ..Show::default() }), 3);
    assert_eq!(count(Show { since: decision("2023-11-14T22:13:20"), ..Show::default() }), 4);
    assert_eq!(count(Show { since: decision("2023-11-14T22:13:21"), ..Show::default() }), 0);
    assert_eq!(count(Show { until: decision("2023-11-14T22:13:20"), ..Show::default() }), 0);
    let last = shown(&Show { limit: Some(1), ..Show::default() }, false);
    assert!(last.contains("fs.read"), "newest last: {last}");
}

#[test]
fn people_get_columns_and_a_terminal_only_our_own_colours() {
    let plain = shown(&Show::default(), false);
    assert!(!plain.contains(['\u{1b}', '\u{7}', '\u{202e}']), "{plain:?}");
    let lines: Vec<_> = plain.lines().collect();
    assert!(lines[0].starts_with("2023-11-14 22:13:20  token:ci (tester)"), "{}", lines[0]);
    assert!(lines[0].ends_with("exec.start        ok  ls"), "{}", lines[0]);
    assert!(lines[1].contains("denied by no rm  rm \\u{1b}]0;x"), "{}", lines[1]);
    assert!(lines[2].contains("approved by uid:1000"), "{}", lines[2]);
    assert!(lines[3].contains("failed: denied"), "{}", lines[3]);
    let coloured = shown(&Show::default(), true);
    assert!(coloured.contains("\u{1b}[31mdenied by no rm\u{1b}[0m"), "{coloured:?}");
}

#[test]
fn a_file_that_is_not_there_is_said() {
    let mut out = Vec::new();
    assert_eq!(Show::default().run(Path::new("/nowhere/audit.log"), false, &mut out).unwrap(), 1);
    assert!(out.is_empty(), "what is said of it goes to standard error");
}
