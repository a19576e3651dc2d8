//! A keeper's directory with any contents is listed or skipped, and never keeps another keeper from being listed.
#![no_main]

use std::path::Path;
use std::sync::LazyLock;
use std::time::Duration;

use daemon::config::KeepersConfig;
use daemon::keeper::{KeeperSettings, Keepers};
use engine::process::{Containment, ProcessLimits};
use libfuzzer_sys::fuzz_target;

struct World {
    state: tempfile::TempDir,
    keepers: Keepers,
    runtime: tokio::runtime::Runtime,
}

const VALID: &str = r#"{"by":"stdio","face":"rexd","argv":["true"],"cwd":"/","terminal":false,"started_at_ms":1,"pid":1,
    "keeper_pid":1,"protocol":1,"boot_id":""}"#;

static WORLD: LazyLock<World> = LazyLock::new(|| {
    let state = tempfile::tempdir().expect("a directory");
    let limits = ProcessLimits {
        log_bytes: 1024,
        spill_bytes: 0,
        spill_dir: state.path().to_owned(),
        commands_waiting: 1,
        kill_grace: Duration::ZERO,
        drain_idle: Duration::ZERO,
        drain_max: Duration::ZERO,
    };
    // Records of 1970 are never too old.
    let config = KeepersConfig { keep: Duration::from_secs(u32::MAX.into()), ..KeepersConfig::default() };
    let settings = KeeperSettings::new(state.path(), config, limits, Containment::Marks);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    World { keepers: Keepers::new(settings), state, runtime }
});

fn write(dir: &Path, name: &str, bytes: &[u8]) {
    std::fs::write(dir.join(name), bytes).expect("a file");
}

fuzz_target!(|input: (&[u8], &[u8], &[u8], &[u8])| {
    let (record, status, life, segment) = input;
    let dirs = ["p_000000000001", "p_000000000002"].map(|id| WORLD.state.path().join("keepers").join(id));
    for dir in &dirs {
        std::fs::create_dir_all(dir.join("log")).expect("a directory");
    }
    write(&dirs[0], "record.json", record);
    write(&dirs[0], "status.json", status);
    write(&dirs[0], "life", life);
    write(&dirs[0].join("log"), "00000000000000000000", segment);
    write(&dirs[1], "record.json", VALID.as_bytes());
    let listed = WORLD.runtime.block_on(WORLD.keepers.list());
    assert!(listed.iter().any(|process| process.id.0 == "p_000000000002"));
});
