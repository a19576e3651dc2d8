//! The reading side of a WebSocket: messages from frames.

use std::io::{self, Cursor};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::{Buf, Bytes, BytesMut};
use futures_util::Stream;
use tokio::io::AsyncRead;
use tungstenite::protocol::frame::FrameHeader;
use tungstenite::protocol::frame::coding::{CloseCode, Control, Data, OpCode};

use super::shared::Shared;
use super::{Close, Content, Role};
use crate::budget::{Allowance, BudgetExhausted};
use crate::intake::{Intake, is_blank};
use crate::packing::{is_packed, unpack};
use crate::{Incoming, Limits};

/// The limit on the payload of a control frame.
const MAX_CONTROL: u64 = 125;

/// Holds the input after the last message, for the closing handshake.
pub(super) type ReturnedInput<R> = Arc<Mutex<Option<R>>>;

/// Messages from a byte stream that carries frames.
pub(super) struct Frames<R> {
    input: Option<R>,
    returned: ReturnedInput<R>,
    intake: Intake,
    role: Role,
    content: Content,
    line_bytes: usize,
    allowance: Allowance,
    shared: Arc<Shared>,
    /// The frame whose payload is read next.
    frame: Option<Frame>,
    message: Assembly,
}

struct Frame {
    header: FrameHeader,
    left: u64,
}

/// The message that is assembled from frames.
#[derive(Default)]
struct Assembly {
    has_begun: bool,
    is_binary: bool,
    parts: BytesMut,
    /// The length of all payloads so far, also of skipped ones.
    bytes: u64,
}

/// The result of one parsing step.
enum Step {
    /// More bytes are needed.
    NeedsInput,
    /// The buffer may contain more.
    Again,
    Message(Incoming),
    /// The peer closed, or violated the protocol.
    End(Close),
}

impl<R: AsyncRead + Unpin> Frames<R> {
    pub(super) fn new(
        input: R,
        read_already: BytesMut,
        (role, content): (Role, Content),
        limits: &Limits,
        shared: Arc<Shared>,
    ) -> Frames<R> {
        Frames {
            input: Some(input),
            returned: Arc::default(),
            intake: Intake::new(read_already),
            role,
            content,
            line_bytes: limits.line_bytes,
            allowance: limits.budget.allowance(),
            shared,
            frame: None,
            message: Assembly::default(),
        }
    }

    pub(super) fn returned_input(&self) -> ReturnedInput<R> {
        self.returned.clone()
    }

    fn step(&mut self) -> Step {
        let Some(frame) = self.frame.take() else { return self.take_header() };
        match frame.header.opcode {
            OpCode::Control(control) => self.take_control(frame, control),
            OpCode::Data(_) => self.take_data(frame),
        }
    }

    fn take_header(&mut self) -> Step {
        let mut cursor = Cursor::new(&self.intake.buffer[..]);
        let (header, left) = match FrameHeader::parse(&mut cursor) {
            Ok(Some(found)) => found,
            Ok(None) => return Step::NeedsInput,
            Err(error) => return violation(error.to_string()),
        };
        let used = usize::try_from(cursor.position()).unwrap_or(usize::MAX);
        self.intake.buffer.advance(used.min(self.intake.buffer.len()));
        if let Err(reason) = self.check(&header, left) {
            return violation(reason);
        }
        if let OpCode::Data(kind) = header.opcode {
            self.message.bytes = self.message.bytes.saturating_add(left);
            if kind != Data::Continue {
                self.message.has_begun = true;
                self.message.is_binary = kind == Data::Binary;
            }
        }
        self.frame = Some(Frame { header, left });
        Step::Again
    }

    fn check(&self, header: &FrameHeader, length: u64) -> Result<(), &'static str> {
        if header.rsv1 || header.rsv2 || header.rsv3 {
            return Err("reserved bit set");
        }
        if header.mask.is_some() != (self.role == Role::Server) {
            return Err("frames of clients must be masked, and frames of servers must not");
        }
        match header.opcode {
            OpCode::Control(_) if !header.is_final || length > MAX_CONTROL => {
                Err("fragmented or oversized control frame")
            }
            OpCode::Data(Data::Continue) if !self.message.has_begun => Err("continuation without a message"),
            OpCode::Data(Data::Text | Data::Binary) if self.message.has_begun => {
                Err("new message before the end of the last one")
            }
            _ => Ok(()),
        }
    }

    fn take_control(&mut self, frame: Frame, control: Control) -> Step {
        let Some(payload) = self.payload(&frame) else {
            self.frame = Some(frame);
            return Step::NeedsInput;
        };
        match control {
            // Copied, so that a few queued bytes do not keep a large buffer.
            Control::Ping => self.shared.request_pong(Bytes::copy_from_slice(&payload)),
            Control::Close => {
                self.shared.set_peer_close(payload.split_first_chunk::<2>().map(|(code, reason)| {
                    Close::new(u16::from_be_bytes(*code), String::from_utf8_lossy(reason))
                }));
                return Step::End(close_reply(&payload));
            }
            Control::Pong | Control::Reserved(_) => {}
        }
        Step::Again
    }

    fn take_data(&mut self, mut frame: Frame) -> Step {
        if self.message.bytes > self.line_bytes as u64 {
            self.message.parts = BytesMut::new();
            let here = frame.left.min(self.intake.buffer.len() as u64);
            self.intake.buffer.advance(usize::try_from(here).unwrap_or(usize::MAX));
            frame.left -= here;
            if frame.left > 0 {
                self.frame = Some(frame);
                return Step::NeedsInput;
            }
            return self.end_frame(&frame.header, BytesMut::new());
        }
        match self.payload(&frame) {
            Some(payload) => self.end_frame(&frame.header, payload),
            None => {
                self.frame = Some(frame);
                Step::NeedsInput
            }
        }
    }

    /// The payload of a frame, if all of it is in the buffer.
    fn payload(&mut self, frame: &Frame) -> Option<BytesMut> {
        let length = usize::try_from(frame.left).ok().filter(|length| *length <= self.intake.buffer.len())?;
        let mut payload = self.intake.buffer.split_to(length);
        if let Some(mask) = frame.header.mask {
            unmask(&mut payload, mask);
        }
        Some(payload)
    }

    fn end_frame(&mut self, header: &FrameHeader, payload: BytesMut) -> Step {
        if !header.is_final {
            self.message.parts.extend_from_slice(&payload);
            return Step::Again;
        }
        let message = std::mem::take(&mut self.message);
        if message.bytes > self.line_bytes as u64 {
            return Step::Message(Incoming::TooLong { bytes: message.bytes });
        }
        let mut whole = message.parts;
        match whole.is_empty() {
            true => whole = payload,
            false => whole.extend_from_slice(&payload),
        }
        if self.content != Content::Json {
            // Other text frames of a binary connection are ignored.
            let is_text = self.content == Content::Mixed && whole.starts_with(b"{");
            return match (message.is_binary || is_text) && !whole.is_empty() {
                true => self.message(whole),
                false => Step::Again,
            };
        }
        if message.is_binary && is_packed(&whole) {
            return self.unpacked(&whole);
        }
        match is_blank(&whole) {
            true => Step::Again,
            false => self.message(whole),
        }
    }

    fn message(&mut self, whole: BytesMut) -> Step {
        let message = self.intake.message(whole);
        Step::Message(Incoming::Message(self.allowance.attach(message)))
    }

    fn unpacked(&mut self, packed: &BytesMut) -> Step {
        Step::Message(match unpack(packed, self.line_bytes) {
            Ok(Some(message)) => {
                let bytes = self.intake.buffer.len() + packed.len() + message.len();
                if let Err(error) = self.allowance.try_hold(bytes) {
                    return exhausted(&error);
                }
                Incoming::Message(self.allowance.attach(message))
            }
            Ok(None) => Incoming::TooLong { bytes: self.line_bytes as u64 + 1 },
            // The parser reports the invalid message.
            Err(error) => {
                tracing::debug!(%error, "decompressing a message failed");
                Incoming::Message(packed.clone().freeze())
            }
        })
    }

    fn end(&mut self, close: Option<Close>) {
        self.return_input();
        self.shared.request_end(close);
    }
}

impl<R> Frames<R> {
    /// Returns the input for the closing handshake.
    fn return_input(&mut self) {
        if let Some(input) = self.input.take() {
            *self.returned.lock().unwrap_or_else(PoisonError::into_inner) = Some(input);
            self.shared.stop_reading();
        }
    }
}

impl<R> Drop for Frames<R> {
    fn drop(&mut self) {
        self.return_input();
    }
}

impl<R: AsyncRead + Unpin> Stream for Frames<R> {
    type Item = Incoming;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Incoming>> {
        let this = &mut *self;
        loop {
            if this.input.is_none() {
                return Poll::Ready(None);
            }
            match this.step() {
                Step::Again => continue,
                Step::Message(incoming) => return Poll::Ready(Some(incoming)),
                Step::End(close) => {
                    this.end(Some(close));
                    return Poll::Ready(None);
                }
                Step::NeedsInput => {}
            }
            let assembled = this.message.parts.len();
            match this.allowance.poll_read(cx, &mut this.intake, assembled) {
                // Its silence does not count meanwhile.
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Err(error)) => {
                    if let Step::End(close) = exhausted(&error) {
                        this.end(Some(close));
                    }
                    return Poll::Ready(None);
                }
                Poll::Ready(Ok(())) => {}
            }
            let Some(input) = this.input.as_mut() else { return Poll::Ready(None) };
            let filled = this.intake.poll_fill(cx, input);
            this.allowance.keep(this.intake.buffer.len() + assembled + this.intake.read_bytes());
            let Poll::Ready(filled) = filled else {
                if this.shared.reader_waits(cx.waker()) {
                    return Poll::Pending;
                }
                this.end(None);
                return Poll::Ready(None);
            };
            match filled {
                Ok(0) => this.end(None),
                Ok(_) => this.shared.record_activity(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    tracing::debug!(%error, "reading from the peer failed");
                    this.end(None);
                }
            }
        }
    }
}

/// The reply to a close frame: the same code, if it is valid.
fn close_reply(payload: &[u8]) -> Close {
    let Some((code, reason)) = payload.split_first_chunk::<2>() else {
        return match payload {
            [] => Close::new(Close::NORMAL, ""),
            _ => Close::new(Close::PROTOCOL, "close frame with an incomplete code"),
        };
    };
    let code = CloseCode::from(u16::from_be_bytes(*code));
    match code.is_allowed() && std::str::from_utf8(reason).is_ok() {
        true => Close::new(code.into(), ""),
        false => Close::new(Close::PROTOCOL, "close frame with an invalid code or reason"),
    }
}

fn exhausted(error: &BudgetExhausted) -> Step {
    tracing::warn!(%error, "closing a connection");
    Step::End(Close::new(Close::TRY_AGAIN, error.to_string()))
}

fn violation(reason: impl Into<String>) -> Step {
    Step::End(Close::new(Close::PROTOCOL, reason))
}

/// Applies the mask, which also removes it.
pub(super) fn unmask(payload: &mut [u8], mask: [u8; 4]) {
    let [a, b, c, d] = mask;
    let wide = u64::from_ne_bytes([a, b, c, d, a, b, c, d]);
    let mut words = payload.chunks_exact_mut(8);
    for word in &mut words {
        if let Ok(bytes) = <[u8; 8]>::try_from(&*word) {
            word.copy_from_slice(&(u64::from_ne_bytes(bytes) ^ wide).to_ne_bytes());
        }
    }
    for (byte, mask) in words.into_remainder().iter_mut().zip(mask.iter().cycle()) {
        *byte ^= mask;
    }
}
