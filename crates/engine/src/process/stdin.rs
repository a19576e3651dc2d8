//! The queue of standard input: bounded, so that a program that does not read delays only its own input.

use std::collections::VecDeque;
use std::io;

use bytes::{Buf as _, Bytes};
use tokio::sync::oneshot;

use super::streams::Input;
use crate::Error;

/// Queued bytes: 256 KiB; beyond it the sender of the next input waits.
const MAX_QUEUED_BYTES: usize = 256 * 1024;

/// Bytes for standard input, and whether it is closed after them.
#[derive(Debug)]
pub(super) struct InputRequest {
    pub(super) bytes: Bytes,
    pub(super) is_last: bool,
    pub(super) reply: oneshot::Sender<Result<usize, Error>>,
}

#[derive(Debug)]
pub(super) struct StdinQueue {
    waiting: VecDeque<Bytes>,
    waiting_bytes: usize,
    /// No more input is accepted; the pipe is closed when the queue is empty.
    is_last: bool,
}

impl StdinQueue {
    /// An open queue, or one that holds all input and accepts no more.
    pub(super) fn new(given: Option<Bytes>) -> StdinQueue {
        let is_last = given.is_some();
        let waiting: VecDeque<Bytes> = given.into_iter().collect();
        StdinQueue { waiting_bytes: waiting.iter().map(Bytes::len).sum(), waiting, is_last }
    }

    pub(super) fn has_capacity(&self) -> bool {
        self.waiting_bytes < MAX_QUEUED_BYTES
    }

    /// Whether bytes are queued.
    pub(super) fn wants_to_write(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Accepts bytes for the process. Bytes that fit into the pipe are written at once, so that a keystroke is not delayed.
    pub(super) fn accept(&mut self, request: InputRequest, input: &mut Option<Input>) {
        let InputRequest { mut bytes, is_last, reply } = request;
        let accepted = bytes.len();
        let Some(open) = input.as_ref().filter(|_| !self.is_last) else {
            let _sent = reply.send(Err(Error::InputClosed));
            return;
        };
        if self.waiting.is_empty() && !bytes.is_empty() {
            match open.try_write(&bytes) {
                Ok(Some(count)) => bytes.advance(count.min(bytes.len())),
                Ok(None) => {}
                Err(_closed) => {
                    *input = None;
                    let _sent = reply.send(Err(Error::InputClosed));
                    return;
                }
            }
        }
        if !bytes.is_empty() {
            self.waiting_bytes += bytes.len();
            self.waiting.push_back(bytes);
        }
        self.is_last = is_last;
        self.close_if_done(input);
        let _sent = reply.send(Ok(accepted));
    }

    /// Waits until the pipe is writable and writes the oldest bytes. Cancel safe.
    pub(super) async fn write(&self, input: &Option<Input>) -> io::Result<usize> {
        match (self.waiting.front(), input) {
            (Some(bytes), Some(input)) => input.write(bytes).await,
            _ => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    /// Handles the result of a write: removes the written bytes, or closes the queue.
    pub(super) fn moved(&mut self, moved: io::Result<usize>, input: &mut Option<Input>) {
        match moved {
            Ok(count) => {
                self.waiting_bytes = self.waiting_bytes.saturating_sub(count);
                if let Some(front) = self.waiting.front_mut() {
                    front.advance(count.min(front.len()));
                    if front.is_empty() {
                        self.waiting.pop_front();
                    }
                }
                self.close_if_done(input);
            }
            Err(_closed) => self.close(input),
        }
    }

    /// Drops all queued bytes and closes the pipe.
    pub(super) fn close(&mut self, input: &mut Option<Input>) {
        self.waiting.clear();
        self.waiting_bytes = 0;
        self.is_last = true;
        *input = None;
    }

    pub(super) fn close_if_done(&mut self, input: &mut Option<Input>) {
        if self.is_last && self.waiting.is_empty() {
            *input = None;
        }
    }
}
