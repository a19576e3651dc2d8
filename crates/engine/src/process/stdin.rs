//! What waits to be written to a process: a bounded queue, so that a program that does not read stalls nobody else.

use std::collections::VecDeque;
use std::io;

use bytes::{Buf as _, Bytes};
use tokio::sync::oneshot;

use super::streams::Input;
use crate::Error;

/// Waiting bytes beyond which further input is not taken from its sender.
const MAX_QUEUED_BYTES: usize = 256 * 1024;

/// Bytes for a process, or the end of them.
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
    /// Nothing is accepted any more; the pipe closes when the queue is empty.
    is_last: bool,
}

impl StdinQueue {
    /// An open queue, or one that holds all there will ever be.
    pub(super) fn new(given: Option<Bytes>) -> StdinQueue {
        let is_last = given.is_some();
        let waiting: VecDeque<Bytes> = given.into_iter().collect();
        StdinQueue { waiting_bytes: waiting.iter().map(Bytes::len).sum(), waiting, is_last }
    }

    pub(super) fn has_capacity(&self) -> bool {
        self.waiting_bytes < MAX_QUEUED_BYTES
    }

    /// Whether there is something to write, or an end to tell.
    pub(super) fn wants_to_write(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Takes bytes for the process; what fits goes at once, so that a keystroke does not wait for its turn.
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

    /// Waits for room and writes the oldest bytes. Safe to drop while it waits.
    pub(super) async fn write(&self, input: &Option<Input>) -> io::Result<usize> {
        match (self.waiting.front(), input) {
            (Some(bytes), Some(input)) => input.write(bytes).await,
            _ => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    /// Some of the oldest bytes were written, or none ever will be.
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

    /// The process reads no more, or has ended.
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
