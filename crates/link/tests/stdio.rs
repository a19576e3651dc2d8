//! Descriptors as a link: real pipes, sockets, terminals, files and `/dev/null`.
#![expect(clippy::unwrap_used, reason = "a failed test panics")]

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

use bytes::Bytes;
use link::rpc::{Requests, RpcLimits};
use link::{Incoming, Limits, stdio};
use rustix::fs::{OFlags, fcntl_getfl};

fn pipe() -> (OwnedFd, OwnedFd) {
    rustix::pipe::pipe().unwrap()
}

fn is_nonblocking(descriptor: impl AsFd) -> bool {
    fcntl_getfl(descriptor).unwrap().contains(OFlags::NONBLOCK)
}

#[tokio::test]
async fn a_request_over_pipes_is_answered_and_the_pipes_stay_blocking_for_others() {
    let ((input, to_input), (from_output, output)) = (pipe(), pipe());
    let link = stdio::over(input.as_fd(), output.as_fd(), &Limits::default()).unwrap();
    assert!(!is_nonblocking(&input) && !is_nonblocking(&output));
    let client = tokio::task::spawn_blocking(move || {
        let mut to = File::from(to_input);
        to.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":1,").unwrap();
        to.write_all(b"\"method\":\"a\"}\r\n\r\n{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"b\"}").unwrap();
        drop(to);
        let mut text = String::new();
        File::from(from_output).read_to_string(&mut text).unwrap();
        text
    });
    let mut requests = Requests::new(link.incoming, link.outgoing, RpcLimits::default());
    while let Some(request) = requests.next().await {
        let method = request.method.clone();
        request.reply.ok(method).await;
    }
    drop(requests);
    link.writing.finished().await.unwrap();
    drop((input, output));
    let expected =
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\"a\"}\n{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":\"b\"}\n";
    assert_eq!(client.await.unwrap(), expected);
}

#[tokio::test]
async fn bulk_output_grows_the_pipe_and_arrives_whole() {
    let ((input, _to_input), (from_output, output)) = (pipe(), pipe());
    let link = stdio::over(input.as_fd(), output.as_fd(), &Limits::default()).unwrap();
    let before = rustix::pipe::fcntl_getpipe_size(&output).unwrap();
    let line = Bytes::from(vec![b'x'; 300_000]);
    let size = std::thread::spawn({
        let probe = output.try_clone().unwrap();
        move || {
            let mut file = File::from(from_output);
            let mut total = 0;
            let mut buffer = vec![0; 10_000];
            while total < 300_001 * 20 {
                total += file.read(&mut buffer).unwrap();
            }
            (total, rustix::pipe::fcntl_getpipe_size(&probe).unwrap())
        }
    });
    for _ in 0..20 {
        link.outgoing.event(line.clone()).await.unwrap();
    }
    link.outgoing.flush().await.unwrap();
    let (total, after) = size.join().unwrap();
    assert_eq!(total, 300_001 * 20);
    // An unprivileged user over its quota may not grow pipes; then it only has to arrive.
    assert!(after >= before);
}

#[tokio::test]
async fn a_socket_for_both_directions_works_and_gets_its_flags_back() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let second = ours.try_clone().unwrap();
    {
        let mut link = stdio::over(ours.as_fd(), second.as_fd(), &Limits::default()).unwrap();
        assert!(is_nonblocking(&ours));
        (&theirs).write_all(b"hello\n").unwrap();
        assert_eq!(link.incoming.recv().await, Some(Incoming::Message(Bytes::from_static(b"hello"))));
        link.outgoing.respond_written(Bytes::from_static(b"back")).await.unwrap();
        let mut line = [0; 5];
        (&theirs).read_exact(&mut line).unwrap();
        assert_eq!(&line, b"back\n");
        drop((link.incoming, link.outgoing));
        link.writing.finished().await.unwrap();
    }
    assert!(!is_nonblocking(&ours) && !is_nonblocking(&second));
}

#[tokio::test]
async fn files_and_dev_null_are_read_and_written_in_place() {
    let mut input = tempfile::tempfile().unwrap();
    input.write_all(b"one\ntwo").unwrap();
    std::io::Seek::rewind(&mut input).unwrap();
    let mut output = tempfile::tempfile().unwrap();
    let mut link = stdio::over(input.as_fd(), output.as_fd(), &Limits::default()).unwrap();
    for expected in ["one", "two"] {
        assert_eq!(link.incoming.recv().await, Some(Incoming::Message(Bytes::from(expected))));
    }
    assert_eq!(link.incoming.recv().await, None);
    link.outgoing.respond_written(Bytes::from_static(b"answer")).await.unwrap();
    let mut text = String::new();
    std::io::Seek::rewind(&mut output).unwrap();
    output.read_to_string(&mut text).unwrap();
    assert_eq!(text, "answer\n");

    let null = File::options().read(true).write(true).open("/dev/null").unwrap();
    let mut link = stdio::over(null.as_fd(), null.as_fd(), &Limits::default()).unwrap();
    assert_eq!(link.incoming.recv().await, None);
    link.outgoing.respond_written(Bytes::from_static(b"gone")).await.unwrap();
}

#[tokio::test]
async fn a_terminal_is_opened_again_and_stays_blocking_for_the_shell() {
    let flags = rustix::pty::OpenptFlags::RDWR | rustix::pty::OpenptFlags::NOCTTY;
    let controller = rustix::pty::openpt(flags).unwrap();
    rustix::pty::grantpt(&controller).unwrap();
    rustix::pty::unlockpt(&controller).unwrap();
    let name = rustix::pty::ptsname(&controller, Vec::new()).unwrap();
    let terminal = rustix::fs::open(&name, OFlags::RDWR | OFlags::NOCTTY, rustix::fs::Mode::empty()).unwrap();
    let mut link = stdio::over(terminal.as_fd(), terminal.as_fd(), &Limits::default()).unwrap();
    assert!(!is_nonblocking(&terminal));
    rustix::io::write(&controller, b"typed\n").unwrap();
    assert_eq!(link.incoming.recv().await, Some(Incoming::Message(Bytes::from_static(b"typed"))));
    link.outgoing.respond_written(Bytes::from_static(b"shown")).await.unwrap();
}

#[tokio::test]
async fn a_reader_that_went_away_closes_the_link_without_a_signal() {
    let ((input, _to_input), (from_output, output)) = (pipe(), pipe());
    let link = stdio::over(input.as_fd(), output.as_fd(), &Limits::default()).unwrap();
    drop(from_output);
    assert!(link.outgoing.respond_written(Bytes::from_static(b"x")).await.is_err());
    assert_eq!(link.writing.finished().await.unwrap_err().kind(), std::io::ErrorKind::BrokenPipe);
}

#[tokio::test]
async fn the_first_line_can_be_looked_at_and_is_still_there() {
    let long = "x".repeat(100);
    for (text, shown, messages) in [
        ("", None, vec![]),
        (" \r\n\n", None, vec![]),
        ("\n one \r\ntwo\n", Some("one"), vec![" one ", "two"]),
        ("no end", Some("no end"), vec!["no end"]),
        (&format!("{long}\nshort\n"), None, vec![long.as_str(), "short"]),
    ] {
        let ((input, to_input), (_from_output, output)) = (pipe(), pipe());
        File::from(to_input).write_all(text.as_bytes()).unwrap();
        let mut streams = stdio::Streams::over(input.as_fd(), output.as_fd()).unwrap();
        for _ in 0..2 {
            let first = streams.first_line(50).await;
            assert_eq!(first.map(|line| std::str::from_utf8(line).unwrap()), shown, "{text:?}");
        }
        let mut incoming = streams.into_link(&Limits::default()).incoming;
        let mut found = Vec::new();
        while let Some(Incoming::Message(line)) = incoming.recv().await {
            found.push(String::from_utf8(line.to_vec()).unwrap());
        }
        assert_eq!(found, messages, "{text:?}");
    }
}

#[tokio::test]
async fn a_line_that_was_looked_at_can_be_dropped() {
    let ((input, to_input), (_from_output, output)) = (pipe(), pipe());
    File::from(to_input).write_all(b"\none\ntwo\n").unwrap();
    let mut streams = stdio::Streams::over(input.as_fd(), output.as_fd()).unwrap();
    assert!(streams.first_line(50).await.is_some());
    streams.skip_line();
    assert_eq!(streams.first_line(50).await, Some(&b"two"[..]));
    assert_eq!(&streams.into_parts().read[..], b"two\n");
}
