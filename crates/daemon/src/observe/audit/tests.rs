//! The audit file: its chain, many writers, recovery, and redaction.

use super::*;
use engine::audit::{ApprovalOutcome, ApprovalRecord, AuditOutcome, Detail, PolicyOutcome};
use engine::policy::Verdict;
use engine::process::{ExitStatus, Signal};
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;
use std::time::{Instant, SystemTime};

pub(super) fn record(number: i64) -> AuditRecord {
    AuditRecord {
        time: SystemTime::UNIX_EPOCH + Duration::from_nanos(1_700_000_000_123_456_789),
        caller: Arc::from("token:ci"),
        address: None,
        client: Arc::from("tester"),
        face: "rexd",
        session: Some(Arc::from("s1")),
        operation: "exec.start".into(),
        details: vec![("number".into(), Detail::Number(number))],
        outcome: AuditOutcome::Done("started".into()),
        exit: None,
        duration: Duration::from_micros(42),
        decision: None,
    }
}

pub(super) fn judged() -> PolicyOutcome {
    let approval = ApprovalRecord {
        id: Some(Arc::from("a1")),
        by: Some(Arc::from("uid:1000")),
        scope: Some("once"),
        outcome: ApprovalOutcome::Approved,
    };
    PolicyOutcome { verdict: Verdict::Ask, rule: Arc::from("r"), approval: Some(approval) }
}

fn lines(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

struct Fixture {
    directory: tempfile::TempDir,
    path: PathBuf,
}

fn fixture() -> Fixture {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("deep/er/audit.log");
    Fixture { directory, path }
}

impl Fixture {
    fn write(&self, records: i64) {
        let audit = AuditFile::open(&self.path, true).unwrap();
        (0..records).for_each(|number| audit.record(record(number)));
        drop(audit);
    }
}

#[test]
fn a_record_becomes_one_line_with_the_documented_keys() {
    let fixture = fixture();
    let audit = AuditFile::open(&fixture.path, true).unwrap();
    audit.record(AuditRecord { decision: Some(judged()), exit: Some(ExitStatus::Code(3)), ..record(1) });
    let failed = AuditOutcome::Failed { code: -32002, message: "outside".to_owned() };
    let address = Some(Arc::from("203.0.113.5"));
    audit.record(AuditRecord {
        outcome: failed,
        session: None,
        exit: Some(ExitStatus::Signal(Signal::KILL)),
        address,
        ..record(2)
    });
    drop(audit);
    let lines = lines(&fixture.path);
    let keys: Vec<&String> = lines[0].as_object().unwrap().keys().collect();
    assert_eq!(keys.len(), 18, "{keys:?}");
    assert_eq!(lines[0]["timestamp"], "2023-11-14T22:13:20.123456789Z");
    assert_eq!(lines[0]["client_name"], "tester");
    assert_eq!(lines[0]["session_id"], "s1");
    assert_eq!(lines[0]["params"], json!({ "number": 1 }));
    assert_eq!((&lines[0]["result"], &lines[0]["exit_code"]), (&json!("started"), &json!(3)));
    assert_eq!((&lines[0]["duration_us"], &lines[0]["rule"]), (&json!(42), &json!("r")));
    assert_eq!((&lines[0]["decision"], &lines[0]["approval"]), (&json!("ask"), &json!("approved")));
    assert_eq!((&lines[0]["approval_id"], &lines[0]["approver"]), (&json!("a1"), &json!("uid:1000")));
    assert_eq!(lines[1]["error"], json!({ "code": -32002, "message": "outside" }));
    assert_eq!((&lines[1]["exit_code"], &lines[1]["signal"]), (&json!(-1), &json!(9)));
    assert_eq!(lines[1]["session_id"], Value::Null);
    assert_eq!((&lines[0]["caller"], lines[0].get("address")), (&json!("token:ci"), None));
    assert_eq!(lines[1]["address"], "203.0.113.5");
    assert_eq!(lines[1]["prev"], lines[0]["hash"]);
}

#[test]
fn only_the_owner_can_read_it() {
    let fixture = fixture();
    fixture.write(1);
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&fixture.path), 0o600);
    assert_eq!(mode(fixture.path.parent().unwrap()), 0o700);
    assert_eq!(mode(&fixture.directory.path().join("deep")), 0o700);
}

#[test]
fn a_later_daemon_continues_the_chain() {
    let fixture = fixture();
    fixture.write(3);
    fixture.write(2);
    let summary = verify(&fixture.path).unwrap();
    assert_eq!((summary.records, summary.recovered, summary.torn_bytes), (5, 0, 0));
    assert_eq!(lines(&fixture.path)[4]["hash"], summary.last_hash.as_str());
}

/// ARCHITECTURE.md, invariant 24.
#[test]
fn many_writers_share_one_chain() {
    let fixture = fixture();
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                let audit = AuditFile::open(&fixture.path, true).unwrap();
                audit.start();
                for number in 0..60 {
                    audit.record(record(number));
                    // Several batches each.
                    while number % 10 == 0 && audit.queue.depth().0 > 0 {
                        std::thread::yield_now();
                    }
                }
            });
        }
    });
    assert_eq!(verify(&fixture.path).unwrap().records, 360);
}

/// ARCHITECTURE.md, invariant 24.
#[test]
fn every_change_to_the_file_is_detected() {
    let fixture = fixture();
    fixture.write(6);
    let whole = std::fs::read_to_string(&fixture.path).unwrap();
    let lines: Vec<&str> = whole.lines().collect();
    let check = |what: &str, lines: Vec<String>, expected: u64| {
        std::fs::write(&fixture.path, lines.join("\n") + "\n").unwrap();
        match verify(&fixture.path) {
            Err(VerifyError::Broken { line, .. }) => assert_eq!(line, expected, "{what}"),
            other => panic!("{what}: {other:?}"),
        }
    };
    let owned = || lines.iter().map(|line| (*line).to_owned()).collect::<Vec<String>>();
    for at in 0..6 {
        let mut edited = owned();
        edited[at] = edited[at].replace("tester", "nobody");
        check("edit", edited, at as u64 + 1);
        let mut inserted = owned();
        inserted.insert(at, lines[(at + 2) % 6].to_owned());
        check("insertion", inserted, at as u64 + 1);
        let mut garbage = owned();
        garbage.insert(at, "{}".to_owned());
        check("garbage", garbage, at as u64 + 1);
        if at < 5 {
            let mut deleted = owned();
            deleted.remove(at);
            check("deletion", deleted, at as u64 + 1);
            let mut swapped = owned();
            swapped.swap(at, at + 1);
            check("reordering", swapped, at as u64 + 1);
        }
    }
}

#[test]
fn a_cut_end_shows_only_in_the_last_hash() {
    let fixture = fixture();
    fixture.write(4);
    let before = verify(&fixture.path).unwrap();
    let whole = std::fs::read_to_string(&fixture.path).unwrap();
    let kept: String = whole.lines().take(2).map(|line| format!("{line}\n")).collect();
    std::fs::write(&fixture.path, kept).unwrap();
    assert_ne!(verify(&fixture.path).unwrap().last_hash, before.last_hash);
}

#[test]
fn a_torn_line_at_any_byte_is_accounted_for() {
    let fixture = fixture();
    fixture.write(3);
    let whole = std::fs::read(&fixture.path).unwrap();
    let second_ends = whole.iter().enumerate().filter(|(_, byte)| **byte == b'\n').nth(1).unwrap().0 + 1;
    for cut in second_ends..whole.len() {
        std::fs::write(&fixture.path, &whole[..cut]).unwrap();
        let torn = verify(&fixture.path).unwrap();
        fixture.write(1);
        let summary = verify(&fixture.path).unwrap_or_else(|error| panic!("cut at {cut}: {error}"));
        let interrupted = cut != second_ends && cut != whole.len() - 1;
        assert_eq!(torn.torn_bytes > 0, interrupted, "cut at {cut}");
        assert_eq!(summary.recovered, u64::from(interrupted), "cut at {cut}");
    }
    let edited = std::fs::read_to_string(&fixture.path).unwrap().replacen("tester", "nobody", 1);
    std::fs::write(&fixture.path, edited).unwrap();
    assert!(verify(&fixture.path).is_err());
}

#[test]
fn bytes_of_another_program_are_accounted_for_once() {
    let fixture = fixture();
    std::fs::create_dir_all(fixture.path.parent().unwrap()).unwrap();
    std::fs::write(&fixture.path, "{\"method\":\"fs.read\"}\n{\"method\":\"fs.list\"}\n").unwrap();
    fixture.write(2);
    let summary = verify(&fixture.path).unwrap();
    assert_eq!((summary.records, summary.recovered), (3, 1));
    let edited = std::fs::read_to_string(&fixture.path).unwrap().replace("fs.read", "fs.stat");
    std::fs::write(&fixture.path, edited).unwrap();
    assert!(matches!(verify(&fixture.path), Err(VerifyError::Broken { line: 1, .. })));
}

#[test]
fn a_file_that_was_moved_away_is_replaced_by_a_new_chain() {
    let fixture = fixture();
    let audit = AuditFile::open(&fixture.path, true).unwrap();
    audit.start();
    audit.record(record(1));
    let deadline = Instant::now() + Duration::from_secs(30);
    while verify(&fixture.path).unwrap().records == 0 && Instant::now() < deadline {
        std::thread::yield_now();
    }
    let moved = fixture.path.with_extension("1");
    std::fs::rename(&fixture.path, &moved).unwrap();
    audit.record(record(2));
    drop(audit);
    assert_eq!(verify(&moved).unwrap().records, 1);
    assert_eq!(verify(&fixture.path).unwrap().records, 1);
}

#[test]
fn a_file_that_cannot_be_written_is_an_error_at_the_start() {
    let fixture = fixture();
    std::fs::write(fixture.directory.path().join("deep"), "a file").unwrap();
    let config = AuditConfig { enabled: true, path: Some(fixture.path.clone()), configured: true };
    let error = AuditFile::from_config(&config).unwrap_err().to_string();
    assert!(error.contains("cannot write the audit file "), "{error}");
    assert!(AuditFile::from_config(&AuditConfig { enabled: false, ..config.clone() }).unwrap().is_none());
    assert!(matches!(AuditFile::from_config(&AuditConfig { path: None, ..config }), Err(AuditError::NoPath)));
}

/// Every write to `/dev/full` fails, as on a full disk.
#[test]
fn a_full_disk_does_not_keep_the_daemon_from_stopping() {
    for required in [true, false] {
        let audit = AuditFile::open(Path::new("/dev/full"), required).unwrap();
        audit.record(record(1));
        drop(audit);
    }
}

/// ARCHITECTURE.md, invariant 15.
#[test]
fn more_records_than_the_queue_holds_all_arrive() {
    let fixture = fixture();
    fixture.write(10_000);
    assert_eq!(verify(&fixture.path).unwrap().records, 10_000);
}

/// A generous bound, so that a busy machine does not fail it; the measured value is printed.
#[test]
fn a_record_costs_its_caller_microseconds() {
    let fixture = fixture();
    let audit = AuditFile::open(&fixture.path, true).unwrap();
    let records: Vec<AuditRecord> = (0..2_000).map(record).collect();
    let start = Instant::now();
    records.into_iter().for_each(|record| audit.record(record));
    let each = start.elapsed() / 2_000;
    println!("{each:?} a record");
    assert!(each < Duration::from_micros(50), "{each:?}");
}

#[test]
fn secrets_are_hidden_in_commands() {
    let table: &[(&str, &str)] = &[
        ("curl -H Authorization:abc u", "curl -H Authorization:[hidden] u"),
        ("curl -H 'Authorization: Bearer abc.def' u", "curl -H 'Authorization: Bearer [hidden]' u"),
        ("curl -H \"X-Api-Key: abc\" u", "curl -H \"X-Api-Key: [hidden]\" u"),
        ("mysql --password=hunter2 db", "mysql --password=[hidden] db"),
        ("mysql --password hunter2 db", "mysql --password [hidden] db"),
        ("TOKEN=abc make", "TOKEN=[hidden] make"),
        ("export AWS_SECRET_ACCESS_KEY=abc; ls", "export AWS_SECRET_ACCESS_KEY=[hidden]; ls"),
        ("DB_PASSWORD='a b c' run", "DB_PASSWORD=[hidden] run"),
        ("echo ghp_0123456789abcdefghij", "echo [hidden]"),
        ("X=ghp_0123456789abcdefghij y", "X=[hidden] y"),
        ("git clone https://u:pw@h/r.git", "git clone https://u:[hidden]@h/r.git"),
        ("curl 'https://h/x?a=1&access_token=abc&b=2'", "curl 'https://h/x?a=1&access_token=[hidden]&b=2'"),
        ("sh -c 'PASSWORD=x ls'", "sh -c 'PASSWORD=[hidden] ls'"),
        ("curl -u me:pw http://h", "curl -u me:[hidden] http://h"),
        ("docker run -u 1000:1000 x", "docker run -u 1000:[hidden] x"),
        ("cargo test --workspace", "cargo test --workspace"),
        ("cat /etc/passwd; pwd", "cat /etc/passwd; pwd"),
        ("run --max-tokens 5 --token-file /x", "run --max-tokens 5 --token-file /x"),
        ("git log --author=me", "git log --author=me"),
        ("curl http://h:8080/p?q=1", "curl http://h:8080/p?q=1"),
        ("é=\"ü\" TOKEN=\"ä ö\" ß", "é=\"ü\" TOKEN=[hidden] ß"),
    ];
    for (line, expected) in table {
        assert_eq!(redact_text(line), *expected, "{line}");
    }
    let argv = |words: &[&str]| redact_argv(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
    assert_eq!(argv(&["x", "--api-key", "abc", "y"]), ["x", "--api-key", "[hidden]", "y"]);
    assert_eq!(argv(&["x", "--token=a b"]), ["x", "--token=[hidden]"]);
    assert_eq!(
        argv(&["curl", "-H", "Authorization: Bearer abc"]),
        ["curl", "-H", "Authorization: Bearer [hidden]"]
    );
    assert_eq!(argv(&["curl", "-u", "me:pw"]), ["curl", "-u", "me:[hidden]"]);
    assert_eq!(argv(&["env", "PASSWORD=a b", "ls"]), ["env", "PASSWORD=[hidden]", "ls"]);
    assert_eq!(argv(&["bash", "-lc", "TOKEN=abc ls"]), ["bash", "-lc", "TOKEN=[hidden] ls"]);
}

/// ARCHITECTURE.md, invariant 24.
#[test]
fn no_content_and_no_value_of_a_variable_reaches_the_file() {
    let fixture = fixture();
    let audit = AuditFile::open(&fixture.path, true).unwrap();
    let details = vec![
        ("content".into(), Detail::Hidden { bytes: 10 }),
        ("env".into(), Detail::List(vec!["NAME".to_owned()])),
        ("resume_token".into(), Detail::Text("SECRETtext".to_owned())),
        ("argv".into(), Detail::Argv(["a", "--password", "SECRETtext"].map(str::to_owned).to_vec())),
        ("command".into(), Detail::Shell("TOKEN=SECRETtext b".to_owned())),
        ("path".into(), Detail::Text("/x".to_owned())),
        ("shell".into(), Detail::Flag(true)),
        ("limit".into(), Detail::Number(5)),
    ];
    audit.record(AuditRecord { details, ..record(1) });
    drop(audit);
    let text = std::fs::read_to_string(&fixture.path).unwrap();
    assert!(!text.contains("SECRETtext"), "{text}");
    let line = &lines(&fixture.path)[0]["params"];
    assert_eq!(line["content"], json!({ "hidden_bytes": 10 }));
    assert_eq!(line["env"], json!(["NAME"]));
    assert_eq!((&line["path"], &line["shell"], &line["limit"]), (&json!("/x"), &json!(true), &json!(5)));
}

#[test]
fn long_values_are_cut_and_counted() {
    let fixture = fixture();
    let audit = AuditFile::open(&fixture.path, true).unwrap();
    let details = vec![
        ("path".into(), Detail::Text("ä".repeat(10_000))),
        ("argv".into(), Detail::Argv(vec!["x".to_owned(); 1_000])),
    ];
    audit.record(AuditRecord { details, ..record(1) });
    drop(audit);
    let line = &lines(&fixture.path)[0]["params"];
    assert!(line["path"].as_str().unwrap().ends_with("…15904 bytes more"));
    assert_eq!(line["argv"][256], "…744 more");
}

#[test]
fn a_very_long_record_does_not_displace_the_next_ones() {
    let fixture = fixture();
    let audit = AuditFile::open(&fixture.path, true).unwrap();
    let endless = "x".repeat(20 * 1024 * 1024);
    let many = vec!["y".repeat(100); 400_000];
    for details in [
        vec![("path".into(), Detail::Text(endless.clone()))],
        vec![("argv".into(), Detail::Argv(many))],
        vec![("command".into(), Detail::Shell(endless.clone()))],
    ] {
        audit.record(AuditRecord { details, ..record(0) });
    }
    audit.record(AuditRecord { operation: endless.into(), ..record(0) });
    audit.record(record(7));
    drop(audit);
    let lines = lines(&fixture.path);
    assert!(lines.iter().all(|line| line.get("lost").is_none()), "nothing is lost");
    assert_eq!(lines.len(), 5);
    assert!(lines[0]["params"]["path"].as_str().unwrap().ends_with("bytes more"));
    assert_eq!(lines[1]["params"]["argv"][255], "…399745 more");
    assert_eq!(lines[4]["params"]["number"], 7);
}

#[test]
fn verification_prints_the_hash_to_note() {
    let fixture = fixture();
    fixture.write(2);
    let mut out = Vec::new();
    assert_eq!(verify_command(&fixture.path, &mut out).unwrap(), 0);
    let text = String::from_utf8(out).unwrap();
    assert!(text.contains(": ok, 2 records\n") && text.contains("last hash "), "{text}");
    std::fs::write(&fixture.path, "x\n").unwrap();
    let mut out = Vec::new();
    assert_eq!(verify_command(&fixture.path, &mut out).unwrap(), 1);
    assert!(String::from_utf8(out).unwrap().contains("line 1: not a record that rexd wrote"));
    assert_eq!(verify_command(Path::new("/nowhere/x"), &mut Vec::new()).unwrap(), 1);
}

/// A pipe without a reader accepts 64 KiB and then blocks its writer, as a hung disk does.
#[test]
fn a_stalled_disk_delays_no_request_and_losses_are_counted_where_they_occur() {
    const RECORDS: i64 = 30_000;
    let directory = tempfile::tempdir().unwrap();
    let pipe = directory.path().join("pipe");
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, mode).unwrap();
    let audit = AuditFile::open(&pipe, true).unwrap();
    audit.start();
    let put = |number| {
        let path = ("path".into(), Detail::Text("x".repeat(1_000)));
        let details = vec![("number".into(), Detail::Number(number)), path];
        audit.record(AuditRecord { details, ..record(0) });
    };
    (0..200).for_each(put);
    let deadline = Instant::now() + Duration::from_secs(30);
    while audit.queue.depth().0 > 0 && Instant::now() < deadline {
        std::thread::yield_now();
    }
    // The writer has more than fits into the pipe and is blocked.
    (200..RECORDS).for_each(put);
    let (waiting, lost) = audit.queue.depth();
    let reader = std::thread::spawn(move || lines(&pipe));
    while audit.queue.depth() != (0, 0) && Instant::now() < deadline {
        std::thread::yield_now();
    }
    audit.record(AuditRecord { details: vec![("number".into(), Detail::Number(RECORDS))], ..record(0) });
    drop(audit);
    let lines = reader.join().unwrap();
    assert!(waiting > 1_000 && lost > 0, "{waiting} wait, {lost} lost");
    let mut next = 0;
    for line in &lines {
        match line.get("lost") {
            Some(count) => next += count.as_i64().unwrap(),
            None => {
                assert_eq!(line["params"]["number"], next);
                next += 1;
            }
        }
    }
    assert_eq!(next, RECORDS + 1, "every record is there or counted");
}
