//! Detached processes survive kill -9 of their daemon, slow readers, and connections of other users.
#![allow(clippy::unwrap_used, reason = "a failed test panics")]

mod keeper_support;

use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use bytes::Bytes;
use daemon::keeper::{KeeperSettings, Keepers};
use engine::process::{Containment, Cursor, ExitStatus, Item, LogReader, ProcessId, Signal, TerminalSize};
use keeper_support::{House, PATIENCE, attach, gather, read_until};

/// In the environment of the process that is to be killed: where it starts its keepers.
const STARTER: &str = "REXD_TEST_STARTER";

/// What every process of the starter runs: numbered lines, a pause until it is told, numbered lines again, then a
/// tree that stays.
const NUMBERS: &str = "i=0; while [ $i -lt 300 ]; do echo line $i; i=$((i+1)); done; read go; \
    while [ $i -lt 600 ]; do echo line $i; i=$((i+1)); done; read size; stty size 2>/dev/null; \
    setsid sleep 1000 & echo ready; wait";

/// Not a test by itself: the process that the next test kills.
#[tokio::test]
async fn a_starter_that_will_be_killed() {
    let Some(state) = std::env::var_os(STARTER) else { return };
    let house = House::at(state.into());
    for number in 0..10 {
        let mut spec = house.shell(NUMBERS);
        spec.terminal = (number % 2 == 1).then_some(TerminalSize { cols: 80, rows: 24 });
        let started = house.keepers().start(spec, "starter").await.unwrap();
        println!("started {}", started.id);
    }
    println!("all started");
    std::future::pending::<()>().await;
}

/// ARCHITECTURE.md, invariant 28.
#[tokio::test]
async fn ten_processes_survive_kill_nine_of_their_starter_and_every_line_is_seen_once() {
    let house = House::new();
    let ids = start_and_kill_the_starter(&house);
    // The first daemon after the crash reads some of each, and then is gone as well.
    let (keepers, mut session) = (house.keepers(), house.session());
    let mut cut = Vec::new();
    assert_eq!(keepers.list().await.len(), 10);
    for (number, id) in ids.iter().enumerate() {
        let mut attached = attach(&keepers, &mut session, id, Cursor(0)).await.unwrap();
        let mut text = String::new();
        while text.len() < 50 + number * 97 {
            match attached.reader.next(64).await {
                Item::Output { bytes, .. } => text.push_str(std::str::from_utf8(&bytes).unwrap()),
                other => panic!("{other:?}"),
            }
        }
        cut.push((text, attached.reader.cursor()));
    }
    session.close().await;
    let (keepers, mut session) = (house.keepers(), house.session());
    for (number, (id, (text, cursor))) in ids.iter().zip(cut).enumerate() {
        let has_terminal = number % 2 == 1;
        let mut attached = attach(&keepers, &mut session, id, cursor).await.unwrap();
        assert_eq!((attached.lost, attached.process.description().has_terminal), (0, has_terminal));
        // The whole line: a terminal may echo what is typed between the text of a line and its end.
        let line_end = if has_terminal { "\r\n" } else { "\n" };
        let text = text + &read_until(&mut attached.reader, &format!("line 299{line_end}")).await;
        attached.process.input(Bytes::from_static(b"go\n"), false).await.unwrap();
        let text = text + &read_until(&mut attached.reader, &format!("line 599{line_end}")).await;
        if has_terminal {
            attached.process.resize(TerminalSize { cols: 101, rows: 33 }).await.unwrap();
        }
        attached.process.input(Bytes::from_static(b"size\n"), false).await.unwrap();
        let text = text + &read_until(&mut attached.reader, "ready").await;
        assert_eq!(text.contains("33 101"), has_terminal, "{text}");
        let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("line ")).collect();
        let expected: Vec<String> = (0..600).map(|line| format!("line {line}")).collect();
        assert_eq!(lines, expected);
        let ended = attached.process.kill(Signal::KILL).await.unwrap();
        assert!(ended.killed.len() >= 2 && ended.remaining.is_empty(), "{ended:?}");
        assert_eq!(attached.process.closed().await.unwrap().exit, ExitStatus::Signal(Signal::KILL));
    }
}

/// Has another process start ten detached ones, and kills it.
fn start_and_kill_the_starter(house: &House) -> Vec<ProcessId> {
    let mut starter = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_starter_that_will_be_killed", "--nocapture"])
        .env(STARTER, house.state())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut ids = Vec::new();
    for line in BufReader::new(starter.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        // The first follows, on its line, what the test runner says.
        if let Some((_, id)) = line.split_once("started p_") {
            ids.push(ProcessId(format!("p_{id}")));
        } else if line == "all started" {
            break;
        }
    }
    starter.kill().unwrap();
    starter.wait().unwrap();
    assert_eq!(ids.len(), 10);
    ids
}

/// ARCHITECTURE.md, invariant 7.
#[tokio::test]
async fn a_keeper_that_is_killed_takes_its_tree_along() {
    for containment in [Containment::Best, Containment::Marks] {
        let house = House::new();
        let keepers = Keepers::new(KeeperSettings { containment, ..house.settings() });
        let line = "(setsid sh -c 'echo away $$ .; exec sleep 1000' &); echo leader $$ .; exec sleep 1000";
        let started = keepers.start(house.shell(line), "test").await.unwrap();
        let mut session = house.session();
        let mut attached = attach(&keepers, &mut session, &started.id, Cursor(0)).await.unwrap();
        let mut text = String::new();
        while text.matches(" .").count() < 2 {
            text.push_str(&read_until(&mut attached.reader, ".").await);
        }
        let pids = text.split_whitespace().filter_map(|word| word.parse().ok());
        let tree: Vec<_> = pids.map(testkit::proc::watch).collect();
        let guardian = testkit::proc::guardian(house.keeper_pid(&started.id));
        assert_eq!(tree.len(), 2, "{text}");
        house.kill_keeper(&started.id);
        let left = testkit::proc::survivors(&tree, Duration::from_secs(60));
        assert!(left.is_empty(), "{left:?} outlived their keeper ({containment:?})");
        assert!(guardian.ends_before(Instant::now() + Duration::from_secs(60)), "the guardian is left");
        let listed = keepers.find(&started.id).await.unwrap();
        assert_eq!(listed.facts.exited, Some(ExitStatus::Signal(Signal::KILL)));
    }
}

#[tokio::test]
async fn a_viewer_that_stops_slows_neither_the_process_nor_other_viewers() {
    let house = House::new();
    let keepers = house.keepers();
    let line =
        "i=0; while [ $i -lt 64 ]; do head -c 65536 /dev/zero | tr '\\0' x; i=$((i+1)); done; echo end";
    let started = keepers.start(house.shell(line), "test").await.unwrap();
    let mut session = house.session();
    let stopped = attach(&keepers, &mut session, &started.id, Cursor(0)).await.unwrap();
    let reading = attach(&keepers, &mut session, &started.id, Cursor(0)).await.unwrap();
    let seen = gather(reading.reader).await;
    assert_eq!((seen.stdout.len(), seen.lost), (64 * 65536 + 4, 0));
    // What the stopped one has not read is on disk, and nothing of it is lost.
    let seen = gather(stopped.reader).await;
    assert_eq!((seen.stdout.len(), seen.lost), (64 * 65536 + 4, 0));
    assert!(seen.stdout.ends_with("xend\n"));
}

#[tokio::test]
async fn two_streams_keep_their_order_on_disk() {
    let house = House::new();
    let keepers = house.keepers();
    let line = "i=0; while [ $i -lt 200 ]; do echo o$i; echo e$i >&2; i=$((i+1)); done";
    let started = keepers.start(house.shell(line), "test").await.unwrap();
    house.keeper_ends(&started.id).await;
    for from in [0, 1, 100, 777] {
        let mut session = house.session();
        let attached = attach(&keepers, &mut session, &started.id, Cursor(from)).await.unwrap();
        let seen = gather(attached.reader).await;
        assert_eq!((seen.end.0 - from, seen.lost), ((seen.stdout.len() + seen.stderr.len()) as u64, 0));
        assert!(seen.stdout.ends_with("o199\n") && seen.stderr.ends_with("e199\n"));
    }
}

/// ARCHITECTURE.md, invariant 29.
#[tokio::test]
async fn another_user_is_not_served() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let house = House::new();
    let started = house.keepers().start(house.shell("sleep 1000"), "test").await.unwrap();
    let socket = house.path(&started.id).join("socket");
    open_to_all(&socket);
    // A way in that is short enough for a socket's path.
    let short = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(house.path(&started.id), short.path().join("k")).unwrap();
    open_to_all(&short.path().join("k/socket"));
    let path = short.path().join("k/socket");
    let stranger = move || {
        let nobody = rustix::process::Uid::from_raw(65534);
        rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
        let mut connection = UnixStream::connect(path).unwrap();
        connection.set_read_timeout(Some(PATIENCE)).unwrap();
        std::io::Write::write_all(&mut connection, b"{\"type\":\"hello\",\"id\":1,\"version\":2}\n").ok();
        let mut answer = Vec::new();
        // Closed without a word, with or without a reset.
        connection.read_to_end(&mut answer).ok();
        answer
    };
    let answer = tokio::task::spawn_blocking(move || std::thread::spawn(stranger).join()).await.unwrap();
    assert_eq!(answer.unwrap(), b"");
    house.keepers().kill(&started.id, Signal::KILL).await.unwrap();
}

/// Lets everybody reach a socket, as if somebody had been careless with the directories.
fn open_to_all(socket: &std::path::Path) {
    use std::os::unix::fs::PermissionsExt as _;
    let mut path = socket.to_owned();
    while path.starts_with(std::env::temp_dir()) && path != std::env::temp_dir() {
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o777)).unwrap();
        path.pop();
    }
}

#[tokio::test]
async fn bad_peers_are_put_off_and_good_ones_served() {
    use tokio::io::AsyncWriteExt as _;
    let house = House::new();
    let keepers = house.keepers();
    let started = keepers.start(house.shell("echo well; cat"), "test").await.unwrap();
    let directory = std::fs::File::open(house.path(&started.id)).unwrap();
    let path = format!("/proc/self/fd/{}/socket", std::os::fd::AsRawFd::as_raw_fd(&directory));
    let mut bad = Vec::new();
    for text in [
        "not json\n",
        "{\"type\":\"attach\",\"id\":1,\"cursor\":0}\n",
        "{\"type\":\"hello\",\"id\":1,\"version\":0}\n",
        "",
    ] {
        for _ in 0..8 {
            let mut socket = tokio::net::UnixStream::connect(&path).await.unwrap();
            socket.write_all(text.as_bytes()).await.unwrap();
            bad.push(socket);
        }
    }
    let mut long = tokio::net::UnixStream::connect(&path).await.unwrap();
    // Cut off while it is still writing.
    long.write_all(&vec![b'a'; 8 * 1024 * 1024]).await.unwrap_err();
    let mut session = house.session();
    let mut attached = attach(&keepers, &mut session, &started.id, Cursor(0)).await.unwrap();
    read_until(&mut attached.reader, "well").await;
    attached.process.input(Bytes::new(), true).await.unwrap();
    assert_eq!(finish(attached.reader).await, ExitStatus::Code(0));
}

async fn finish(reader: LogReader) -> ExitStatus {
    gather(reader).await.closed.exit
}
