//! Large output, slow readers, many processes: no output is lost, and no process is left.

mod support;

use engine::process::{Containment, Cursor, Item, Process, Signal};
use support::{argv, engine, run, shell};

async fn read_all_after_a_stall(process: &Process, stall: impl Future<Output = ()>) -> (u64, u64) {
    let mut reader = process.primary_reader(Cursor(0));
    let mut stall = Some(stall);
    let (mut bytes_seen, mut sum) = (0u64, 0u64);
    loop {
        match reader.next(256 * 1024).await {
            Item::Output { bytes, .. } => {
                bytes_seen += bytes.len() as u64;
                sum = bytes.iter().fold(sum, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(*byte)));
                if let Some(stall) = stall.take() {
                    stall.await;
                }
            }
            Item::Lost { bytes, .. } => panic!("{bytes} lost"),
            Item::Exited { .. } => {}
            Item::Closed(_) => return (bytes_seen, sum),
            Item::Disconnected => panic!("left"),
        }
    }
}

/// ARCHITECTURE.md, invariant 10.
#[tokio::test]
async fn a_reader_that_stalls_loses_nothing_and_memory_stays_bounded() {
    let engine = engine(Containment::Best);
    let mut session = engine.open_session().unwrap();
    let process = session.start(shell("seq 1 5000000")).unwrap().running().await.unwrap();
    let mut other = engine.open_session().unwrap();
    let meanwhile = async {
        // The log fills, spills, and the process ends or waits; other processes are served all the time.
        while process.state().end.0 < 30_000_000 {
            assert_eq!(run(&mut other, shell("echo served")).await.text(), "served\n");
            assert!(process.memory() <= 2 * 1024 * 1024, "{} bytes in memory", process.memory());
        }
    };
    let (bytes, sum) = read_all_after_a_stall(&process, meanwhile).await;
    let mut expected = (0u64, 0u64);
    for number in 1..=5_000_000u64 {
        for byte in format!("{number}\n").bytes() {
            expected = (expected.0 + 1, expected.1.wrapping_mul(31).wrapping_add(u64::from(byte)));
        }
    }
    assert_eq!((bytes, sum), expected);
}

/// ARCHITECTURE.md, invariant 13.
#[tokio::test]
async fn a_full_quota_slows_the_process_and_a_kill_still_overtakes() {
    let engine = engine(Containment::Best);
    let mut session = engine.open_session().unwrap();
    let process = session.start(shell("exec cat /dev/zero")).unwrap().running().await.unwrap();
    let reader = process.primary_reader(Cursor(0));
    while process.state().end.0 < 64 * 1024 * 1024 {
        tokio::task::yield_now().await;
    }
    let ended = process.kill(Signal::KILL).await.unwrap();
    assert_eq!(ended.killed.len(), 1);
    drop(reader);
    process.closed().await.unwrap();
}

/// ARCHITECTURE.md, invariant 11.
#[tokio::test]
async fn a_viewer_never_slows_the_process_and_learns_what_it_lost() {
    let engine = engine(Containment::Best);
    let mut session = engine.open_session().unwrap();
    let process = session.start(shell("head -c 20000000 /dev/zero")).unwrap().running().await.unwrap();
    let viewer = process.reader(Cursor(0));
    process.closed().await.unwrap();
    let (lost, seen) = lost_and_seen(viewer).await;
    assert_eq!(lost + seen, 20_000_000);
    assert!(lost > 0);
}

/// Reads everything from where the reader is; how much was lost and how much came.
async fn lost_and_seen(mut reader: engine::process::LogReader) -> (u64, u64) {
    let (mut lost, mut seen) = (0, 0);
    loop {
        match reader.next(usize::MAX).await {
            Item::Lost { bytes, .. } => lost += bytes,
            Item::Output { bytes, .. } => seen += bytes.len() as u64,
            Item::Exited { .. } => {}
            Item::Closed(_) => return (lost, seen),
            Item::Disconnected => panic!("left"),
        }
    }
}

/// ARCHITECTURE.md, invariant 31.
#[tokio::test]
async fn a_reader_that_is_away_misses_nothing_that_fits_on_disk() {
    let engine = engine(Containment::Best);
    let mut session = engine.open_session().unwrap();
    let process = session.start(shell("head -c 40000000 /dev/zero")).unwrap().running().await.unwrap();
    let reader = process.primary_reader(Cursor(0));
    process.set_reader_disconnected(true);
    process.closed().await.unwrap();
    process.set_reader_disconnected(false);
    assert_eq!(lost_and_seen(reader).await, (0, 40_000_000));
}

/// ARCHITECTURE.md, invariant 31.
#[tokio::test]
async fn a_reader_that_is_away_for_too_long_does_not_stop_the_process_and_learns_what_it_lost() {
    let engine = engine(Containment::Best);
    let mut session = engine.open_session().unwrap();
    let process = session.start(shell("head -c 200000000 /dev/zero")).unwrap().running().await.unwrap();
    let reader = process.primary_reader(Cursor(0));
    process.set_reader_disconnected(true);
    process.closed().await.unwrap();
    process.set_reader_disconnected(false);
    let (lost, seen) = lost_and_seen(reader).await;
    assert_eq!(lost + seen, 200_000_000);
    assert!(lost > 0 && seen > 60_000_000, "the disk has room for 64 MiB: {lost} lost, {seen} seen");
}

/// ARCHITECTURE.md, invariant 4.
#[tokio::test]
async fn two_thousand_commands_leave_no_zombie_and_no_descriptor() {
    let engine = engine(Containment::Best);
    let mut session = engine.open_session().unwrap();
    run(&mut session, argv(&["true"])).await;
    let descriptors = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let before = descriptors();
    let mut left = 2000;
    while left > 0 {
        let batch: Vec<_> =
            (0..50).map(|n| session.start(argv(&["echo", &n.to_string()])).unwrap()).collect();
        left -= batch.len();
        for (n, starting) in batch.into_iter().enumerate() {
            let process = starting.running().await.unwrap();
            let result = support::gather(&process).await;
            assert_eq!(result.text(), format!("{n}\n"));
        }
    }
    session.close().await;
    let kept_cgroups = 2 * 64;
    assert!(descriptors() <= before + kept_cgroups, "{before} before, {} after", descriptors());
    let children =
        std::fs::read_to_string(format!("/proc/self/task/{}/children", std::process::id())).unwrap();
    assert_eq!(children.trim(), "", "children left: {children}");
}
