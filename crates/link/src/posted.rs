//! One message and its responses, for transports of single requests.

use bytes::Bytes;

use crate::lanes::{Lanes, lanes};
use crate::{Incoming, Limits, Outgoing, Receiver};

/// The responses to one message.
#[derive(Debug)]
pub struct Answers(Lanes);

/// A link of one message: its receiver, the sender for responses, and the responses.
pub fn posted(message: Bytes, limits: &Limits) -> (Receiver, Outgoing, Answers) {
    let incoming = match message.len() > limits.line_bytes {
        true => Incoming::TooLong { bytes: message.len() as u64 },
        false => Incoming::Message(message),
    };
    let (outgoing, ends) = lanes(limits);
    (Receiver::new(futures_util::stream::iter([incoming])), outgoing, Answers(ends))
}

impl Answers {
    /// The next response; `None` when every sender is dropped. Nothing is lost if this future is dropped.
    pub async fn next(&mut self) -> Option<Bytes> {
        loop {
            let outbound = self.0.recv().await?;
            outbound.written.hand_out();
            if !outbound.bytes.is_empty() {
                return Some(wire::binary::to_text(outbound.bytes));
            }
        }
    }
}
