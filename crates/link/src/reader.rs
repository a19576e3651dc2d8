//! The reading side of a byte stream: lines as messages, and binary messages between them.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, BytesMut};
use futures_util::Stream;
use tokio::io::AsyncRead;

use crate::Incoming;
use crate::budget::{Allowance, ByteBudget};
use crate::intake::{Intake, is_blank};
use crate::lanes::BinaryMessages;

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
    /// What is left of a binary message over the limit, which is skipped, and its length.
    skipping_binary: Option<(u64, u64)>,
    binary: BinaryMessages,
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
        Lines {
            input,
            intake,
            scanned: 0,
            skipping: None,
            skipping_binary: None,
            binary: BinaryMessages::default(),
            line_bytes,
            allowance,
            state,
        }
    }

    /// Whether the peer may send binary messages.
    pub(crate) fn binary(&self) -> BinaryMessages {
        self.binary.clone()
    }

    /// The next message in the buffer.
    fn take_message(&mut self) -> Option<Incoming> {
        if let Some((left, bytes)) = self.skipping_binary.take() {
            return self.skip_binary(left, bytes);
        }
        match self.starts_binary() {
            true => self.take_binary(),
            false => self.take_line(),
        }
    }

    /// Whether a binary message is at the start of the buffer.
    fn starts_binary(&self) -> bool {
        let starts_message = self.scanned == 0 && self.skipping.is_none();
        starts_message && wire::binary::is_binary(&self.intake.buffer) && self.binary.are_accepted()
    }

    /// The binary message at the start of the buffer, if all of it is there.
    fn take_binary(&mut self) -> Option<Incoming> {
        let bytes = wire::binary::message_bytes(&self.intake.buffer)?;
        if bytes > self.line_bytes as u64 {
            return self.skip_binary(bytes, bytes);
        }
        let length = usize::try_from(bytes).ok().filter(|length| *length <= self.intake.buffer.len())?;
        let message = self.intake.buffer.split_to(length);
        Some(Incoming::Message(self.allowance.attach(self.intake.message(message))))
    }

    /// Discards what there is of a binary message over the limit; reports it at its end.
    fn skip_binary(&mut self, left: u64, bytes: u64) -> Option<Incoming> {
        let here = usize::try_from(left).unwrap_or(usize::MAX).min(self.intake.buffer.len());
        self.intake.buffer.advance(here);
        match left - here as u64 {
            0 => Some(Incoming::TooLong { bytes }),
            left => {
                self.skipping_binary = Some((left, bytes));
                None
            }
        }
    }

    /// The next line in the buffer. After it, a binary message may start.
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
            if self.starts_binary() {
                return self.take_binary();
            }
        }
    }

    /// The rest after the last newline, once the stream has ended.
    fn take_rest(&mut self) -> Option<Incoming> {
        let is_binary = self.starts_binary();
        let rest = self.intake.buffer.split();
        if is_binary {
            // Part of a message, which has its length and no end.
            return None;
        }
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
            if let Some(incoming) = this.take_message() {
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
