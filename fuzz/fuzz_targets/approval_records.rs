//! Any file in the directory of approvals is a record or is ignored, and an id from a client never leaves the directory.
#![no_main]

use std::sync::LazyLock;

use daemon::core::approvals::FileApprovalStore;
use engine::approval::ApprovalStore as _;
use libfuzzer_sys::fuzz_target;

static DIRECTORY: LazyLock<tempfile::TempDir> = LazyLock::new(|| {
    let directory = tempfile::tempdir().expect("a directory");
    let outside = r#"{"state":"approved","caller":"c","client":"c","face":"f","session":"s","operation":"o","summary":"s",
        "rule":"r","asked_at_ms":0,"daemon":{"pid":1,"started":0}}"#;
    std::fs::write(directory.path().join("outside.json"), outside).expect("a file");
    std::fs::create_dir(directory.path().join("approvals")).expect("a directory");
    directory
});

fuzz_target!(|input: (&[u8], &[u8], &str)| {
    let (approval, grant, id) = input;
    let directory = DIRECTORY.path().join("approvals");
    std::fs::write(directory.join("a_0123456789ab.json"), approval).expect("a file");
    std::fs::write(directory.join("grant-0123456789abcdef.json"), grant).expect("a file");
    let store = FileApprovalStore::new(directory);
    store.grants();
    store.find_resolution("a_0123456789ab");
    if id != "a_0123456789ab" {
        assert!(store.find_resolution(id).is_none(), "{id:?}");
    }
    assert!(store.find_resolution("../outside").is_none());
});
