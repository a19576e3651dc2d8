//! Private sockets below the state directory, through which the daemons of one user reach each other.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::path::PathBuf;
use std::time::Duration;

use rustix::fs::{AtFlags, Mode, OFlags, Timespec, Timestamps};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use tokio::net::unix::SocketAddr;
use tokio::net::{UnixListener, UnixStream};

use crate::core::state;

/// The extension of a socket's name.
const EXTENSION: &str = ".sock";
/// Connections that wait to be accepted.
const BACKLOG: i32 = 16;
/// Stale sockets that are checked when a new one is created.
const MAX_CHECKED: usize = 64;
/// A socket without a listener is removed after this time: its daemon may be about to listen, or its name must not be used
/// again.
pub(super) const STALE_AFTER: Duration = Duration::from_secs(60);

/// A directory of sockets that only this user can reach. Each is named by a prefix and twelve hexadecimal digits.
#[derive(Debug, Clone)]
pub(crate) struct SocketDir {
    directory: PathBuf,
    prefix: &'static str,
}

impl SocketDir {
    /// The sockets in `directory` whose ids start with `prefix`.
    pub(crate) fn new(directory: PathBuf, prefix: &'static str) -> SocketDir {
        SocketDir { directory, prefix }
    }

    /// Creates the directory, accessible to this user only.
    pub(super) fn create(&self) -> io::Result<()> {
        state::create_private_dir(&self.directory)
    }

    /// Checks that the directory exists and is accessible to this user only.
    pub(super) fn check(&self) -> io::Result<()> {
        state::check_private_dir(&self.directory)
    }

    /// Creates the socket with this id, and removes stale ones.
    pub(super) fn bind(&self, id: &str) -> io::Result<BoundSocket> {
        self.create()?;
        let name = self.name_of(id).ok_or(io::ErrorKind::InvalidInput)?;
        let directory = self.open()?;
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        // Before it has a name: the name gets these rights, whatever the umask is.
        rustix::fs::fchmod(&socket, Mode::from_raw_mode(0o600))?;
        rustix::net::bind(&socket, &address(&directory, &name)?)?;
        let bound = BoundSocket { socket, file: SocketName { directory, name } };
        rustix::net::listen(&bound.socket, BACKLOG)?;
        self.remove_stale(&bound.file);
        Ok(bound)
    }

    /// Creates the socket with this id, which no other process of this user may have: it listens before it has the name.
    pub(super) fn reserve(&self, id: &str) -> io::Result<BoundSocket> {
        let name = self.name_of(id).ok_or(io::ErrorKind::InvalidInput)?;
        let temporary = engine::session::random_name().map_err(io::Error::other)?;
        let BoundSocket { socket, file } = self.bind(&format!("{}{temporary}", self.prefix))?;
        let directory = file.directory.as_fd().try_clone_to_owned()?;
        rustix::fs::linkat(&directory, &file.name, &directory, &name, AtFlags::empty())?;
        Ok(BoundSocket { socket, file: SocketName { directory, name } })
    }

    /// The ids of all sockets, at most `limit` of them. Some may be stale.
    pub(super) fn ids(&self, limit: usize) -> io::Result<Vec<String>> {
        self.check()?;
        let entries = std::fs::read_dir(&self.directory)?.flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let ids = names.filter_map(|name| self.id_of(&name).map(str::to_owned));
        Ok(ids.take(limit).collect())
    }

    /// Connects to the socket with this id, if there is one; never to one of another user.
    pub(super) async fn connect(&self, id: &str) -> io::Result<UnixStream> {
        let name = self.name_of(id).ok_or(io::ErrorKind::InvalidInput)?;
        self.check()?;
        let directory = self.open()?;
        let stream = UnixStream::connect(named(&directory, &name)).await?;
        match stream.peer_cred()?.uid() == rustix::process::geteuid().as_raw() {
            true => Ok(stream),
            false => {
                Err(io::Error::new(io::ErrorKind::PermissionDenied, "the socket belongs to another user"))
            }
        }
    }

    /// The file name of a socket; `None` for text that is not an id, which never becomes part of a path.
    fn name_of(&self, id: &str) -> Option<String> {
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        let is_ours =
            id.strip_prefix(self.prefix).is_some_and(|rest| rest.len() == 12 && rest.bytes().all(is_digit));
        is_ours.then(|| format!("{id}{EXTENSION}"))
    }

    fn id_of<'a>(&self, name: &'a str) -> Option<&'a str> {
        name.strip_suffix(EXTENSION).filter(|id| self.name_of(id).is_some())
    }

    /// A descriptor of the directory, so that a socket in it has a short name.
    fn open(&self) -> io::Result<OwnedFd> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(rustix::fs::open(&self.directory, flags, Mode::empty())?)
    }

    /// Removes sockets without a listener.
    fn remove_stale(&self, own: &SocketName) {
        let entries = std::fs::read_dir(&self.directory).into_iter().flatten().flatten();
        for entry in entries.take(MAX_CHECKED) {
            let name = entry.file_name();
            let Some(name) = name.to_str().filter(|name| *name != own.name && self.id_of(name).is_some())
            else {
                continue;
            };
            let changed = entry.metadata().and_then(|found| found.modified());
            let is_old = changed.is_ok_and(|time| time.elapsed().is_ok_and(|age| age > STALE_AFTER));
            if is_old && is_dead(&own.directory, name) {
                // Another process may have removed it.
                let _removed = rustix::fs::unlinkat(&own.directory, name, AtFlags::empty());
            }
        }
    }
}

/// A socket that has a name and takes connections. Dropping it removes the name.
#[derive(Debug)]
pub(super) struct BoundSocket {
    socket: OwnedFd,
    file: SocketName,
}

impl BoundSocket {
    /// The socket and its name, which is removed separately. Must be called within a tokio runtime.
    pub(super) fn into_parts(self) -> io::Result<(ListeningSocket, SocketName)> {
        let BoundSocket { socket, file } = self;
        let listener = UnixListener::from_std(socket.into())?;
        Ok((ListeningSocket { listener, _file: None }, file))
    }
}

/// A name in the directory, removed when this is dropped.
#[derive(Debug)]
pub(crate) struct SocketName {
    directory: OwnedFd,
    name: String,
}

impl SocketName {
    /// Leaves the name: no other process gets it until it counts as stale, from now on.
    pub(crate) fn leave(mut self) {
        let name = std::mem::take(&mut self.name);
        let now = Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_NOW };
        let times = Timestamps { last_access: now, last_modification: now };
        if let Err(error) = rustix::fs::utimensat(&self.directory, &name, &times, AtFlags::SYMLINK_NOFOLLOW) {
            tracing::debug!(%error, name, "the time of a socket could not be changed");
        }
    }
}

impl Drop for SocketName {
    fn drop(&mut self) {
        if self.name.is_empty() {
            return;
        }
        if let Err(error) = rustix::fs::unlinkat(&self.directory, self.name.as_str(), AtFlags::empty()) {
            tracing::debug!(%error, name = self.name, "a socket could not be removed");
        }
    }
}

/// A listening socket. Dropping it removes its name, unless that was [separated](BoundSocket::into_parts).
#[derive(Debug)]
pub(crate) struct ListeningSocket {
    listener: UnixListener,
    _file: Option<SocketName>,
}

impl ListeningSocket {
    /// Must be called within a tokio runtime.
    pub(super) fn listen(bound: BoundSocket) -> io::Result<ListeningSocket> {
        let (socket, file) = bound.into_parts()?;
        Ok(ListeningSocket { _file: Some(file), ..socket })
    }

    pub(super) async fn accept(&self) -> io::Result<(UnixStream, SocketAddr)> {
        self.listener.accept().await
    }
}

/// A socket in the directory, named through a descriptor: the whole path may be too long for the kernel.
fn named(directory: &OwnedFd, name: &str) -> String {
    format!("/proc/self/fd/{}/{name}", directory.as_raw_fd())
}

fn address(directory: &OwnedFd, name: &str) -> io::Result<SocketAddrUnix> {
    Ok(SocketAddrUnix::new(named(directory, name))?)
}

/// Whether no process listens. Does not wait: a socket whose queue is full has a listener.
fn is_dead(directory: &OwnedFd, name: &str) -> bool {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let connected = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
        .map_err(io::Error::from)
        .and_then(|socket| Ok(rustix::net::connect(&socket, &address(directory, name)?)?));
    connected.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn sessions(state: &Path) -> SocketDir {
        SocketDir::new(state.join("sessions"), "s_")
    }

    #[test]
    fn only_ids_become_part_of_a_path() {
        let dir = SocketDir::new(PathBuf::from("/nowhere"), "s_");
        assert_eq!(dir.name_of("s_0123456789ab").as_deref(), Some("s_0123456789ab.sock"));
        let long = format!("s_{}", "a".repeat(200));
        for hostile in [
            "",
            "s_",
            "../../x",
            "s_../../../ab",
            "s_0123456789a",
            "s_0123456789abc",
            "s_0123456789aB",
            "s_0123456789a\0",
            "s_0123456789a/",
            "p_0123456789ab",
            " s_0123456789ab",
            "s_0123456789á",
            &long,
        ] {
            assert_eq!(dir.name_of(hostile), None, "{hostile:?}");
        }
    }

    #[test]
    fn only_old_sockets_without_a_listener_are_removed() {
        let state = tempfile::tempdir().unwrap();
        let sockets = sessions(state.path());
        let living = sockets.bind("s_000000000001").unwrap();
        let file = |name: &str| state.path().join("sessions").join(name);
        let dead = |name: &str, age: Duration| {
            drop(std::os::unix::net::UnixListener::bind(file(name)).unwrap());
            let time = std::time::SystemTime::now() - age;
            let times = rustix::fs::Timestamps { last_access: stamp(time), last_modification: stamp(time) };
            rustix::fs::utimensat(rustix::fs::CWD, file(name), &times, AtFlags::empty()).unwrap();
        };
        let old = STALE_AFTER * 2;
        dead("s_000000000002.sock", old);
        dead("s_000000000003.sock", Duration::ZERO);
        dead("other.sock", old);
        let bound = sockets.bind("s_000000000004").unwrap();
        let found = |name: &str| file(name).exists();
        assert!(!found("s_000000000002.sock"), "no listener");
        assert!(found("s_000000000003.sock"), "a listener may follow");
        assert!(found("other.sock"), "not one of ours");
        assert!(found("s_000000000001.sock") && found("s_000000000004.sock"));
        drop((living, bound));
        assert!(!found("s_000000000001.sock") && !found("s_000000000004.sock"), "gone with their sessions");
    }

    fn stamp(time: std::time::SystemTime) -> rustix::fs::Timespec {
        let since = time.duration_since(std::time::UNIX_EPOCH).unwrap();
        rustix::fs::Timespec { tv_sec: since.as_secs() as i64, tv_nsec: 0 }
    }

    #[test]
    fn a_socket_is_for_its_owner_only() {
        use std::os::unix::fs::PermissionsExt as _;
        let state = tempfile::tempdir().unwrap();
        // Longer than any address may be.
        let state = state.path().join("x".repeat(150));
        let sockets = sessions(&state);
        let _bound = sockets.bind("s_0123456789ab").unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&state.join("sessions")), 0o700);
        assert_eq!(mode(&state.join("sessions").join("s_0123456789ab.sock")), 0o600);
    }
}
