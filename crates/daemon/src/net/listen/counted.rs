//! A stream whose bytes are counted in the metrics.

use std::io;
use std::task::Poll;

use link::listen::{ObservedStream, StreamObserver};

use crate::observe::metrics::{Direction, GaugeGuard, Metrics, RefusalReason, Transport};

/// Counts the bytes of one connection.
#[derive(Debug)]
pub struct ByteCounter {
    metrics: Metrics,
    transport: Transport,
    /// Counts the connection itself while this exists.
    _connection: Option<GaugeGuard<Transport>>,
}

/// Counts the bytes that pass from now on through a stream, or through one direction of it.
pub fn counted<S>(stream: S, metrics: &Metrics, transport: Transport) -> ObservedStream<S, ByteCounter> {
    ObservedStream::new(stream, ByteCounter { metrics: metrics.clone(), transport, _connection: None })
}

impl ByteCounter {
    /// Counts a connection and its bytes.
    pub fn of_connection(metrics: &Metrics, transport: Transport) -> ByteCounter {
        let connection = Some(metrics.connection(transport));
        ByteCounter { metrics: metrics.clone(), transport, _connection: connection }
    }

    fn add(&self, direction: Direction, passed: &Poll<io::Result<usize>>) {
        if let Poll::Ready(Ok(bytes @ 1..)) = passed {
            self.metrics.link_bytes(self.transport, direction, *bytes as u64);
        }
    }
}

impl StreamObserver for ByteCounter {
    fn read(&mut self, read: &Poll<io::Result<usize>>) {
        self.add(Direction::Received, read);
    }

    fn wrote(&mut self, wrote: &Poll<io::Result<usize>>) {
        self.add(Direction::Sent, wrote);
    }

    fn timed_out(&mut self) {
        self.metrics.refused(RefusalReason::TooSlow);
    }
}
