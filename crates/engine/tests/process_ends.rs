//! Unusual ends: a failed start, output that ends within a character, late input.
#![allow(clippy::unwrap_used, reason = "a failed test panics")]

mod support;

use std::time::Duration;

use bytes::Bytes;
use engine::Error;
use engine::process::{Containment, ExitStatus};
use support::{argv, engine, gather, run, shell};

/// Children of this process that never executed a program, have ended and were not reaped. The orphans of other tests are
/// left out: an engine without cgroups makes this process their parent, and after its end nothing reaps them.
fn zombies() -> usize {
    let parent = format!(" Z {} ", std::process::id());
    let of_other_tests = ["(sh)", "(sleep)"];
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let stats = entries.filter_map(|entry| std::fs::read_to_string(entry.path().join("stat")).ok());
    stats
        .filter(|stat| stat.contains(&parent) && !of_other_tests.iter().any(|name| stat.contains(name)))
        .count()
}

#[tokio::test]
async fn a_start_that_fails_leaves_no_zombie() {
    for containment in [Containment::Best, Containment::Marks] {
        let mut session = engine(containment).open_session().unwrap();
        for _ in 0..20 {
            let failed = session.start(argv(&["/there/is/no/such/program"])).unwrap().running().await;
            assert!(matches!(failed, Err(Error::Spawn { .. })), "{failed:?}");
        }
        session.close().await;
    }
    // Another test may be about to execute its program.
    let gone = async {
        while zombies() > 0 {
            tokio::task::yield_now().await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(60), gone).await;
    assert!(waited.is_ok(), "{} zombies", zombies());
}

#[tokio::test]
async fn half_a_character_in_a_held_pipe_does_not_delay_the_end() {
    for _ in 0..10 {
        let mut session = engine(Containment::Best).open_session().unwrap();
        let running = run(&mut session, shell(r"sleep 1000 & printf 'abc\303'"));
        let result = tokio::time::timeout(Duration::from_secs(60), running).await.unwrap();
        assert_eq!(result.closed.exit, ExitStatus::Code(0));
        assert_eq!(result.closed.stdout_bytes, 4, "what was held back is told at the end");
        session.close().await;
    }
}

#[tokio::test]
async fn input_for_a_process_that_left_only_a_background_job_is_refused() {
    let mut session = engine(Containment::Best).open_session().unwrap();
    let process = session.start(shell("sleep 1000 >/dev/null 2>&1 &")).unwrap().running().await.unwrap();
    gather(&process).await;
    for _ in 0..8 {
        let input = process.input(Bytes::from_static(b"late"), false);
        let refused = tokio::time::timeout(Duration::from_secs(60), input).await.unwrap();
        assert!(matches!(refused, Err(Error::Gone | Error::InputClosed)), "{refused:?}");
    }
    session.close().await;
}
