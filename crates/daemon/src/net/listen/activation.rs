//! Sockets that a service manager passes: TCP or unix.

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, getsockname, sockopt};
use tokio::net::{TcpListener, UnixListener};

/// A listening socket from the service manager.
#[derive(Debug)]
pub enum PassedListener {
    /// Serves HTTP and WebSocket.
    Tcp(TcpListener),
    /// Serves newline-delimited JSON.
    Unix(UnixListener),
}

/// Converts the sockets that were passed to this process. Must be called within a tokio runtime.
pub fn passed(sockets: Vec<OwnedFd>) -> io::Result<Vec<PassedListener>> {
    sockets.into_iter().map(listener).collect()
}

/// The paths of the unix sockets among those that were passed.
pub fn passed_paths(sockets: &[OwnedFd]) -> Vec<PathBuf> {
    let path = |socket: &OwnedFd| {
        let address = SocketAddrUnix::try_from(getsockname(socket).ok()?).ok()?;
        Some(PathBuf::from(OsStr::from_bytes(address.path_bytes()?)))
    };
    sockets.iter().filter_map(path).collect()
}

fn listener(socket: OwnedFd) -> io::Result<PassedListener> {
    let kind = sockopt::socket_type(&socket)?;
    if kind != SocketType::STREAM || !sockopt::socket_acceptconn(&socket)? {
        return Err(io::Error::other(
            "a passed socket is not a listening stream socket; set Accept=no in its unit",
        ));
    }
    rustix::io::ioctl_fionbio(&socket, true)?;
    match getsockname(&socket)?.address_family() {
        AddressFamily::UNIX => UnixListener::from_std(socket.into()).map(PassedListener::Unix),
        AddressFamily::INET | AddressFamily::INET6 => {
            TcpListener::from_std(socket.into()).map(PassedListener::Tcp)
        }
        family => {
            Err(io::Error::other(format!("a passed socket has an unsupported address family: {family:?}")))
        }
    }
}
