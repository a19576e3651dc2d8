//! Detached processes and the disk: quotas, a full disk, and reports of lost output.
#![allow(clippy::unwrap_used, reason = "a failed test panics")]

mod keeper_support;

use std::path::Path;
use std::process::Command;

use daemon::keeper::Keepers;
use engine::process::{Cursor, ExitStatus, Signal};
use keeper_support::{House, attach, gather, read_until};
use serde_json::json;
use testkit::daemon::Rexd;
use testkit::sandbox::Sandbox;

const KIB: u64 = 1024;

/// Prints this many KiB in lines of 16 bytes, and a last line.
fn flood(kib: u64) -> String {
    let lines = kib * KIB / 16;
    format!("i=0; while [ $i -lt {lines} ]; do printf '%015d\\n' $i; i=$((i+1)); done; echo the end")
}

fn log_bytes(house: &House) -> u64 {
    let mut total = 0;
    for directory in house.directories() {
        let log = house.state().join("keepers").join(directory).join("log");
        for entry in std::fs::read_dir(log).into_iter().flatten().flatten() {
            total += entry.metadata().map_or(0, |found| found.len());
        }
    }
    total
}

#[tokio::test]
async fn a_log_keeps_the_newest_output_within_its_quota_and_reports_the_loss() {
    let house = House::new();
    let mut small = house.settings();
    small.config.log_bytes = 64 * KIB;
    let keepers = Keepers::new(small);
    let started = keepers.start(house.shell(&flood(512)), "test").await.unwrap();
    house.keeper_ends(&started.id).await;
    assert!(log_bytes(&house) <= 64 * KIB, "{} bytes", log_bytes(&house));
    let mut session = house.session();
    let attached = attach(&keepers, &mut session, &started.id, Cursor(0)).await.unwrap();
    let (from, lost) = (attached.from, attached.lost);
    let seen = gather(attached.reader).await;
    assert!(lost > 400 * KIB, "{lost}");
    assert_eq!(from.0, lost);
    assert_eq!(seen.end.0, 512 * KIB + 8, "every byte has its place, kept or not");
    assert_eq!(seen.end.0, from.0 + seen.stdout.len() as u64 + seen.lost);
    assert!(seen.stdout.ends_with("the end\n"));
    assert_eq!(seen.closed.exit, ExitStatus::Code(0));
}

#[tokio::test]
async fn the_quota_of_the_user_takes_from_ended_processes_first() {
    let house = House::new();
    let mut small = house.settings();
    small.config.log_bytes = 256 * KIB;
    small.config.quota_bytes = 320 * KIB;
    let keepers = Keepers::new(small);
    let ended = keepers.start(house.shell(&flood(128)), "test").await.unwrap();
    house.keeper_ends(&ended.id).await;
    let waits = format!("{}; read go; {}", flood(64), flood(400));
    let running = keepers.start(house.shell(&waits), "test").await.unwrap();
    let mut session = house.session();
    let mut attached = attach(&keepers, &mut session, &running.id, Cursor(0)).await.unwrap();
    read_until(&mut attached.reader, "the end").await;
    let first = attach(&keepers, &mut session, &ended.id, Cursor(0)).await.unwrap();
    assert_eq!(gather(first.reader).await.lost, 0, "there is room for both");
    attached.process.input("go\n".into(), false).await.unwrap();
    let seen = gather(attached.reader).await;
    assert!(seen.stdout.ends_with("the end\n"));
    house.keeper_ends(&running.id).await;
    assert!(log_bytes(&house) <= 320 * KIB, "{} bytes", log_bytes(&house));
    let gone = attach(&keepers, &mut session, &ended.id, Cursor(0)).await.unwrap();
    let (lost, seen) = (gone.lost, gather(gone.reader).await);
    assert!(lost + seen.lost > 0, "the ended one gave way");
    assert_eq!(lost + seen.lost + seen.stdout.len() as u64, 128 * KIB + 8);
}

/// A small file system of its own. Nothing where mounting is not allowed.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn mount(size: &str) -> Option<SmallDisk> {
        let directory = tempfile::tempdir().unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={size},mode=700"), "none"])
            .arg(directory.path())
            .status();
        mounted.is_ok_and(|status| status.success()).then_some(SmallDisk(directory))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: a keeper that is just ending may still be in it.
        let _unmounted = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

/// ARCHITECTURE.md, invariant 28.
#[tokio::test]
async fn a_full_disk_stops_no_process_and_the_loss_is_reported() {
    let Some(disk) = SmallDisk::mount("512k") else { return };
    let house = House::at(disk.path().to_owned());
    let keepers = house.keepers();
    let line = format!("{}; read go; {}", flood(2048), flood(16));
    let started = keepers.start(house.shell(&line), "test").await.unwrap();
    let mut session = house.session();
    let attached = attach(&keepers, &mut session, &started.id, Cursor(0)).await.unwrap();
    keepers.input(&started.id, "go\n".into(), false).await.unwrap();
    let seen = gather(attached.reader).await;
    assert_eq!(seen.closed.exit, ExitStatus::Code(0));
    assert_eq!(seen.end.0, (2048 + 16) * KIB + 16, "the process wrote all it had to say");
    assert_eq!(attached.from.0 + seen.stdout.len() as u64 + seen.lost, seen.end.0);
    house.keeper_ends(&started.id).await;
    let found = keepers.find(&started.id).await.unwrap();
    assert_eq!(found.facts.closed.unwrap().exit, ExitStatus::Code(0), "the status had its room");
    let later = attach(&keepers, &mut session, &started.id, Cursor(0)).await.unwrap();
    let (lost, seen) = (later.lost, gather(later.reader).await);
    assert!(lost + seen.lost > 0);
    assert_eq!(lost + seen.lost + seen.stdout.len() as u64, (2048 + 16) * KIB + 16);
}

#[tokio::test]
async fn a_disk_filled_by_another_program_stops_no_process() {
    let Some(disk) = SmallDisk::mount("256k") else { return };
    let house = House::at(disk.path().to_owned());
    let keepers = house.keepers();
    let line = format!("echo first; read go; {}; read more; echo last", flood(256));
    let started = keepers.start(house.shell(&line), "test").await.unwrap();
    let mut session = house.session();
    let mut attached = attach(&keepers, &mut session, &started.id, Cursor(0)).await.unwrap();
    read_until(&mut attached.reader, "first").await;
    let filler = disk.path().join("filler");
    // Until there is no room left: the error is what is wanted.
    std::fs::write(&filler, vec![0; 1024 * 1024]).unwrap_err();
    attached.process.input("go\n".into(), false).await.unwrap();
    read_until_end(&mut attached.reader).await;
    std::fs::remove_file(&filler).unwrap();
    attached.process.input("more\n".into(), false).await.unwrap();
    let seen = gather(attached.reader).await;
    assert_eq!((seen.stdout.as_str(), seen.closed.exit), ("last\n", ExitStatus::Code(0)));
    house.keeper_ends(&started.id).await;
    let later = attach(&keepers, &mut session, &started.id, Cursor(0)).await.unwrap();
    let (lost, seen) = (later.lost, gather(later.reader).await);
    assert!(seen.stdout.ends_with("last\n"), "it writes again when it can");
    assert_eq!(lost + seen.lost + seen.stdout.len() as u64, 256 * KIB + 6 + 8 + 5);
}

#[tokio::test]
async fn a_state_directory_that_cannot_be_used_makes_detaching_unavailable() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    std::fs::write(&file, "").unwrap();
    let full = SmallDisk::mount("64k");
    let mut states = vec![file];
    if let Some(full) = &full {
        std::fs::write(full.path().join("filler"), vec![0; 1024 * 1024]).unwrap_err();
        states.push(full.path().to_owned());
    }
    for state in states {
        let house = House::at(state.clone());
        let error = house.keepers().start(house.shell("true"), "test").await.unwrap_err();
        assert!(matches!(error, engine::Error::Unsupported { .. }), "{}: {error}", state.display());
    }
}

#[test]
fn a_detached_start_without_a_usable_state_directory_is_refused_as_unsupported() {
    let sandbox = Sandbox::new();
    let file = sandbox.write("file", "");
    let full = SmallDisk::mount("64k");
    if let Some(full) = &full {
        std::fs::write(full.path().join("filler"), vec![0; 1024 * 1024]).unwrap_err();
    }
    let states = [None, Some(file.as_path())].into_iter().chain(full.as_ref().map(|full| Some(full.path())));
    for state in states {
        let mut command = sandbox.command(env!("CARGO_BIN_EXE_rexd"));
        command.arg("--stdio").arg("--config").arg(sandbox.config());
        match state {
            Some(state) => command.env("XDG_STATE_HOME", state),
            None => command.env_remove("XDG_STATE_HOME").env_remove("HOME"),
        };
        let mut rexd = Rexd::spawn(command);
        let session = rexd.open();
        let start = json!({ "session_id": session, "argv": ["true"], "detach": true });
        let error = rexd.refused("exec.start", start);
        assert_eq!(error["code"], -32007, "{state:?}: {error}");
        let ran = rexd.run(json!({ "session_id": session, "argv": ["echo", "attached"] }));
        assert_eq!(ran.text(), "attached\n", "{state:?}: commands of the session still run");
    }
}

async fn read_until_end(reader: &mut engine::process::LogReader) {
    let mut seen = String::new();
    while !seen.contains("the end") {
        if let engine::process::Item::Output { bytes, .. } = reader.next(usize::MAX).await {
            seen.push_str(std::str::from_utf8(&bytes).unwrap());
        }
    }
}

#[tokio::test]
async fn a_log_that_disappears_is_a_loss_and_no_more() {
    let house = House::new();
    let keepers = house.keepers();
    let line = format!("{}; read go; {}", flood(300), flood(8));
    let started = keepers.start(house.shell(&line), "test").await.unwrap();
    let mut session = house.session();
    let mut attached = attach(&keepers, &mut session, &started.id, Cursor(0)).await.unwrap();
    read_until(&mut attached.reader, "the end").await;
    std::fs::remove_dir_all(house.path(&started.id).join("log")).unwrap();
    attached.process.input("go\n".into(), false).await.unwrap();
    let seen = gather(attached.reader).await;
    assert!(seen.stdout.ends_with("the end\n"));
    house.keeper_ends(&started.id).await;
    let later = attach(&keepers, &mut session, &started.id, Cursor(0)).await.unwrap();
    let seen = gather(later.reader).await;
    assert_eq!((seen.lost, seen.closed.exit), (308 * KIB + 16, ExitStatus::Code(0)));
    assert!(keepers.kill(&started.id, Signal::KILL).await.is_err());
}
