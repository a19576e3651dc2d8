//! A unix socket of our own: for its owner only from the first moment, and gone when we are.

use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::Mode;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use rustix::process::{geteuid, umask};
use tokio::net::{UnixListener, UnixStream};

use crate::net::auth::{Caller, Refusal};

/// How long a socket may still be open after its daemon was killed.
const A_MOMENT: Duration = Duration::from_millis(500);
const BETWEEN_KNOCKS: Duration = Duration::from_millis(10);

/// Why a unix socket cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum UnixError {
    /// Somebody listens there.
    #[error("{} is in use: something listens there", path.display())]
    InUse {
        /// The socket.
        path: PathBuf,
    },
    /// There is something else.
    #[error("{} is in the way: it is no socket", path.display())]
    NoSocket {
        /// What is in the way.
        path: PathBuf,
    },
    /// The system refuses it.
    #[error("cannot listen on {}", path.display())]
    Refused {
        /// The socket.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// A listening unix socket. Dropping it removes its file, if that is still its own.
#[derive(Debug)]
pub struct Unix {
    /// What accepts.
    pub listener: UnixListener,
    path: PathBuf,
    /// Device and number of the file.
    own: (u64, u64),
}

impl Unix {
    /// Listens at `path`. A socket that nobody listens on any more is replaced.
    pub fn bind(path: &Path) -> Result<Unix, UnixError> {
        let refused = |source| UnixError::Refused { path: path.to_owned(), source };
        make_room(path)?;
        // The file must never be open to others, not even between bind and chmod.
        let before = umask(Mode::from_raw_mode(0o177));
        let bound = UnixListener::bind(path);
        umask(before);
        let listener = bound.map_err(refused)?;
        let own = identity(path).map_err(refused)?;
        Ok(Unix { listener, path: path.to_owned(), own })
    }

    /// Where it listens.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl AsRef<UnixListener> for Unix {
    fn as_ref(&self) -> &UnixListener {
        &self.listener
    }
}

impl Drop for Unix {
    fn drop(&mut self) {
        let is_own = identity(&self.path).is_ok_and(|found| found == self.own);
        if is_own && let Err(error) = std::fs::remove_file(&self.path) {
            tracing::warn!(%error, path = %self.path.display(), "the socket stays behind");
        }
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let found = std::fs::symlink_metadata(path)?;
    Ok((found.dev(), found.ino()))
}

/// Removes what a daemon left that could not clean up; anything else stays.
fn make_room(path: &Path) -> Result<(), UnixError> {
    let refused = |source| UnixError::Refused { path: path.to_owned(), source };
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(refused(error)),
        Ok(found) if !found.file_type().is_socket() => {
            return Err(UnixError::NoSocket { path: path.to_owned() });
        }
        Ok(_) => {}
    }
    match knock_patiently(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path).map_err(refused)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        // Also when it is too busy to answer, or belongs to somebody else.
        _ => Err(UnixError::InUse { path: path.to_owned() }),
    }
}

/// Whether somebody listens, and goes on listening: a child that a killed daemon had begun to start has its socket for
/// the moment until it becomes another program.
fn knock_patiently(path: &Path) -> io::Result<()> {
    let give_up_at = Instant::now() + A_MOMENT;
    loop {
        let knocked = knock(path);
        if knocked.is_err() || Instant::now() >= give_up_at {
            return knocked;
        }
        std::thread::sleep(BETWEEN_KNOCKS);
    }
}

/// Whether somebody listens. Does not wait: one whose queue is full would never open.
fn knock(path: &Path) -> io::Result<()> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    Ok(connect(&socket, &SocketAddrUnix::new(path)?)?)
}

/// Who is at the other end, as the kernel says: the user this daemon runs as, or root. Others are turned away.
pub fn peer(stream: &UnixStream) -> Result<Caller, Refusal> {
    let unknown = |error| Refusal::user(format!("the kernel does not say who it is: {error}"));
    let peer = stream.peer_cred().map_err(unknown)?;
    let uid = peer.uid();
    match uid == geteuid().as_raw() || uid == 0 {
        true => Ok(Caller::user(uid)),
        false => {
            Err(Refusal::user(format!("the user {uid} is neither the one this daemon runs as nor root")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_whose_owner_is_too_busy_is_in_use() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("busy");
        let owner = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
        rustix::net::bind(&owner, &SocketAddrUnix::new(&path).unwrap()).unwrap();
        rustix::net::listen(&owner, 0).unwrap();
        // Nobody accepts: its queue is full after a few.
        assert!((0..100).any(|_| knock_and_stay(&path)), "the queue never fills");
        assert!(matches!(Unix::bind(&path), Err(UnixError::InUse { .. })));
    }

    /// Whether there was no room any more. Who knocked stays in the queue, gone or not.
    fn knock_and_stay(path: &Path) -> bool {
        knock(path).is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    }
}
