//! The reading side of a byte stream: lines as messages.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::BytesMut;
use futures_util::Stream;
use tokio::io::AsyncRead;

use crate::Incoming;
use crate::budget::{Allowance, ByteBudget};
use crate::intake::{Intake, is_blank};

/// Texts up to this length are searched without memchr.
const SHORT: usize = 512;

/// Newline-delimited messages from a byte stream.
#[derive(Debug)]
pub struct Lines<R> {
    input: R,
    intake: Intake,
    /// The length of the buffer's prefix without a newline.
    scanned: usize,
    /// The length so far of a line over the limit, which is skipped.
    skipping: Option<u64>,
    line_bytes: usize,
    allowance: Allowance,
    state: InputState,
}

/// The state of the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum InputState {
    /// More data may arrive.
    Open,
    /// The input has ended; the buffer may contain a last line.
    Ending,
    /// The last line was returned.
    Ended,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    /// Reads lines of at most `line_bytes`.
    pub fn new(input: R, line_bytes: usize) -> Lines<R> {
        Lines::begun(input, (line_bytes, &ByteBudget::default()), (BytesMut::new(), false))
    }

    /// Like [`Lines::new`] after some bytes, and possibly the end, were read.
    pub(crate) fn begun(
        input: R,
        (line_bytes, budget): (usize, &ByteBudget),
        (read, has_ended): (BytesMut, bool),
    ) -> Lines<R> {
        let state = if has_ended { InputState::Ending } else { InputState::Open };
        let (intake, allowance) = (Intake::new(read), budget.allowance());
        Lines { input, intake, scanned: 0, skipping: None, line_bytes, allowance, state }
    }

    /// The next message in the buffer.
    fn take_line(&mut self) -> Option<Incoming> {
        loop {
            let unseen = self.intake.buffer.get(self.scanned..)?;
            let Some(position) = newline(unseen) else {
                self.scanned = self.intake.buffer.len();
                self.skip_if_too_long();
                return None;
            };
            let mut line = self.intake.buffer.split_to(self.scanned + position + 1);
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

    /// Converts a line without its newline to a message; `None` for a blank one.
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
        Some(Incoming::Message(self.allowance.attach(self.intake.message(line))))
    }

    fn skip_if_too_long(&mut self) {
        // One byte more than the limit may be the carriage return of a line within it.
        if self.skipping.is_some() || self.intake.buffer.len() > self.line_bytes.saturating_add(1) {
            self.skip();
        }
    }

    /// Discards what there is of the line, and then the rest of it.
    fn skip(&mut self) {
        let skipped = self.skipping.unwrap_or(0) + self.intake.buffer.len() as u64;
        self.skipping = Some(skipped);
        self.intake.buffer.clear();
        self.scanned = 0;
    }
}

/// The position of the first newline. Short texts are searched byte by byte: the one-time CPU detection of memchr takes
/// longer, and many processes are short-lived.
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
                InputState::Open => {}
                InputState::Ending => {
                    this.state = InputState::Ended;
                    return Poll::Ready(this.take_rest());
                }
                InputState::Ended => return Poll::Ready(None),
            }
            if let Err(error) = ready!(this.allowance.poll_read(cx, &mut this.intake, 0)) {
                tracing::warn!(%error, "skipping a message");
                this.skip();
                this.intake.buffer = BytesMut::new();
                this.allowance.keep(0);
                continue;
            }
            let filled = this.intake.poll_fill(cx, &mut this.input);
            this.allowance.keep(this.intake.buffer.len() + this.intake.read_bytes());
            match ready!(filled) {
                Ok(0) => this.state = InputState::Ending,
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    // A failed connection and a closed one are handled alike.
                    tracing::debug!(%error, "reading from the peer failed");
                    this.state = InputState::Ended;
                    this.intake.buffer.clear();
                    this.scanned = 0;
                    return Poll::Ready(None);
                }
            }
        }
    }
}
