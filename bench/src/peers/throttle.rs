//! A slow link: a proxy on loopback with a limited rate towards the client.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use anyhow::Result;

/// Bytes forwarded at a time; small, for an even rate.
const PIECE: usize = 16 << 10;
/// Socket buffer size; small, so that the server sees the back pressure.
const BUFFER: usize = 64 << 10;

/// Starts a proxy to a port on loopback and returns its own port. It serves one connection and ends with it.
pub(crate) fn throttle(to: u16, bytes_per_second: f64) -> Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port();
    std::thread::spawn(move || -> Result<()> {
        let (near, _) = listener.accept()?;
        let far = TcpStream::connect(("127.0.0.1", to))?;
        for stream in [&near, &far] {
            stream.set_nodelay(true)?;
            rustix::net::sockopt::set_socket_recv_buffer_size(stream, BUFFER)?;
        }
        let (mut up, mut up_to) = (near.try_clone()?, far.try_clone()?);
        std::thread::spawn(move || std::io::copy(&mut up, &mut up_to));
        pass(far, near, bytes_per_second)
    });
    Ok(port)
}

/// Forwards bytes at the limited rate.
fn pass(mut from: TcpStream, mut to: TcpStream, bytes_per_second: f64) -> Result<()> {
    let mut buffer = vec![0; PIECE];
    let mut free = Instant::now();
    loop {
        let read = from.read(&mut buffer)?;
        if read == 0 {
            return Ok(to.shutdown(std::net::Shutdown::Write)?);
        }
        to.write_all(&buffer[..read])?;
        // Idle time does not accumulate beyond one chunk.
        free = free.max(Instant::now() - Duration::from_secs_f64(PIECE as f64 / bytes_per_second));
        free += Duration::from_secs_f64(read as f64 / bytes_per_second);
        std::thread::sleep(free.saturating_duration_since(Instant::now()));
    }
}
