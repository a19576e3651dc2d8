//! A TCP stream whose reads and writes continue after a signal: with a timeout, the kernel does not restart them.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;

/// The stream.
#[derive(Debug)]
pub struct Uninterrupted(pub TcpStream);

impl Read for Uninterrupted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        again(|| self.0.read(buffer))
    }
}

impl Write for Uninterrupted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        again(|| self.0.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

fn again(mut work: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
    loop {
        match work() {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}
