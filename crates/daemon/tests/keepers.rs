//! Detached processes: they survive the daemon that started them, and a later daemon has full access to them.
#![allow(clippy::unwrap_used, reason = "a failed test panics")]

mod keeper_support;

use std::time::Instant;

use bytes::Bytes;
use engine::Error;
use engine::process::{
    Containment, Cursor, ExitCause, ExitStatus, Item, ProcessId, Signal, Stream, TerminalSize,
};
use keeper_support::{House, PATIENCE, attach, eventually, gather, read_until};
use rustix::process::{Pid, kill_process};
use serde_json::json;
use wire::keeper::Version;

#[tokio::test]
async fn a_detached_process_is_listed_read_and_reaped_by_another_daemon() {
    let house = House::new();
    let started =
        house.keepers().start(house.shell("echo out; echo err >&2; exit 7"), "uid:1").await.unwrap();
    // Another daemon knows nothing but the directory.
    let (keepers, mut session) = (house.keepers(), house.session());
    let attached = attach(&keepers, &mut session, &started.id, Cursor(0)).await.unwrap();
    assert_eq!(attached.process.pid(), Some(started.pid));
    assert!(attached.process.description().is_detached);
    let seen = gather(attached.reader).await;
    assert_eq!((seen.stdout.as_str(), seen.stderr.as_str(), seen.lost), ("out\n", "err\n", 0));
    assert_eq!((seen.closed.exit, seen.closed.cause), (ExitStatus::Code(7), ExitCause::Itself));
    house.keeper_ends(&started.id).await;
    let listed = keepers.list().await;
    assert_eq!(listed.len(), 1);
    assert_eq!((listed[0].by.as_str(), listed[0].facts.end), ("uid:1", Cursor(8)));
    assert_eq!(listed[0].facts.closed.as_ref().unwrap().exit, ExitStatus::Code(7));
    assert_eq!(listed[0].description.argv, ["sh", "-c", "echo out; echo err >&2; exit 7"]);
    assert!(keepers.remove(&started.id).await.unwrap());
    assert!(keepers.list().await.is_empty());
    assert!(matches!(keepers.find(&started.id).await, Err(Error::NoSuchProcess(_))));
}

#[tokio::test]
async fn an_ended_process_is_read_from_the_middle_and_with_its_end() {
    let house = House::new();
    let keepers = house.keepers();
    let started = keepers.start(house.shell("printf 'one two three'"), "test").await.unwrap();
    house.keeper_ends(&started.id).await;
    let mut session = house.session();
    let attached = attach(&keepers, &mut session, &started.id, Cursor(4)).await.unwrap();
    let seen = gather(attached.reader).await;
    assert_eq!((seen.stdout.as_str(), seen.closed.exit), ("two three", ExitStatus::Code(0)));
    assert!(matches!(attached.process.kill(Signal::KILL).await, Err(Error::Gone)));
    let behind = attach(&keepers, &mut session, &started.id, Cursor(999)).await.unwrap();
    assert_eq!((behind.from, gather(behind.reader).await.stdout.as_str()), (Cursor(13), ""));
}

#[tokio::test]
async fn a_place_behind_the_end_of_a_running_process_is_its_end() {
    let house = House::new();
    let keepers = house.keepers();
    let started = keepers.start(house.shell("echo before; read go; echo after"), "test").await.unwrap();
    let mut session = house.session();
    let mut first = attach(&keepers, &mut session, &started.id, Cursor(0)).await.unwrap();
    read_until(&mut first.reader, "before\n").await;
    let behind = attach(&keepers, &mut session, &started.id, Cursor(999)).await.unwrap();
    assert_eq!((behind.from, behind.lost), (Cursor(7), 0));
    behind.process.input(Bytes::from_static(b"go\n"), false).await.unwrap();
    assert_eq!(gather(behind.reader).await.stdout, "after\n");
}

#[tokio::test]
async fn the_last_bytes_of_a_detached_process_arrive_although_it_writes_nothing_more() {
    let house = House::new();
    let keepers = house.keepers();
    for is_text in [true, false] {
        let mut spec = house.shell(r"printf 'abc\334'; read answer");
        spec.is_text = is_text;
        let started = keepers.start(spec, "test").await.unwrap();
        let mut session = house.session();
        let mut attached = attach(&keepers, &mut session, &started.id, Cursor(0)).await.unwrap();
        let mut seen = Vec::new();
        while seen.len() < 4 {
            let next = tokio::time::timeout(2 * PATIENCE, attached.reader.next(usize::MAX)).await;
            let Item::Output { bytes, .. } = next.expect("more bytes") else { panic!("no output") };
            seen.extend_from_slice(&bytes);
        }
        assert_eq!(seen, b"abc\xdc", "is_text {is_text}");
        attached.process.input(Bytes::from_static(b"go on\n"), true).await.unwrap();
    }
}

#[tokio::test]
async fn merged_streams_of_a_detached_process_keep_their_order() {
    let house = House::new();
    let keepers = house.keepers();
    let mut spec =
        house.shell("i=0; while [ $i -lt 200 ]; do echo out $i; echo err $i >&2; i=$((i+1)); done");
    spec.merges_stderr = true;
    let started = keepers.start(spec, "test").await.unwrap();
    let mut session = house.session();
    let attached = attach(&keepers, &mut session, &started.id, Cursor(0)).await.unwrap();
    let seen = gather(attached.reader).await;
    let expected: String = (0..200).map(|i| format!("out {i}\nerr {i}\n")).collect();
    assert_eq!((seen.stdout, seen.stderr.as_str()), (expected, ""));
}

#[tokio::test]
async fn input_from_several_daemons_reaches_a_detached_process() {
    let house = House::new();
    let started = house.keepers().start(house.shell("cat"), "test").await.unwrap();
    let (keepers, mut session) = (house.keepers(), house.session());
    let mut attached = attach(&keepers, &mut session, &started.id, Cursor(0)).await.unwrap();
    attached.process.input(Bytes::from_static(b"hello\n"), false).await.unwrap();
    read_until(&mut attached.reader, "hello\n").await;
    house.keepers().input(&started.id, Bytes::from_static(b"again\n"), true).await.unwrap();
    let seen = gather(attached.reader).await;
    assert_eq!((seen.stdout.as_str(), seen.closed.exit), ("again\n", ExitStatus::Code(0)));
}

#[tokio::test]
async fn a_terminal_is_typed_into_and_resized_from_another_daemon() {
    let house = House::new();
    let mut spec = house.shell("stty size; read line; stty size; echo \"got $line\"; read rest");
    spec.terminal = Some(TerminalSize { cols: 80, rows: 24 });
    let started = house.keepers().start(spec, "test").await.unwrap();
    let (keepers, mut session) = (house.keepers(), house.session());
    let mut attached = attach(&keepers, &mut session, &started.id, Cursor(0)).await.unwrap();
    assert!(attached.process.description().has_terminal);
    read_until(&mut attached.reader, "24 80").await;
    attached.process.resize(TerminalSize { cols: 132, rows: 50 }).await.unwrap();
    attached.process.input(Bytes::from_static(b"word\n"), false).await.unwrap();
    let text = read_until(&mut attached.reader, "got word").await;
    assert!(text.contains("50 132"), "{text:?}");
    attached.process.kill(Signal::KILL).await.unwrap();
    assert_eq!(attached.process.closed().await.unwrap().exit, ExitStatus::Signal(Signal::KILL));
}

#[tokio::test]
async fn a_kill_from_another_daemon_ends_the_whole_tree_and_names_it() {
    let house = House::new();
    let line = "trap '' TERM; setsid sleep 1000 & (setsid sh -c 'sleep 1001 & wait' &) ; echo ready; wait; sleep 1002";
    let started = house.keepers().start(house.shell(line), "test").await.unwrap();
    let (keepers, mut session) = (house.keepers(), house.session());
    let mut attached = attach(&keepers, &mut session, &started.id, Cursor(0)).await.unwrap();
    read_until(&mut attached.reader, "ready").await;
    // It is a shell until it has executed its program.
    let has_sleep = || {
        let children = testkit::proc::children(started.pid);
        children.into_iter().any(|pid| testkit::proc::name(pid) == "sleep")
    };
    eventually("a child sleeps", has_sleep).await;
    let ended = keepers.kill(&started.id, Signal::TERM).await.unwrap();
    assert!(ended.killed.len() >= 3, "{ended:?}");
    assert!(ended.remaining.is_empty(), "{ended:?}");
    assert!(ended.killed.iter().any(|member| member.name == "sleep"), "{ended:?}");
    for member in &ended.killed {
        assert!(!testkit::proc::is_alive(member.pid), "{member:?}");
    }
    let closed = attached.process.closed().await.unwrap();
    assert_eq!((closed.exit, closed.cause), (ExitStatus::Signal(Signal::KILL), ExitCause::Killed));
}

/// ARCHITECTURE.md, invariant 6.
#[tokio::test]
async fn every_one_of_many_concurrent_kills_is_answered_with_its_own_process() {
    for containment in [Containment::Best, Containment::Marks] {
        let house = House::new();
        let keepers = house.keepers_with(containment);
        let mut started = Vec::new();
        for _ in 0..40 {
            started.push(keepers.start(house.argv(&["sleep", "1000"]), "test").await.unwrap());
        }
        let kills = started.iter().map(|one| keepers.kill(&one.id, Signal::TERM));
        let outcomes = futures_util::future::join_all(kills).await;
        for (one, outcome) in started.iter().zip(outcomes) {
            let outcome = outcome.unwrap();
            assert_eq!(outcome.killed.iter().map(|member| member.pid).collect::<Vec<_>>(), [one.pid]);
            assert_eq!((outcome.remaining, testkit::proc::is_alive(one.pid)), (Vec::new(), false));
        }
    }
}

#[tokio::test]
async fn a_kill_is_no_timeout_if_the_process_is_dead_although_its_keeper_does_not_respond() {
    let house = House::new();
    let keepers = house.keepers();
    let started = keepers.start(house.argv(&["sleep", "1000"]), "test").await.unwrap();
    let keeper = rustix::process::Pid::from_raw(house.keeper_pid(&started.id)).unwrap();
    rustix::process::kill_process(keeper, rustix::process::Signal::STOP).unwrap();
    let is_stopped = || testkit::proc::state(keeper.as_raw_nonzero().get()) == Some('T');
    eventually("the keeper is stopped", is_stopped).await;
    // The clock moves on as soon as nothing but a timeout is waited for.
    tokio::time::pause();
    let alive = keepers.kill(&started.id, Signal::KILL).await;
    assert!(matches!(alive, Err(Error::Deadline { .. })), "{alive:?}");
    let leader = rustix::process::Pid::from_raw(started.pid).unwrap();
    rustix::process::kill_process(leader, rustix::process::Signal::KILL).unwrap();
    assert!(testkit::proc::watch(started.pid).ends_before(Instant::now() + PATIENCE));
    let outcome = keepers.kill(&started.id, Signal::KILL).await.unwrap();
    assert!(!outcome.is_complete, "other members are unknown");
    tokio::time::resume();
    rustix::process::kill_process(keeper, rustix::process::Signal::CONT).unwrap();
    house.keeper_ends(&started.id).await;
}

/// Leaves group and session, loses its parent, and ignores TERM.
const RUNAWAY: &str = "(setsid sh -c 'trap \"\" TERM; echo runaway $$; exec sleep 1000 >/dev/null 2>&1 </dev/null' &); \
                       echo; exec sleep 1001";

/// ARCHITECTURE.md, invariant 6.
#[tokio::test]
async fn a_kill_of_a_detached_process_ends_grandchildren_that_left_its_group_before_it_is_answered() {
    for (containment, signal) in [
        (Containment::Best, Signal::KILL),
        (Containment::Marks, Signal::KILL),
        (Containment::Best, Signal::TERM),
        (Containment::Marks, Signal::TERM),
    ] {
        let house = House::new();
        let (keepers, mut session) = (house.keepers_with(containment), house.session());
        let started = keepers.start(house.shell(RUNAWAY), "test").await.unwrap();
        let mut attached = attach(&keepers, &mut session, &started.id, Cursor(0)).await.unwrap();
        let text = read_until(&mut attached.reader, "runaway ").await;
        let text =
            if text.ends_with('\n') { text } else { text + &read_until(&mut attached.reader, "\n").await };
        let line = text.lines().find(|line| line.starts_with("runaway ")).unwrap();
        let runaway: i32 = line["runaway ".len()..].trim().parse().unwrap();
        let outcome = keepers.kill(&started.id, signal).await.unwrap();
        let (killed, at) = (&outcome.killed, (containment, signal));
        assert!(!testkit::proc::is_alive(runaway), "{at:?}: {outcome:?}");
        assert!(killed.iter().any(|member| member.pid == runaway), "{at:?}: {outcome:?}");
        assert!(outcome.remaining.is_empty(), "{at:?}: {outcome:?}");
    }
}

#[tokio::test]
async fn a_failed_detached_start_has_the_error_of_an_attached_one() {
    let house = House::new();
    let keepers = house.keepers();
    let error = keepers.start(house.argv(&["no-such-program-at-all"]), "test").await.unwrap_err();
    let Error::Spawn { program, source } = &error else { panic!("{error:?}") };
    assert_eq!((program.as_str(), source.kind()), ("no-such-program-at-all", std::io::ErrorKind::NotFound));
    let error = keepers.start(house.argv(&["/etc/passwd"]), "test").await.unwrap_err();
    assert!(
        matches!(&error, Error::Spawn { source, .. } if source.kind() == std::io::ErrorKind::PermissionDenied)
    );
    let mut spec = house.shell("true");
    spec.cwd = house.directory("missing");
    let error = keepers.start(spec, "test").await.unwrap_err();
    assert!(
        matches!(&error, Error::File { source, .. } if source.kind() == std::io::ErrorKind::NotFound),
        "{error:?}"
    );
    assert!(keepers.list().await.is_empty());
    assert_eq!(house.directories(), Vec::<String>::new(), "nothing of them stays on disk");
}

/// ARCHITECTURE.md, invariant 29.
#[tokio::test]
async fn a_keeper_of_the_first_protocol_is_listed_attached_fed_and_killed() {
    let house = House::new();
    let mut old = house.settings();
    old.protocol = Version::V1;
    let started =
        daemon::keeper::Keepers::new(old).start(house.shell("echo old; cat"), "test").await.unwrap();
    assert!(house.read(&started.id, "record.json").contains("\"protocol\":1"));
    let (keepers, mut session) = (house.keepers(), house.session());
    assert_eq!(keepers.list().await.len(), 1);
    let mut attached = attach(&keepers, &mut session, &started.id, Cursor(0)).await.unwrap();
    read_until(&mut attached.reader, "old\n").await;
    attached.process.input(Bytes::from_static(b"\xff\x00bytes\n"), false).await.unwrap();
    let Item::Output { bytes, stream: Stream::Stdout, .. } = attached.reader.next(usize::MAX).await else {
        panic!("no output")
    };
    assert_eq!(&bytes[..], b"\xff\x00bytes\n");
    let ended = attached.process.kill(Signal::KILL).await.unwrap();
    assert!(!ended.killed.is_empty());
    assert_eq!(attached.process.closed().await.unwrap().exit, ExitStatus::Signal(Signal::KILL));
}

#[tokio::test]
async fn a_killed_keeper_ends_its_process_and_the_listing_shows_it() {
    let house = House::new();
    let keepers = house.keepers();
    let started = keepers.start(house.shell("echo last words; sleep 1000"), "test").await.unwrap();
    let mut session = house.session();
    let mut attached = attach(&keepers, &mut session, &started.id, Cursor(0)).await.unwrap();
    read_until(&mut attached.reader, "last words\n").await;
    house.kill_keeper(&started.id);
    assert_eq!(attached.process.closed().await.unwrap().exit, ExitStatus::Signal(Signal::KILL));
    eventually("the process is gone", || !testkit::proc::is_alive(started.pid)).await;
    let found = keepers.find(&started.id).await.unwrap();
    assert_eq!(found.facts.closed.unwrap().exit, ExitStatus::Signal(Signal::KILL));
    let later = attach(&keepers, &mut session, &started.id, Cursor(0)).await.unwrap();
    let seen = gather(later.reader).await;
    assert_eq!((seen.stdout.as_str(), seen.closed.exit), ("last words\n", ExitStatus::Signal(Signal::KILL)));
}

#[tokio::test]
async fn background_jobs_of_a_leader_that_ended_well_live_on_and_can_be_killed() {
    let house = House::new();
    let keepers = house.keepers();
    let started = keepers.start(house.shell("sleep 1000 >/dev/null 2>&1 & echo $!"), "test").await.unwrap();
    let mut session = house.session();
    let attached = attach(&keepers, &mut session, &started.id, Cursor(0)).await.unwrap();
    let seen = gather(attached.reader).await;
    let background: i32 = seen.stdout.trim().parse().unwrap();
    assert_eq!(seen.closed.exit, ExitStatus::Code(0));
    assert!(testkit::proc::is_alive(background));
    assert!(!keepers.remove(&started.id).await.unwrap(), "its keeper lives");
    let ended = keepers.kill(&started.id, Signal::KILL).await.unwrap();
    assert_eq!(ended.killed.iter().map(|member| member.pid).collect::<Vec<_>>(), [background]);
    house.keeper_ends(&started.id).await;
}

#[tokio::test]
async fn limits_bind_detached_processes_too() {
    let house = House::new();
    let keepers = house.keepers();
    let mut spec = house.shell("sleep 1000");
    spec.stop_after = Some(std::time::Duration::from_millis(50));
    let started = keepers.start(spec, "test").await.unwrap();
    let mut session = house.session();
    let attached = attach(&keepers, &mut session, &started.id, Cursor(0)).await.unwrap();
    assert_eq!(attached.process.closed().await.unwrap().cause, ExitCause::TimedOut);
    let mut few = house.settings();
    few.config.max = 0;
    let refused = daemon::keeper::Keepers::new(few).start(house.shell("true"), "test").await;
    assert!(matches!(refused, Err(Error::LimitReached { .. })));
}

#[tokio::test]
async fn a_listing_removes_expired_processes() {
    let house = House::new();
    let started = house.keepers().start(house.shell("true"), "test").await.unwrap();
    house.keeper_ends(&started.id).await;
    let mut forgetful = house.settings();
    forgetful.config.keep = std::time::Duration::ZERO;
    assert_eq!(house.keepers().list().await.len(), 1);
    assert!(daemon::keeper::Keepers::new(forgetful).list().await.is_empty());
    assert_eq!(house.directories(), Vec::<String>::new());
}

#[tokio::test]
async fn a_name_that_is_no_name_is_never_looked_for() {
    let house = House::new();
    for name in ["", "..", "p_../../etc", "p_0123456789ab/..", "p_0123456789AB", "p_0123456789abc"] {
        let found = house.keepers().find(&ProcessId(name.to_owned())).await;
        assert!(matches!(found, Err(Error::NoSuchProcess(_))), "{name}");
    }
}

#[tokio::test]
async fn a_spare_keeper_leaves_with_its_daemon_and_leaves_nothing() {
    let house = House::new();
    let keepers = house.keepers();
    let started = keepers.start(house.shell("true"), "test").await.unwrap();
    let has_spare = || house.all_directories().iter().any(|name| name.starts_with(".new-"));
    eventually("a spare is made", has_spare).await;
    let second = keepers.start(house.shell("echo by the spare"), "test").await.unwrap();
    house.keeper_ends(&started.id).await;
    house.keeper_ends(&second.id).await;
    assert_eq!(keepers.list().await.len(), 2);
    drop(keepers);
    eventually("the spare is gone", || !has_spare()).await;
}

/// As with `kill -9` of a daemon whose keeper is slow: the next daemon finds no directory of the process, so it must not run.
#[tokio::test]
async fn a_keeper_whose_daemon_is_gone_starts_nothing() {
    let house = House::new();
    let keepers = house.keepers();
    let first = keepers.start(house.shell("true"), "test").await.unwrap();
    house.keeper_ends(&first.id).await;
    let spare_pid = || {
        let own = std::process::id().cast_signed();
        let state = house.state().display().to_string();
        let is_spare = |name: &String| name.starts_with(&state) && name.contains("/.new-");
        let mut children = testkit::proc::children(own).into_iter();
        children.find(|child| testkit::proc::descriptor_names(*child).iter().any(is_spare))
    };
    eventually("a spare is ready", || spare_pid().is_some()).await;
    let number = spare_pid().unwrap();
    let (spare, watched) = (Pid::from_raw(number).unwrap(), testkit::proc::watch(number));
    kill_process(spare, rustix::process::Signal::STOP).unwrap();
    eventually("the spare has stopped", || testkit::proc::state(number) == Some('T')).await;

    let second = ProcessId("p_00000000000b".to_owned());
    let (starting, effect) = (keepers.clone(), house.state().join("effect"));
    let spec = house.shell(&format!("touch {}", effect.display()));
    let start = tokio::spawn({
        let id = second.clone();
        async move { starting.start_as(id, spec, "test").await }
    });
    let job = std::fs::File::open(format!("/proc/{number}/fd/0")).unwrap();
    eventually("the job is sent", || rustix::io::ioctl_fionread(&job).unwrap() > 0).await;
    drop(job);
    start.abort();
    assert!(start.await.unwrap_err().is_cancelled());

    let missing = house.keepers().find_started(&second).await;
    assert!(matches!(missing, Err(Error::NoSuchProcess(_))), "{missing:?}");
    kill_process(spare, rustix::process::Signal::CONT).unwrap();
    let deadline = Instant::now() + PATIENCE;
    assert!(tokio::task::spawn_blocking(move || watched.ends_before(deadline)).await.unwrap());
    assert!(!effect.exists() && house.directories() == [first.id.0], "{:?}", house.directories());
}

#[tokio::test]
async fn a_process_that_is_about_to_start_is_waited_for() {
    let house = House::new();
    let id = ProcessId("p_00000000000c".to_owned());
    let directory = house.path(&id);
    std::fs::create_dir_all(&directory).unwrap();
    // As a keeper that has not started its process yet.
    let life = std::fs::File::create(directory.join("life")).unwrap();
    rustix::fs::flock(&life, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let keepers = house.keepers();
    assert!(matches!(keepers.find(&id).await, Err(Error::NoSuchProcess(_))));
    let finding = tokio::spawn({
        let id = id.clone();
        async move { keepers.find_started(&id).await }
    });
    let record = json!({ "by": "test", "face": "rexd", "argv": ["true"], "cwd": "/", "terminal": false, "started_at_ms": 1, "pid": 1,
        "keeper_pid": 1, "protocol": 1, "boot_id": "" });
    std::fs::write(directory.join("record.draft"), record.to_string()).unwrap();
    assert!(!finding.is_finished(), "the keeper runs and has started nothing");
    std::fs::rename(directory.join("record.draft"), directory.join("record.json")).unwrap();
    assert_eq!(finding.await.unwrap().unwrap().id, id);
}
