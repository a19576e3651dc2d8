//! The daemon's unix socket: accessible to its owner only, and removed when the daemon ends.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, Mode, flock};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use rustix::process::{geteuid, umask};
use tokio::net::{UnixListener, UnixStream};

use crate::net::auth::{AuthRejection, Caller};

/// How long a socket may still be open after its daemon was killed.
const STALE_GRACE: Duration = Duration::from_millis(500);
/// The time between two attempts to connect.
const PROBE_INTERVAL: Duration = Duration::from_millis(10);

/// Why a unix socket cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum UnixSocketError {
    /// Another process listens there.
    #[error("{} is in use by another process", .0.display())]
    InUse(PathBuf),
    /// The path is a file of another kind.
    #[error("{} exists and is not a socket", .0.display())]
    NotASocket(PathBuf),
    /// The operating system rejects it.
    #[error("cannot listen on {}", path.display())]
    Refused {
        /// The path of the socket.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
}

/// A listening unix socket. Dropping it removes its file, unless that was replaced.
#[derive(Debug)]
pub struct UnixSocket {
    /// The listener.
    pub listener: UnixListener,
    /// The path of the socket.
    pub path: PathBuf,
    /// Device and inode of the file.
    identity: (u64, u64),
}

impl UnixSocket {
    /// Listens at `path`. A stale socket without a listener is replaced.
    pub fn bind(path: &Path) -> Result<UnixSocket, UnixSocketError> {
        let refused = |source| UnixSocketError::Refused { path: path.to_owned(), source };
        // Otherwise two daemons could both find it stale, and the second would remove the socket of the first.
        let _lock = lock_directory(path);
        remove_stale(path)?;
        // With a umask, because other users could connect between bind and chmod.
        let before = umask(Mode::from_raw_mode(0o177));
        let bound = UnixListener::bind(path);
        umask(before);
        let listener = bound.map_err(refused)?;
        let identity = identity(path).map_err(refused)?;
        Ok(UnixSocket { listener, path: path.to_owned(), identity })
    }
}

impl AsRef<UnixListener> for UnixSocket {
    fn as_ref(&self) -> &UnixListener {
        &self.listener
    }
}

impl Drop for UnixSocket {
    fn drop(&mut self) {
        let is_own = identity(&self.path).is_ok_and(|found| found == self.identity);
        if is_own && let Err(error) = std::fs::remove_file(&self.path) {
            tracing::warn!(%error, path = %self.path.display(), "removing the socket failed");
        }
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let found = std::fs::symlink_metadata(path)?;
    Ok((found.dev(), found.ino()))
}

/// Locks the directory of a path against other daemons that are about to listen there. Another user who can open the
/// directory could hold the lock, so it is waited for only as long as a daemon may take.
fn lock_directory(path: &Path) -> Option<File> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let directory = File::open(parent).ok()?;
    let give_up_at = Instant::now() + 4 * STALE_GRACE;
    while flock(&directory, FlockOperation::NonBlockingLockExclusive).is_err() {
        if Instant::now() >= give_up_at {
            return None;
        }
        std::thread::sleep(PROBE_INTERVAL);
    }
    Some(directory)
}

/// Removes a socket that a killed daemon left; any other file stays.
fn remove_stale(path: &Path) -> Result<(), UnixSocketError> {
    let refused = |source| UnixSocketError::Refused { path: path.to_owned(), source };
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(refused(error)),
        Ok(found) if !found.file_type().is_socket() => {
            return Err(UnixSocketError::NotASocket(path.to_owned()));
        }
        Ok(_) => {}
    }
    match probe_for_grace(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path).map_err(refused)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        // Also if its queue is full or another user owns it.
        _ => Err(UnixSocketError::InUse(path.to_owned())),
    }
}

/// Checks for 500 ms that a process listens: a child that a killed daemon was about to start holds the socket until it
/// executes its program.
fn probe_for_grace(path: &Path) -> io::Result<()> {
    let give_up_at = Instant::now() + STALE_GRACE;
    loop {
        let probed = probe(path);
        if probed.is_err() || Instant::now() >= give_up_at {
            return probed;
        }
        std::thread::sleep(PROBE_INTERVAL);
    }
}

/// Checks that a process listens, without waiting: with a full queue the connection would never open.
fn probe(path: &Path) -> io::Result<()> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    Ok(connect(&socket, &SocketAddrUnix::new(path)?)?)
}

/// The caller at the other end, from the kernel's credentials: the user of this daemon, or root. Others are rejected.
pub fn peer_caller(stream: &UnixStream) -> Result<Caller, AuthRejection> {
    let unknown = |error| AuthRejection::user(format!("reading the peer's credentials failed: {error}"));
    let peer = stream.peer_cred().map_err(unknown)?;
    let (uid, own) = (peer.uid(), geteuid().as_raw());
    if uid != own && uid != 0 {
        return Err(AuthRejection::user(format!("user {uid} is neither the user of this daemon nor root")));
    }
    match peer.pid() {
        // Commands of a sandbox are never in a process namespace that this daemon cannot see.
        None | Some(0) => Ok(Caller::user(uid)),
        Some(pid) => refuse_confined(pid, uid == own).map(|()| Caller::user(uid)),
    }
}

fn own_pid() -> i32 {
    rustix::process::getpid().as_raw_nonzero().get()
}

/// Rejects a process that a sandbox confines: through the socket it could have an unconfined process started. The sandbox
/// also hides the socket, but not one that is created while the process runs.
fn refuse_confined(pid: i32, is_own_user: bool) -> Result<(), AuthRejection> {
    match engine::sandbox::is_confined(pid) {
        Ok(false) => Ok(()),
        // A daemon that is confined itself starts nothing outside of its own sandbox.
        Ok(true) if engine::sandbox::is_confined(own_pid()).is_ok_and(|confined| confined) => Ok(()),
        Ok(true) => Err(AuthRejection::confined(format!("process {pid} is confined by a sandbox"))),
        // The system can hide processes of root from other users.
        Err(_hidden) if !is_own_user => Ok(()),
        Err(error) => Err(AuthRejection::confined(format!(
            "whether a sandbox confines process {pid} is unknown: {error}"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_of_many_daemons_replaces_a_stale_socket() {
        let directory = tempfile::tempdir().unwrap();
        for round in 0..3 {
            let path = directory.path().join(format!("s{round}"));
            drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
            let runtime = tokio::runtime::Handle::current();
            let bound: Vec<_> = std::thread::scope(|scope| {
                let bind = || {
                    let _entered = runtime.enter();
                    UnixSocket::bind(&path)
                };
                let daemons: Vec<_> = (0..3).map(|_| scope.spawn(bind)).collect();
                daemons.into_iter().map(|daemon| daemon.join().unwrap()).collect()
            });
            let sockets: Vec<_> = bound.into_iter().filter_map(Result::ok).collect();
            assert_eq!(sockets.len(), 1, "the others find it in use");
            assert_eq!(identity(&path).unwrap(), sockets[0].identity);
        }
    }

    #[test]
    fn a_socket_with_a_full_queue_is_in_use() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("busy");
        let owner = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
        rustix::net::bind(&owner, &SocketAddrUnix::new(&path).unwrap()).unwrap();
        rustix::net::listen(&owner, 0).unwrap();
        // The listener never accepts, so its queue is full after a few connections.
        assert!((0..100).any(|_| is_full(&path)), "the queue never fills");
        assert!(matches!(UnixSocket::bind(&path), Err(UnixSocketError::InUse(_))));
    }

    /// Connects once; true if the queue was full. The connection stays in the queue.
    fn is_full(path: &Path) -> bool {
        probe(path).is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    }
}
