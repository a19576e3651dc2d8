//! The reading side of a byte stream: lines in.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::BytesMut;
use futures_util::Stream;
use tokio::io::AsyncRead;

use crate::Incoming;
use crate::intake::{Intake, is_blank};

/// Texts up to this are short.
const SHORT: usize = 512;

/// Newline-delimited messages from a byte stream.
#[derive(Debug)]
pub struct Lines<R> {
    input: R,
    intake: Intake,
    /// How much of the buffer holds no newline.
    scanned: usize,
    /// Length so far of a line over the limit that is being skipped.
    skipping: Option<u64>,
    line_bytes: usize,
    state: State,
}

/// How far the input is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// More may come.
    Open,
    /// It has ended; what is in the buffer is still to be taken.
    Ending,
    /// Nothing is left.
    Ended,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    /// Lines of at most `line_bytes`.
    pub fn new(input: R, line_bytes: usize) -> Lines<R> {
        Lines::begun(input, line_bytes, (BytesMut::new(), false))
    }

    /// As [`Lines::new`], after some of it was read, and perhaps its end.
    pub(crate) fn begun(input: R, line_bytes: usize, (read, has_ended): (BytesMut, bool)) -> Lines<R> {
        let state = if has_ended { State::Ending } else { State::Open };
        Lines { input, intake: Intake::new(read), scanned: 0, skipping: None, line_bytes, state }
    }

    /// The next message that is in the buffer already.
    fn take_line(&mut self) -> Option<Incoming> {
        loop {
            let unseen = self.intake.buffer.get(self.scanned..)?;
            let Some(place) = newline(unseen) else {
                self.scanned = self.intake.buffer.len();
                self.skip_if_too_long();
                return None;
            };
            let mut line = self.intake.buffer.split_to(self.scanned + place + 1);
            line.truncate(line.len() - 1);
            self.scanned = 0;
            if let Some(incoming) = self.finish(line) {
                return Some(incoming);
            }
        }
    }

    /// The rest after the last newline, once the stream has ended.
    fn take_rest(&mut self) -> Option<Incoming> {
        let rest = self.intake.buffer.split();
        self.scanned = 0;
        self.finish(rest)
    }

    /// A line without its newline as a message; nothing for a blank one.
    fn finish(&mut self, mut line: BytesMut) -> Option<Incoming> {
        if let Some(skipped) = self.skipping.take() {
            return Some(Incoming::TooLong { bytes: skipped + line.len() as u64 });
        }
        let bytes = line.len() as u64;
        if line.last() == Some(&b'\r') {
            line.truncate(line.len() - 1);
        }
        if line.len() > self.line_bytes {
            return Some(Incoming::TooLong { bytes });
        }
        if is_blank(&line) {
            return None;
        }
        Some(Incoming::Message(self.intake.message(line)))
    }

    fn skip_if_too_long(&mut self) {
        // One more than the limit may be the carriage return of a line that is just short enough.
        if self.skipping.is_some() || self.intake.buffer.len() > self.line_bytes.saturating_add(1) {
            let skipped = self.skipping.unwrap_or(0) + self.intake.buffer.len() as u64;
            self.skipping = Some(skipped);
            self.intake.buffer.clear();
            self.scanned = 0;
        }
    }
}

/// Where the first line ends. Short texts are looked at byte by byte: finding out how this machine does it best takes longer
/// than that, once in the life of a process, and many lives are short.
pub(crate) fn newline(text: &[u8]) -> Option<usize> {
    match text.len() <= SHORT {
        true => text.iter().position(|byte| *byte == b'\n'),
        false => memchr::memchr(b'\n', text),
    }
}

impl<R: AsyncRead + Unpin> Stream for Lines<R> {
    type Item = Incoming;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Incoming>> {
        let this = &mut *self;
        loop {
            if let Some(incoming) = this.take_line() {
                return Poll::Ready(Some(incoming));
            }
            match this.state {
                State::Open => {}
                State::Ending => {
                    this.state = State::Ended;
                    return Poll::Ready(this.take_rest());
                }
                State::Ended => return Poll::Ready(None),
            }
            match ready!(this.intake.poll_fill(cx, &mut this.input)) {
                Ok(0) => this.state = State::Ending,
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    // A connection that broke and one that was closed mean the same to whoever serves it.
                    tracing::debug!(%error, "reading from the peer failed");
                    this.state = State::Ended;
                    this.intake.buffer.clear();
                    this.scanned = 0;
                    return Poll::Ready(None);
                }
            }
        }
    }
}
