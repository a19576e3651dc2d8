//! A stream whose bytes are counted as they pass.

use std::io;
use std::task::Poll;

use link::listen::{Watched, Witness};

use crate::observe::metrics::{Direction, Metrics, Transport};

/// A stream, or one direction of it, whose bytes are counted.
pub type Counted<S> = Watched<S, Count>;

/// Counts bytes of one kind of connection.
#[derive(Debug)]
pub struct Count {
    metrics: Metrics,
    transport: Transport,
}

/// Counts what passes through `stream` from now on.
pub fn counted<S>(stream: S, metrics: &Metrics, transport: Transport) -> Counted<S> {
    Watched::new(stream, Count { metrics: metrics.clone(), transport })
}

impl Count {
    fn add(&self, direction: Direction, passed: &Poll<io::Result<usize>>) {
        if let Poll::Ready(Ok(bytes @ 1..)) = passed {
            self.metrics.link_bytes(self.transport, direction, *bytes as u64);
        }
    }
}

impl Witness for Count {
    fn read(&mut self, read: &Poll<io::Result<usize>>) {
        self.add(Direction::Received, read);
    }

    fn wrote(&mut self, wrote: &Poll<io::Result<usize>>) {
        self.add(Direction::Sent, wrote);
    }
}
