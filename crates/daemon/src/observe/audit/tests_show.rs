//! The filters and the output of `rexd audit show`.

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
    drop(audit);
    (directory, path)
}

fn shown(show: &ShowArgs, colours: bool) -> String {
    let (_directory, path) = written();
    let mut out = Vec::new();
    assert_eq!(show.run(&path, colours, &mut out).unwrap(), 0);
    String::from_utf8(out).unwrap()
}

fn count(show: ShowArgs) -> usize {
    shown(&ShowArgs { json: true, ..show }, false).lines().count()
}

#[test]
fn every_filter_selects_the_matching_records() {
    let glob = |text: &str| Some(Glob::new(text));
    let decision = |word: &str| Some(word.to_owned());
    assert_eq!(count(ShowArgs::default()), 4);
    assert_eq!(count(ShowArgs { caller: glob("uid:*"), ..ShowArgs::default() }), 1);
    assert_eq!(count(ShowArgs { client: glob("test*"), ..ShowArgs::default() }), 4);
    assert_eq!(count(ShowArgs { face: glob("codex"), ..ShowArgs::default() }), 0);
    assert_eq!(count(ShowArgs { session: decision("s1"), ..ShowArgs::default() }), 4);
    assert_eq!(count(ShowArgs { operation: glob("fs.*"), ..ShowArgs::default() }), 1);
    assert_eq!(count(ShowArgs { rule: glob("no *"), ..ShowArgs::default() }), 1);
    assert_eq!(count(ShowArgs { decision: decision("deny"), ..ShowArgs::default() }), 1);
    assert_eq!(count(ShowArgs { decision: decision("ask"), ..ShowArgs::default() }), 1);
    assert_eq!(count(ShowArgs { decision: decision("approved"), ..ShowArgs::default() }), 1);
    assert_eq!(count(ShowArgs { decision: decision("allow"), ..ShowArgs::default() }), 0);
    assert_eq!(count(ShowArgs { failed: true, ..ShowArgs::default() }), 2);
    assert_eq!(count(ShowArgs { limit: Some(3), ..ShowArgs::default() }), 3);
    assert_eq!(count(ShowArgs { since: decision("2023-11-14T22:13:20"), ..ShowArgs::default() }), 4);
    assert_eq!(count(ShowArgs { since: decision("2023-11-14T22:13:21"), ..ShowArgs::default() }), 0);
    assert_eq!(count(ShowArgs { until: decision("2023-11-14T22:13:20"), ..ShowArgs::default() }), 0);
    let last = shown(&ShowArgs { limit: Some(1), ..ShowArgs::default() }, false);
    assert!(last.contains("fs.read"), "newest last: {last}");
}

#[test]
fn output_has_columns_and_no_escape_sequences_but_our_colours() {
    let plain = shown(&ShowArgs::default(), false);
    assert!(!plain.contains(['\u{1b}', '\u{7}', '\u{202e}']), "{plain:?}");
    let lines: Vec<_> = plain.lines().collect();
    assert!(lines[0].starts_with("2023-11-14 22:13:20  token:ci (tester)"), "{}", lines[0]);
    assert!(lines[0].ends_with("exec.start        ok  ls"), "{}", lines[0]);
    assert!(lines[1].contains("denied by no rm  rm \\u{1b}]0;x"), "{}", lines[1]);
    assert!(lines[2].contains("approved by uid:1000"), "{}", lines[2]);
    assert!(lines[3].contains("failed: denied"), "{}", lines[3]);
    let coloured = shown(&ShowArgs::default(), true);
    assert!(coloured.contains("\u{1b}[31mdenied by no rm\u{1b}[0m"), "{coloured:?}");
}

#[test]
fn a_missing_file_is_an_error() {
    let mut out = Vec::new();
    assert_eq!(ShowArgs::default().run(Path::new("/nowhere/audit.log"), false, &mut out).unwrap(), 1);
    assert!(out.is_empty(), "the error goes to stderr");
}
