//! Input and output of a process, its status, environment, directory and terminal.

mod support;

use bytes::Bytes;
use engine::Error;
use engine::limits::OnOutputLimit;
use engine::process::{
    Containment, Cursor, ExitCause, ExitStatus, Item, OutputLimit, Signal, Stdin, TerminalSize,
};
use std::time::Duration;
use support::{argv, engine, gather, read_until, run, shell};

/// ARCHITECTURE.md, invariant 9.
#[tokio::test]
async fn output_arrives_as_it_was_written_on_the_stream_it_was_written_to() {
    let mut session = engine(Containment::Best).open_session().unwrap();
    let result = run(&mut session, shell(r"printf 'a\r\nb\0c'; printf 'oops' >&2; exit 3")).await;
    assert_eq!(result.stdout, b"a\r\nb\0c");
    assert_eq!(result.stderr, b"oops");
    assert_eq!(result.closed.exit, ExitStatus::Code(3));
    assert_eq!((result.closed.stdout_bytes, result.closed.stderr_bytes), (6, 4));
    assert_eq!(result.closed.cause, ExitCause::Itself);
    session.close().await;
}

#[tokio::test]
async fn merged_streams_keep_the_order_in_which_they_were_written() {
    let mut session = engine(Containment::Best).open_session().unwrap();
    let line = "i=0; while [ $i -lt 500 ]; do echo out $i; echo err $i >&2; i=$((i+1)); done";
    let expected: String = (0..500).map(|i| format!("out {i}\nerr {i}\n")).collect();
    let spec = engine::process::ProcessSpec { merges_stderr: true, ..shell(line) };
    let result = run(&mut session, spec).await;
    assert_eq!(result.text(), expected);
    assert_eq!((result.closed.stdout_bytes, result.closed.stderr_bytes), (expected.len() as u64, 0));
}

#[tokio::test]
async fn a_program_that_cannot_be_started_returns_the_reason() {
    let mut session = engine(Containment::Best).open_session().unwrap();
    for (program, kind) in [
        ("/nowhere/x", "no such file"),
        ("no-such-program", "no such file"),
        ("/etc/passwd", "permission denied"),
        ("", "no such file"),
    ] {
        let error = session.start(argv(&[program])).unwrap().running().await.unwrap_err();
        assert!(matches!(error, Error::Spawn { .. }), "{program}: {error}");
        assert!(error.to_string().contains(kind), "{program}: {error}");
    }
    session.close().await;
}

#[tokio::test]
async fn a_script_without_an_interpreter_line_runs_in_the_shell() {
    let directory = tempfile::tempdir().unwrap();
    let script = directory.path().join("script");
    std::fs::write(&script, "echo \"$1 from a script\"\n").unwrap();
    std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let mut session = engine(Containment::Best).open_session().unwrap();
    let result = run(&mut session, argv(&[script.to_str().unwrap(), "hello"])).await;
    assert_eq!(result.text(), "hello from a script\n");
}

#[tokio::test]
async fn input_reaches_the_program_and_ends_at_eof() {
    let mut session = engine(Containment::Best).open_session().unwrap();
    let process = session.start(argv(&["cat"])).unwrap().running().await.unwrap();
    assert_eq!(process.input(Bytes::from_static(b"one "), false).await.unwrap(), 4);
    assert_eq!(process.input(Bytes::from_static(b"two"), true).await.unwrap(), 3);
    assert!(matches!(
        process.input(Bytes::from_static(b"late"), false).await,
        Err(Error::InputClosed | Error::Gone)
    ));
    assert_eq!(gather(&process).await.text(), "one two");
    let given = support::argv(&["cat"]);
    let given =
        engine::process::ProcessSpec { stdin: Stdin::Given(Bytes::from(vec![b'x'; 300_000])), ..given };
    assert_eq!(run(&mut session, given).await.stdout.len(), 300_000);
}

/// ARCHITECTURE.md, invariant 15.
#[tokio::test]
async fn a_program_that_does_not_read_its_input_delays_no_other() {
    let mut session = engine(Containment::Best).open_session().unwrap();
    let process = session.start(argv(&["sleep", "1000"])).unwrap().running().await.unwrap();
    let flood = process.clone();
    let flooding =
        tokio::spawn(async move { while flood.input(Bytes::from(vec![0; 65536]), false).await.is_ok() {} });
    let ended = process.kill(Signal::TERM).await.unwrap();
    assert_eq!(ended.killed.len(), 1);
    assert_eq!(gather(&process).await.closed.exit, ExitStatus::Signal(Signal::TERM));
    flooding.await.unwrap();
}

#[tokio::test]
async fn a_child_inherits_no_descriptor_and_no_signal_setting() {
    let leaked = std::fs::File::open("/dev/null").unwrap();
    rustix::io::fcntl_setfd(&leaked, rustix::io::FdFlags::empty()).unwrap();
    let mut session = engine(Containment::Best).open_session().unwrap();
    let fds =
        run(&mut session, shell("ls /proc/self/fd | tr '\\n' ' '; grep -E 'Sig(Blk|Ign)' /proc/self/status"))
            .await;
    assert!(fds.text().starts_with("0 1 2 3 "), "{}", fds.text());
    assert!(!fds.text().starts_with("0 1 2 3 4"), "{}", fds.text());
    assert_eq!(fds.text().matches("0000000000000000").count(), 2, "{}", fds.text());
}

#[tokio::test]
async fn time_is_up_for_the_whole_tree() {
    for containment in [Containment::Best, Containment::Marks] {
        let mut session = engine(containment).open_session().unwrap();
        let mut spec = shell("trap '' TERM; sleep 1000 & sleep 1000");
        spec.stop_after = Some(Duration::from_millis(100));
        let result = run(&mut session, spec).await;
        assert_eq!(result.closed.cause, ExitCause::TimedOut);
        session.close().await;
    }
}

#[tokio::test]
async fn output_stops_exactly_at_its_limit() {
    let mut session = engine(Containment::Best).open_session().unwrap();
    let mut spec = shell("yes");
    spec.output_limit = Some(OutputLimit { bytes: 100_001, then: OnOutputLimit::Kill });
    let result = run(&mut session, spec).await;
    assert_eq!(result.stdout.len(), 100_001);
    assert_eq!(result.closed.cause, ExitCause::OutputLimit);
    let mut spec = shell("head -c 200000 /dev/zero; exit 7");
    spec.output_limit = Some(OutputLimit { bytes: 1000, then: OnOutputLimit::Truncate });
    let result = run(&mut session, spec).await;
    assert_eq!((result.stdout.len(), result.closed.exit), (1000, ExitStatus::Code(7)));
    assert_eq!(result.closed.truncated_bytes, 199_000);
}

#[tokio::test]
async fn a_terminal_has_its_size_from_the_start_and_can_be_resized() {
    let mut session = engine(Containment::Best).open_session().unwrap();
    let mut spec = shell(
        "stty size; trap 'stty size' WINCH; echo ready; while :; do read -r line && echo \"got $line\"; done",
    );
    spec.terminal = Some(TerminalSize { cols: 91, rows: 17 });
    let process = session.start(spec).unwrap().running().await.unwrap();
    let mut reader = process.primary_reader(Cursor(0));
    let text = read_until(&mut reader, "ready").await;
    assert!(text.contains("17 91"), "{text:?}");
    process.resize(TerminalSize { cols: 40, rows: 10 }).await.unwrap();
    process.input(Bytes::from_static(b"hello\n"), false).await.unwrap();
    let text = read_until(&mut reader, "got hello").await;
    process.input(Bytes::from_static(b"\n"), false).await.unwrap();
    let text = if text.contains("10 40") { text } else { read_until(&mut reader, "10 40").await };
    assert!(text.contains("10 40"), "{text:?}");
    process.kill(Signal::KILL).await.unwrap();
    loop {
        if let Item::Closed(closed) = reader.next(usize::MAX).await {
            assert_eq!(closed.exit, ExitStatus::Signal(Signal::KILL));
            break;
        }
    }
}

/// A program that writes bytes like the beginning of a character and then waits for an answer.
#[tokio::test]
async fn the_last_bytes_arrive_although_the_program_writes_nothing_more() {
    let mut session = engine(Containment::Best).open_session().unwrap();
    for is_text in [true, false] {
        for has_terminal in [false, true] {
            let mut spec =
                shell(r"stty raw -echo 2>/dev/null; printf 'abc\334'; read -r answer; printf \\234");
            spec.is_text = is_text;
            spec.terminal = has_terminal.then_some(TerminalSize { cols: 80, rows: 24 });
            let process = session.start(spec).unwrap().running().await.unwrap();
            let mut reader = process.primary_reader(Cursor(0));
            let mut seen = Vec::new();
            let reading = async {
                while seen.len() < 4 {
                    let Item::Output { bytes, .. } = reader.next(usize::MAX).await else {
                        panic!("no output")
                    };
                    seen.extend_from_slice(&bytes);
                }
            };
            let case = format!("is_text {is_text}, has_terminal {has_terminal}");
            tokio::time::timeout(Duration::from_secs(60), reading).await.expect(&case);
            assert_eq!(seen, b"abc\xdc", "{case}");
            process.input(Bytes::from_static(b"go on\n"), false).await.unwrap();
            let Item::Output { bytes, .. } = reader.next(usize::MAX).await else { panic!("no output") };
            assert_eq!(&bytes[..], b"\x9c", "{case}");
        }
    }
    session.close().await;
}
