//! A pair of links in memory, for tests: messages pass between them without bytes or system calls.

use std::io;

use tokio::sync::mpsc;

use crate::lanes::{BinaryMessages, Lanes, lanes};
use crate::{Incoming, Limits, Link, Receiver, Writing};

/// Messages on their way from one side to the other.
const BETWEEN: usize = 1;

/// Two ends of one connection. Must be called within a tokio runtime.
pub fn pair(limits: &Limits) -> (Link, Link) {
    let (to_left, from_right) = mpsc::channel(BETWEEN);
    let (to_right, from_left) = mpsc::channel(BETWEEN);
    (end(limits, to_right, from_right), end(limits, to_left, from_left))
}

fn end(limits: &Limits, to: mpsc::Sender<Incoming>, from: mpsc::Receiver<Incoming>) -> Link {
    let (outgoing, ends) = lanes(limits);
    let outgoing = outgoing.with_binary(BinaryMessages::default());
    let source = futures_util::stream::unfold(from, async |mut from| Some((from.recv().await?, from)));
    Link {
        incoming: Receiver::new(source),
        outgoing,
        writing: Writing::spawn(carry(ends, to, limits.line_bytes)),
    }
}

async fn carry(mut lanes: Lanes, to: mpsc::Sender<Incoming>, line_bytes: usize) -> io::Result<()> {
    while let Some(outbound) = lanes.recv().await {
        if !outbound.bytes.is_empty() {
            let incoming = match outbound.bytes.len() > line_bytes {
                true => Incoming::TooLong { bytes: outbound.bytes.len() as u64 },
                false => Incoming::Message(outbound.bytes),
            };
            if to.send(incoming).await.is_err() {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
        }
        outbound.written.hand_out();
    }
    Ok(())
}
