//! One message and its answers, for carriers that bring requests one by one.

use bytes::Bytes;

use crate::lanes::{Lanes, lanes};
use crate::{Incoming, Limits, Outgoing, Receiver};

/// What is sent in answer to one message.
#[derive(Debug)]
pub struct Answers(Lanes);

/// A peer that says one thing: what it says, where its answers go, and where they are taken from.
pub fn posted(message: Bytes, limits: &Limits) -> (Receiver, Outgoing, Answers) {
    let incoming = match message.len() > limits.line_bytes {
        true => Incoming::TooLong { bytes: message.len() as u64 },
        false => Incoming::Message(message),
    };
    let (outgoing, ends) = lanes(limits);
    (Receiver::new(futures_util::stream::iter([incoming])), outgoing, Answers(ends))
}

impl Answers {
    /// The next answer; nothing when nobody can answer any more. Nothing is lost if this future is dropped.
    pub async fn next(&mut self) -> Option<Bytes> {
        loop {
            let outbound = self.0.recv().await?;
            outbound.written.hand_out();
            if !outbound.bytes.is_empty() {
                return Some(outbound.bytes);
            }
        }
    }
}
