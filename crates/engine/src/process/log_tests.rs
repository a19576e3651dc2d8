//! What the log promises its readers, with nothing but the log.

use super::*;
use crate::process::text::incomplete_tail;

fn look(log: &OutputLog, cursor: Cursor, max: usize) -> Found {
    log.look(Position { cursor, is_past_exit: false }, max)
}

fn text(found: Found) -> (String, u64) {
    match found {
        Found::Output { bytes, next, .. } => (String::from_utf8(bytes.to_vec()).unwrap(), next.0),
        other => panic!("expected output, found {other:?}"),
    }
}

/// ARCHITECTURE.md, invariant 9.
#[test]
fn a_reader_continues_in_the_middle_of_a_chunk() {
    let log = OutputLog::new(1024);
    log.push(Stream::Stdout, Bytes::from_static(b"hello "));
    log.push(Stream::Stderr, Bytes::from_static(b"world"));
    assert_eq!(text(look(&log, Cursor(2), 100)), ("llo ".to_owned(), 6));
    assert_eq!(text(look(&log, Cursor(6), 3)), ("wor".to_owned(), 9));
    assert!(matches!(look(&log, Cursor(11), 1), Found::Nothing));
}

#[test]
fn many_small_writes_are_read_in_few_chunks() {
    let log = OutputLog::new(4 * 1024 * 1024);
    for _ in 0..10_000 {
        log.push(Stream::Stdout, Bytes::from_static(b"line\n"));
    }
    log.push(Stream::Stderr, Bytes::from_static(b"oops"));
    let (mut at, mut pieces, mut all) = (Cursor(0), 0, String::new());
    while let Found::Output { bytes, next, stream } = look(&log, at, usize::MAX) {
        assert_eq!(stream == Stream::Stderr, &bytes[..] == b"oops");
        all.push_str(std::str::from_utf8(&bytes).unwrap());
        (at, pieces) = (next, pieces + 1);
    }
    assert_eq!(all, "line\n".repeat(10_000) + "oops");
    assert!(pieces < 10, "{pieces} pieces");
}

/// ARCHITECTURE.md, invariant 11.
#[test]
fn a_slow_reader_learns_what_it_lost() {
    let log = OutputLog::new(4);
    log.push(Stream::Stdout, Bytes::from_static(b"abcd"));
    log.push(Stream::Stdout, Bytes::from_static(b"efgh"));
    assert!(matches!(look(&log, Cursor(1), 9), Found::Lost { bytes: 3, next: Cursor(4) }));
    assert_eq!(text(look(&log, Cursor(4), 9)), ("efgh".to_owned(), 8));
}

#[test]
fn lost_output_is_reported_at_its_position() {
    let log = OutputLog::starting_at(Cursor(10), 1024);
    assert!(matches!(look(&log, Cursor(3), 9), Found::Lost { bytes: 7, next: Cursor(10) }));
    assert!(matches!(look(&log, Cursor(10), 9), Found::Nothing));
    log.push(Stream::Stdout, Bytes::from_static(b"ab"));
    log.skip_to(Cursor(20));
    assert_eq!(text(look(&log, Cursor(10), 9)), ("ab".to_owned(), 12));
    assert!(matches!(look(&log, Cursor(12), 9), Found::Lost { bytes: 8, next: Cursor(20) }));
    log.push(Stream::Stdout, Bytes::from_static(b"cd"));
    log.skip_to(Cursor(15));
    assert_eq!(text(look(&log, Cursor(10), 9)), ("ab".to_owned(), 12), "not joined across the gap");
    assert!(matches!(look(&log, Cursor(12), 9), Found::Lost { bytes: 8, next: Cursor(20) }));
    assert_eq!(text(look(&log, Cursor(20), 9)), ("cd".to_owned(), 22));
    assert_eq!(log.state().borrow().end, Cursor(22));
    log.push_at(Cursor(20), Stream::Stdout, Bytes::from_static(b"cdef"));
    assert_eq!(text(look(&log, Cursor(20), 9)), ("cdef".to_owned(), 24), "nothing twice");
    log.push_at(Cursor(u64::MAX), Stream::Stdout, Bytes::from_static(b"beyond"));
    assert_eq!(log.state().borrow().end, Cursor(24));
}

#[test]
fn a_log_of_single_bytes_costs_no_more_than_it_may() {
    let log = OutputLog::new(64 * 1024);
    for _ in 0..64 * 1024 {
        log.push(Stream::Stdout, Bytes::from_static(b"a"));
    }
    assert!(log.held().chunks.len() < 1024, "{} chunks", log.held().chunks.len());
    assert!(matches!(look(&log, Cursor(0), 9), Found::Lost { .. }));
}

#[test]
fn a_reader_that_was_replaced_takes_nothing_with_it() {
    let log = OutputLog::new(4);
    let old = log.claim(Cursor(0));
    let new = log.claim(Cursor(0));
    log.release(old);
    log.push(Stream::Stdout, Bytes::from_static(b"abcd"));
    assert_eq!(log.capacity(), Capacity::Full, "the new one is still waited for");
    log.release(new);
    assert_eq!(log.capacity(), Capacity::Available);
}

/// ARCHITECTURE.md, invariant 10.
#[test]
fn nothing_is_dropped_that_the_primary_reader_waits_for() {
    let log = OutputLog::new(4);
    let claim = log.claim(Cursor(0));
    log.push(Stream::Stdout, Bytes::from_static(b"abcd"));
    assert_eq!(log.capacity(), Capacity::Full);
    log.push(Stream::Stdout, Bytes::from_static(b"efgh"));
    assert_eq!(text(look(&log, Cursor(0), 4)), ("abcd".to_owned(), 4));
    log.take(claim, Cursor(4));
    assert_eq!(log.capacity(), Capacity::Available);
    log.release(claim);
    assert_eq!(log.capacity(), Capacity::Available);
}

/// What a reader receives from `cursor` on, in pieces of at most `max` bytes.
fn read_from(log: &OutputLog, cursor: u64, max: usize) -> String {
    let mut position = Position { cursor: Cursor(cursor), is_past_exit: false };
    let mut seen = Vec::new();
    loop {
        match log.look(position, max) {
            Found::Output { bytes, next, .. } => {
                seen.push(String::from_utf8(bytes.to_vec()).unwrap());
                position.cursor = next;
            }
            Found::Spilled(spilled) => {
                let (_, bytes, next) = spilled.load().unwrap();
                seen.push(String::from_utf8(bytes.to_vec()).unwrap());
                position.cursor = next;
            }
            Found::Lost { bytes, next } => {
                seen.push(format!("lost {bytes}"));
                position.cursor = next;
            }
            Found::Exited(exit) => {
                seen.push(format!("{:?}", exit.status));
                position.is_past_exit = true;
            }
            Found::Closed(_) => seen.push("closed".to_owned()),
            Found::Disconnected | Found::Nothing => {}
        }
        if position.cursor.0 >= log.held().end && (position.is_past_exit || log.held().exit.is_none()) {
            return seen.join(" ");
        }
    }
}

#[test]
fn the_exit_is_read_between_the_output_before_and_after_it_from_every_cursor() {
    let log = OutputLog::new(1024);
    log.push(Stream::Stdout, Bytes::from_static(b"abc"));
    log.append_exit(ExitStatus::Code(3), false);
    log.push(Stream::Stdout, Bytes::from_static(b"def"));
    assert_eq!(read_from(&log, 0, 100), "abc Code(3) def");
    assert_eq!(read_from(&log, 1, 1), "b c Code(3) d e f");
    assert_eq!(read_from(&log, 3, 100), "Code(3) def");
    assert_eq!(read_from(&log, 4, 100), "Code(3) ef", "who starts behind it receives it first");
    log.append_exit(ExitStatus::Code(4), false);
    assert_eq!(read_from(&log, 6, 100), "Code(3)", "there is one exit");
}

#[test]
fn the_exit_is_read_in_its_place_from_disk_and_after_a_loss() {
    let log = OutputLog::new(1024);
    let claim = log.claim(Cursor(0));
    log.push(Stream::Stdout, Bytes::from_static(b"abc"));
    log.append_exit(ExitStatus::Code(3), false);
    log.push(Stream::Stdout, Bytes::from_static(b"def"));
    log.push(Stream::Stdout, Bytes::from_static(b"ghi"));
    for _ in 0..2 {
        let (start, stream, bytes) = log.oldest().unwrap();
        let mut spill = log.spill(|| Spill::create(&std::env::temp_dir())).unwrap();
        spill.append(start, stream, &bytes).unwrap();
        log.moved_to_disk(start, spill);
    }
    assert_eq!(read_from(&log, 0, 100), "abc Code(3) def ghi");
    assert_eq!(read_from(&log, 4, 100), "Code(3) ef ghi");
    log.take(claim, Cursor(5));
    assert_eq!(read_from(&log, 0, 100), "lost 5 Code(3) f ghi");
    log.forget();
    assert_eq!(read_from(&log, 0, 100), "lost 9 Code(3)");
}

/// ARCHITECTURE.md, invariant 12.
#[test]
fn a_cut_never_splits_a_character() {
    let bytes = Bytes::from("aé€😀");
    for max in 1..bytes.len() {
        let cut = cut_at_character(bytes.clone(), max);
        assert!(std::str::from_utf8(&cut).is_ok() || max < 4, "max {max} gave {cut:?}");
    }
    assert_eq!(incomplete_tail("é".as_bytes()), 0);
    assert_eq!(incomplete_tail(&"é".as_bytes()[..1]), 1);
    assert_eq!(incomplete_tail(&"😀".as_bytes()[..3]), 3);
    assert_eq!(incomplete_tail(b"\xff"), 0);
    assert_eq!(incomplete_tail(b"\x80\x80\x80\x80"), 0);
    for never in [&b"\xc0"[..], b"\xe0\x80", b"\xed\xa0", b"\xf0\x80", b"\xf4\x90", b"\xf5", b"a\x80"] {
        assert_eq!(incomplete_tail(never), 0, "{never:?} cannot become a character");
    }
}
