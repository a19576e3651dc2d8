//! Sockets that a service manager passed on: which are TCP, which are unix sockets.

use std::io;
use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, SocketType, getsockname, sockopt};
use tokio::net::{TcpListener, UnixListener};

/// A socket that was passed on.
#[derive(Debug)]
pub enum Passed {
    /// For HTTP and WebSocket.
    Tcp(TcpListener),
    /// For lines.
    Unix(UnixListener),
}

/// What the sockets are that were passed to this process. Must be called within a tokio runtime.
pub fn passed(sockets: Vec<OwnedFd>) -> io::Result<Vec<Passed>> {
    sockets.into_iter().map(listener).collect()
}

fn listener(socket: OwnedFd) -> io::Result<Passed> {
    let kind = sockopt::socket_type(&socket)?;
    if kind != SocketType::STREAM || !sockopt::socket_acceptconn(&socket)? {
        return Err(io::Error::other("a passed socket does not listen for streams (Accept=no is needed)"));
    }
    rustix::io::ioctl_fionbio(&socket, true)?;
    match getsockname(&socket)?.address_family() {
        AddressFamily::UNIX => UnixListener::from_std(socket.into()).map(Passed::Unix),
        AddressFamily::INET | AddressFamily::INET6 => TcpListener::from_std(socket.into()).map(Passed::Tcp),
        family => Err(io::Error::other(format!("a passed socket is of an unknown kind: {family:?}"))),
    }
}
