//! Keepers of protocol 3: inputs that take effect once, and the state of a terminal; and keepers and daemons that are older.
#![allow(clippy::unwrap_used, reason = "a failed test panics")]

mod keeper_support;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use bytes::Bytes;
use daemon::keeper::{InputOutcome, Keepers};
use engine::Error;
use engine::process::{Cursor, ProcessId, ProcessSpec, Signal, TerminalSize, TerminalState, TerminalWait};
use keeper_support::{House, PATIENCE, attach, gather, read_until};
use wire::keeper::{MAX_INPUT_BYTES, MAX_KEY_BYTES, Version};

/// In the environment of the process that is to be killed: the state directory and the id of the process it types into.
const TYPIST: &str = "REXD_TEST_TYPIST";

/// The inputs of the killed process and of its successors, one line each.
const LINES: usize = 200;

#[tokio::test]
async fn an_input_with_a_key_takes_effect_once_for_all_daemons() {
    let house = House::new();
    let started = house.keepers().start(house.shell("cat"), "test").await.unwrap();
    let once = async |key: &str, text: &str| {
        house.keepers().input_once(&started.id, key, text.as_bytes()).await.unwrap()
    };
    assert_eq!(once("a", "one\n").await, InputOutcome::Written);
    assert_eq!(once("a", "one\n").await, InputOutcome::Repeated);
    assert_eq!(once("b", "two\n").await, InputOutcome::Written);
    assert_eq!(once("a", "another text\n").await, InputOutcome::Repeated);
    house.keepers().input(&started.id, Bytes::from_static(b"three\n"), true).await.unwrap();
    let mut session = house.session();
    let attached = attach(&house.keepers(), &mut session, &started.id, Cursor(0)).await.unwrap();
    assert_eq!(gather(attached.reader).await.stdout, "one\ntwo\nthree\n");
}

#[tokio::test]
async fn two_daemons_with_the_same_key_at_once_type_it_once() {
    let house = House::new();
    let started = house.keepers().start(house.shell("cat"), "test").await.unwrap();
    let (first, second) = (house.keepers(), house.keepers());
    for number in 0..20 {
        let (key, text) = (format!("key {number}"), format!("{number}\n"));
        let (one, other) = tokio::join!(
            first.input_once(&started.id, &key, text.as_bytes()),
            second.input_once(&started.id, &key, text.as_bytes())
        );
        let outcomes = [one.unwrap(), other.unwrap()];
        assert!(outcomes.contains(&InputOutcome::Written), "{outcomes:?}");
        assert!(outcomes.contains(&InputOutcome::Repeated), "{outcomes:?}");
    }
    first.input(&started.id, Bytes::new(), true).await.unwrap();
    let mut session = house.session();
    let attached = attach(&first, &mut session, &started.id, Cursor(0)).await.unwrap();
    let expected: String = (0..20).map(|number| format!("{number}\n")).collect();
    assert_eq!(gather(attached.reader).await.stdout, expected);
}

#[tokio::test]
async fn a_failed_input_leaves_its_key_unused_and_limits_are_errors() {
    let house = House::new();
    let keepers = house.keepers();
    let started = keepers.start(house.shell("exec sleep 1000"), "test").await.unwrap();
    keepers.input(&started.id, Bytes::new(), true).await.unwrap();
    for _ in 0..2 {
        let failed = keepers.input_once(&started.id, "a", b"text\n").await;
        assert!(matches!(failed, Err(Error::InputClosed)), "{failed:?}");
    }
    let long_key = "k".repeat(MAX_KEY_BYTES + 1);
    let refused = keepers.input_once(&started.id, &long_key, b"text\n").await;
    assert!(matches!(refused, Err(Error::LimitReached { .. })), "{refused:?}");
    let refused = keepers.input_once(&started.id, "b", &vec![b'a'; MAX_INPUT_BYTES + 1]).await;
    assert!(matches!(refused, Err(Error::LimitReached { .. })), "{refused:?}");
    keepers.kill(&started.id, Signal::KILL).await.unwrap();
    house.keeper_ends(&started.id).await;
    let ended = keepers.input_once(&started.id, "c", b"text\n").await;
    assert!(matches!(ended, Err(Error::Gone)), "{ended:?}");
    assert!(matches!(keepers.terminal_state(&started.id).await, Err(Error::Gone)));
}

/// Not a test by itself: the process that the next test kills.
#[tokio::test]
async fn a_typist_that_will_be_killed() {
    let Ok(typist) = std::env::var(TYPIST) else { return };
    let (state, id) = typist.rsplit_once(':').unwrap();
    let id = ProcessId(id.to_owned());
    // Not dropped: that would end the keeper, after the last line or when the output is closed before the kill.
    let house = std::mem::ManuallyDrop::new(House::at(state.into()));
    for number in 0..LINES {
        house.keepers().input_once(&id, &number.to_string(), format!("{number}\n").as_bytes()).await.unwrap();
        println!("\ntyped {number}");
    }
}

/// ARCHITECTURE.md, invariant 28.
#[tokio::test]
async fn inputs_take_effect_once_although_their_daemon_is_killed_between_write_and_answer() {
    let house = House::new();
    let keepers = house.keepers();
    let started = keepers.start(house.shell("cat"), "test").await.unwrap();
    for kills in 1..=4 {
        let mut typist = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "a_typist_that_will_be_killed", "--nocapture"])
            .env(TYPIST, format!("{}:{}", house.state().display(), started.id))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let seen = BufReader::new(typist.stdout.take().unwrap()).lines();
        let typed = seen.map(|line| line.unwrap()).filter(|line| line.starts_with("typed "));
        assert_eq!(typed.take(kills * LINES / 8).count(), kills * LINES / 8);
        // It is in the middle of a later input.
        typist.kill().unwrap();
        typist.wait().unwrap();
    }
    for number in 0..LINES {
        keepers.input_once(&started.id, &number.to_string(), format!("{number}\n").as_bytes()).await.unwrap();
    }
    keepers.input(&started.id, Bytes::new(), true).await.unwrap();
    let mut session = house.session();
    let attached = attach(&keepers, &mut session, &started.id, Cursor(0)).await.unwrap();
    let expected: String = (0..LINES).map(|number| format!("{number}\n")).collect();
    assert_eq!(gather(attached.reader).await.stdout, expected);
}

#[tokio::test]
async fn an_input_whose_answer_was_never_read_is_known() {
    let house = House::new();
    let keepers = house.keepers();
    let started = keepers.start(house.shell("cat"), "test").await.unwrap();
    let mut session = house.session();
    let mut attached = attach(&keepers, &mut session, &started.id, Cursor(0)).await.unwrap();
    let mut daemon = RawDaemon::connect(&house, &started.id);
    assert_eq!(daemon.ask(r#"{"type":"hello","id":1,"version":3}"#)["version"], 3);
    daemon.send(r#"{"type":"input","id":2,"data":"b25jZQo=","key":"k"}"#);
    drop(daemon);
    read_until(&mut attached.reader, "once\n").await;
    assert_eq!(keepers.input_once(&started.id, "k", b"once\n").await.unwrap(), InputOutcome::Repeated);
    keepers.input(&started.id, Bytes::new(), true).await.unwrap();
    assert_eq!(gather(attached.reader).await.stdout, "");
}

#[tokio::test]
async fn the_state_of_a_terminal_shows_echo_size_and_who_reads() {
    let house = House::new();
    let keepers = house.keepers();
    let (read, poll, elsewhere) = (TerminalWait::Read, TerminalWait::Poll, TerminalWait::Elsewhere);
    let select = "import select, sys; print('ready', end='', flush=True); select.select([sys.stdin], [], [])";
    let polled =
        "import select; p = select.poll(); p.register(0, 1); print('ready', end='', flush=True); p.poll()";
    let epoll =
        "import select; p = select.epoll(); p.register(0, 1); print('ready', end='', flush=True); p.poll()";
    for (argv, echoes, is_canonical, wait) in [
        (["bash", "-c", "read -p ready line"], true, true, read),
        (["bash", "-c", "read -s -p ready line"], false, true, read),
        (["bash", "-c", "read -n 1 -p ready key"], true, false, read),
        (["bash", "-c", "exec 5</dev/tty; read -u 5 -p ready line"], true, true, read),
        (["bash", "-c", "echo ready; exec sleep 1000"], true, true, elsewhere),
        (["bash", "-c", "echo ready; sleep 1000 | cat"], true, true, elsewhere),
        (["bash", "-c", "set -m; sleep 1000 & printf ready; read line"], true, true, read),
        (["python3", "-c", select], true, true, poll),
        (["python3", "-c", polled], true, true, poll),
        (["python3", "-c", epoll], true, true, poll),
    ] {
        let started = keepers.start(terminal(house.argv(&argv)), "test").await.unwrap();
        let mut session = house.session();
        let mut attached = attach(&keepers, &mut session, &started.id, Cursor(0)).await.unwrap();
        read_until(&mut attached.reader, "ready").await;
        let expected = TerminalState {
            size: TerminalSize { cols: 80, rows: 24 },
            echoes,
            is_canonical,
            wait: Some(wait),
        };
        becomes(&keepers, &started.id, &format!("{argv:?}"), |state| state == expected).await;
        // The same through the handle of a session.
        assert_eq!(attached.process.terminal_state().await.unwrap(), expected);
        keepers.kill(&started.id, Signal::KILL).await.unwrap();
    }
}

#[tokio::test]
async fn the_size_of_a_terminal_is_known_while_it_runs_and_after_its_end() {
    let house = House::new();
    let keepers = house.keepers();
    let started = keepers.start(terminal(house.shell("read line")), "test").await.unwrap();
    let at_start = keepers.find(&started.id).await.unwrap().terminal_size;
    assert_eq!(at_start, Some(TerminalSize { cols: 80, rows: 24 }));
    keepers.resize(&started.id, TerminalSize { cols: 132, rows: 0 }).await.unwrap();
    let size = keepers.terminal_state(&started.id).await.unwrap().size;
    assert_eq!(size, TerminalSize { cols: 132, rows: 24 });
    keepers.input(&started.id, Bytes::from_static(b"\n"), false).await.unwrap();
    house.keeper_ends(&started.id).await;
    assert_eq!(keepers.find(&started.id).await.unwrap().terminal_size, Some(size));
    let piped = keepers.start(house.shell("cat"), "test").await.unwrap();
    assert_eq!(keepers.find(&piped.id).await.unwrap().terminal_size, None);
    assert!(matches!(keepers.terminal_state(&piped.id).await, Err(Error::Gone)));
}

/// ARCHITECTURE.md, invariant 29.
#[tokio::test]
async fn a_keeper_of_the_second_protocol_is_used_without_keys_and_terminal_state() {
    let house = House::new();
    let mut old = house.settings();
    old.protocol = Version::V2;
    let spec = terminal(house.shell("stty -echo; echo old; cat"));
    let started = Keepers::new(old).start(spec, "test").await.unwrap();
    assert!(house.read(&started.id, "record.json").contains("\"protocol\":2"));
    let (keepers, mut session) = (house.keepers(), house.session());
    let mut attached = attach(&keepers, &mut session, &started.id, Cursor(0)).await.unwrap();
    read_until(&mut attached.reader, "old\r\n").await;
    let refused = keepers.input_once(&started.id, "k", b"not typed\n").await.unwrap_err();
    assert!(matches!(refused, Error::Unsupported { what: "input with a key", .. }), "{refused:?}");
    let refused = keepers.terminal_state(&started.id).await.unwrap_err();
    assert!(matches!(refused, Error::Unsupported { what: "the state of the terminal", .. }), "{refused:?}");
    attached.process.input(Bytes::from_static(b"typed\n"), false).await.unwrap();
    assert_eq!(read_until(&mut attached.reader, "typed\r\n").await, "typed\r\n");
    attached.process.resize(TerminalSize { cols: 100, rows: 30 }).await.unwrap();
    attached.process.kill(Signal::KILL).await.unwrap();
}

/// ARCHITECTURE.md, invariant 29.
#[tokio::test]
async fn a_daemon_of_the_second_protocol_uses_a_new_keeper() {
    let house = House::new();
    let keepers = house.keepers();
    let started = keepers.start(house.shell("read line; echo \"got $line\""), "test").await.unwrap();
    // The keeper ends with the process, so the reader attaches before the input.
    let [mut reader, mut daemon] = [0, 1].map(|_| RawDaemon::connect(&house, &started.id));
    for connection in [&mut reader, &mut daemon] {
        assert_eq!(connection.ask(r#"{"type":"hello","id":1,"version":2}"#)["version"], 2);
    }
    assert_eq!(reader.ask(r#"{"type":"attach","id":3,"cursor":0}"#)["id"], 3);
    let accepted = daemon.ask(r#"{"type":"input","id":2,"data":"aGkK","eof":false}"#);
    assert_eq!(accepted, serde_json::json!({ "type": "accepted", "id": 2, "bytes": 3 }));
    let mut log = String::new();
    reader.socket.read_to_string(&mut log).unwrap();
    assert!(log.contains("\"bytes\":7}\ngot hi\n"), "{log}");
}

fn terminal(mut spec: ProcessSpec) -> ProcessSpec {
    spec.terminal = Some(TerminalSize { cols: 80, rows: 24 });
    spec
}

/// Asks for the state of a terminal until it is so: a program that has printed its prompt reads a moment later.
async fn becomes(keepers: &Keepers, id: &ProcessId, what: &str, is_so: impl Fn(TerminalState) -> bool) {
    let mut ticks = tokio::time::interval(Duration::from_millis(5));
    let deadline = Instant::now() + PATIENCE;
    loop {
        let state = keepers.terminal_state(id).await.unwrap();
        if is_so(state) {
            return;
        }
        assert!(Instant::now() < deadline, "{what}: {state:?}");
        ticks.tick().await;
    }
}

/// A daemon that writes its own lines.
struct RawDaemon {
    socket: UnixStream,
}

impl RawDaemon {
    fn connect(house: &House, id: &ProcessId) -> RawDaemon {
        let directory = std::fs::File::open(house.path(id)).unwrap();
        let path = format!("/proc/self/fd/{}/socket", directory.as_raw_fd());
        let socket = UnixStream::connect(path).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        RawDaemon { socket }
    }

    fn send(&mut self, line: &str) {
        self.socket.write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    fn ask(&mut self, line: &str) -> serde_json::Value {
        self.send(line);
        let mut answer = Vec::new();
        let mut byte = [0];
        while byte != *b"\n" {
            self.socket.read_exact(&mut byte).unwrap();
            answer.push(byte[0]);
        }
        serde_json::from_slice(&answer).unwrap()
    }
}
