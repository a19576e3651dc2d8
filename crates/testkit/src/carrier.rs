//! Carrier: what moves the messages of one client to a daemon and back, whatever it is made of.

use std::fmt::Debug;
use std::io;
use std::time::Instant;

/// What came.
#[derive(Debug, PartialEq, Eq)]
pub enum Received {
    /// A whole message, without its newline.
    Message(String),
    /// The peer is done, and said so.
    End,
    /// Nothing, until the deadline.
    Late,
}

/// One client's way to a daemon. An error means that it broke: nothing comes of it any more.
pub trait Carrier: Debug {
    /// Sends bytes: lines with their newlines. A carrier of messages sends each line as one.
    fn send(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// The next whole message.
    fn receive(&mut self, deadline: Instant) -> io::Result<Received>;
    /// Says that nothing more will be sent. What is on its way back may still be received.
    fn finish(&mut self) -> io::Result<()>;
    /// Whether the peer goes on answering after that; if not, whoever waits for answers waits before.
    fn answers_after_the_end(&self) -> bool;
}

impl Carrier for Box<dyn Carrier + Send> {
    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        (**self).send(bytes)
    }

    fn receive(&mut self, deadline: Instant) -> io::Result<Received> {
        (**self).receive(deadline)
    }

    fn finish(&mut self) -> io::Result<()> {
        (**self).finish()
    }

    fn answers_after_the_end(&self) -> bool {
        (**self).answers_after_the_end()
    }
}

/// Bytes cut into messages, for carriers that have no lines: blank lines are no messages, and what follows the last
/// newline waits for the rest, or for the end.
#[derive(Debug, Default)]
pub(crate) struct Pieces {
    rest: Vec<u8>,
}

impl Pieces {
    /// The messages that are whole now.
    pub(crate) fn add(&mut self, bytes: &[u8]) -> Vec<Vec<u8>> {
        self.rest.extend_from_slice(bytes);
        let Some(end) = self.rest.iter().rposition(|byte| *byte == b'\n') else { return Vec::new() };
        let rest = self.rest.split_off(end + 1);
        let whole = std::mem::replace(&mut self.rest, rest);
        whole.split(|byte| *byte == b'\n').filter(|line| !is_blank(line)).map(<[u8]>::to_vec).collect()
    }

    /// What has no newline.
    pub(crate) fn last(&mut self) -> Option<Vec<u8>> {
        Some(std::mem::take(&mut self.rest)).filter(|line| !is_blank(line))
    }
}

fn is_blank(line: &[u8]) -> bool {
    line.iter().all(u8::is_ascii_whitespace)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_become_messages_and_blank_ones_none() {
        let mut pieces = Pieces::default();
        assert_eq!(pieces.add(b"\n\r\n{\"a\""), [b""; 0]);
        assert_eq!(pieces.add(b":1}\r\n 2 \n3"), [&b"{\"a\":1}\r"[..], b" 2 "]);
        assert_eq!(pieces.last().as_deref(), Some(&b"3"[..]));
        assert_eq!(pieces.last(), None);
    }
}
