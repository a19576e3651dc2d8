//! Carrier: transports the messages of one client to a daemon and back.

use std::fmt::Debug;
use std::io;
use std::time::Instant;

/// The result of a receive.
#[derive(Debug, PartialEq, Eq)]
pub enum Received {
    /// A whole message, without its newline.
    Message(String),
    /// The peer closed the connection.
    End,
    /// The deadline passed.
    Late,
}

/// One client's connection to a daemon. After an error it is unusable.
pub trait Carrier: Debug {
    /// Sends lines with their newlines. A carrier of messages sends each line as one message.
    fn send(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Receives the next complete message.
    fn receive(&mut self, deadline: Instant) -> io::Result<Received>;
    /// Closes the sending direction. Messages can still be received.
    fn finish(&mut self) -> io::Result<()>;
    /// Whether the peer still responds after that; if not, wait for responses first.
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

/// Splits bytes into messages for carriers without lines: blank lines are skipped, and the text after the last
/// newline is kept until it is complete.
#[derive(Debug, Default)]
pub(crate) struct LineSplitter {
    rest: Vec<u8>,
}

impl LineSplitter {
    /// The messages that are complete.
    pub(crate) fn add(&mut self, bytes: &[u8]) -> Vec<Vec<u8>> {
        self.rest.extend_from_slice(bytes);
        let Some(end) = self.rest.iter().rposition(|byte| *byte == b'\n') else { return Vec::new() };
        let rest = self.rest.split_off(end + 1);
        let whole = std::mem::replace(&mut self.rest, rest);
        whole.split(|byte| *byte == b'\n').filter(|line| !is_blank(line)).map(<[u8]>::to_vec).collect()
    }

    /// The text without a newline.
    pub(crate) fn last(&mut self) -> Option<Vec<u8>> {
        Some(std::mem::take(&mut self.rest)).filter(|line| !is_blank(line))
    }
}

/// A binary message as text: its header with a further member, `payload`. Any other message as it is.
pub(crate) fn readable(message: Vec<u8>) -> io::Result<String> {
    let message = bytes::Bytes::from(message);
    let text = match wire::binary::split(&message) {
        Ok((header, payload)) => {
            let mut header: serde_json::Value = serde_json::from_slice(&header)?;
            header["payload"] = String::from_utf8(payload.to_vec()).map_err(io::Error::other)?.into();
            header.to_string().into_bytes()
        }
        Err(_) => message.to_vec(),
    };
    String::from_utf8(text).map_err(io::Error::other)
}

fn is_blank(line: &[u8]) -> bool {
    line.iter().all(u8::is_ascii_whitespace)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_become_messages_and_blank_ones_none() {
        let mut pieces = LineSplitter::default();
        assert_eq!(pieces.add(b"\n\r\n{\"a\""), [b""; 0]);
        assert_eq!(pieces.add(b":1}\r\n 2 \n3"), [&b"{\"a\":1}\r"[..], b" 2 "]);
        assert_eq!(pieces.last().as_deref(), Some(&b"3"[..]));
        assert_eq!(pieces.last(), None);
    }
}
