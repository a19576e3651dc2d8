//! Any file is a valid audit or its first wrong line is named, a writer that continues it changes no earlier byte, and its
//! records can be shown.
#![no_main]

use std::sync::{Arc, LazyLock};
use std::time::{Duration, SystemTime};

use daemon::observe::audit::{AuditFile, ShowArgs, verify};
use engine::audit::{AuditOutcome, AuditRecord, AuditSink as _};
use libfuzzer_sys::fuzz_target;

static DIRECTORY: LazyLock<tempfile::TempDir> = LazyLock::new(|| tempfile::tempdir().expect("a directory"));

fn record() -> AuditRecord {
    AuditRecord {
        time: SystemTime::UNIX_EPOCH,
        caller: Arc::from("stdio"),
        address: None,
        client: Arc::from("fuzz"),
        face: "rexd",
        session: None,
        operation: "server.ping".into(),
        details: Vec::new(),
        outcome: AuditOutcome::Done("ok".into()),
        exit: None,
        duration: Duration::ZERO,
        decision: None,
    }
}

fuzz_target!(|bytes: &[u8]| {
    let path = DIRECTORY.path().join("audit.log");
    std::fs::write(&path, bytes).expect("a file");
    let before = verify(&path);
    ShowArgs::default().run(&path, false, &mut std::io::sink()).expect("a list");
    let audit = AuditFile::open(&path, false).expect("a writer");
    audit.record(record());
    drop(audit);
    let written = std::fs::read(&path).expect("the file");
    assert!(written.starts_with(bytes), "what was there stays");
    match (before, verify(&path)) {
        (Ok(before), Ok(after)) => assert!(after.records > before.records),
        (Err(_), Err(_)) => {}
        // The writer has accounted for bytes of another program at the end.
        (Err(_), Ok(after)) => assert!(after.recovered > 0),
        (before, after) => panic!("{before:?} became {after:?}"),
    }
});
