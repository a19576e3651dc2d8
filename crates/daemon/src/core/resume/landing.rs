//! Landing: the socket at which a session is reached after its streams were cut, and the folder of all of them.

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use tokio::net::unix::SocketAddr;
use tokio::net::{UnixListener, UnixStream};

use crate::core::state;

/// The folder below the state folder.
const FOLDER: &str = "sessions";
/// What the name of a landing ends with.
const ENDING: &str = ".sock";
/// Connections that may wait to be taken.
const BACKLOG: i32 = 16;
/// Sockets of others that are looked at when one is made; more are left for the next time.
const MOST_SWEPT: usize = 64;
/// A socket that nobody listens at is left alone for so long: somebody may be about to.
const SWEPT_AFTER: Duration = Duration::from_secs(60);

/// Where the landings of a user are.
#[derive(Debug, Clone)]
pub struct Landings {
    folder: PathBuf,
}

impl Landings {
    /// Those below a state folder.
    pub fn new(state: &Path) -> Landings {
        Landings { folder: state.join(FOLDER) }
    }

    /// Makes the folder, for this user alone.
    pub(super) fn make(&self) -> io::Result<()> {
        state::create_private_dir(&self.folder)
    }

    /// Whether the folder is there, for this user alone.
    pub(super) fn check(&self) -> io::Result<()> {
        state::check_private_dir(&self.folder)
    }

    /// Makes the landing of a session, and removes some that others left behind.
    pub(super) fn bind(&self, session: &str) -> io::Result<Bound> {
        self.make()?;
        let name = name_of(session).ok_or(io::ErrorKind::InvalidInput)?;
        let folder = self.open()?;
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        // Before it has a name: the name gets these rights, whatever the umask is.
        rustix::fs::fchmod(&socket, Mode::from_raw_mode(0o600))?;
        rustix::net::bind(&socket, &address(&folder, &name)?)?;
        let bound = Bound { socket, place: Place { folder, name } };
        rustix::net::listen(&bound.socket, BACKLOG)?;
        self.sweep(&bound.place);
        Ok(bound)
    }

    /// Connects to the landing of a session, if it has one. Never to one of another user.
    pub(super) async fn reach(&self, session: &str) -> io::Result<UnixStream> {
        let name = name_of(session).ok_or(io::ErrorKind::NotFound)?;
        self.check()?;
        let folder = self.open()?;
        let stream = UnixStream::connect(named(&folder, &name)).await?;
        match stream.peer_cred()?.uid() == rustix::process::geteuid().as_raw() {
            true => Ok(stream),
            false => Err(io::Error::new(io::ErrorKind::PermissionDenied, "it belongs to another user")),
        }
    }

    /// The folder itself, so that a socket in it can be named in few bytes.
    fn open(&self) -> io::Result<OwnedFd> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(rustix::fs::open(&self.folder, flags, Mode::empty())?)
    }

    /// Removes sockets that nobody listens at any more.
    fn sweep(&self, own: &Place) {
        let entries = std::fs::read_dir(&self.folder).into_iter().flatten().flatten();
        for entry in entries.take(MOST_SWEPT) {
            let name = entry.file_name();
            let Some(name) = name.to_str().filter(|name| *name != own.name && is_name(name)) else {
                continue;
            };
            let changed = entry.metadata().and_then(|found| found.modified());
            let is_old = changed.is_ok_and(|time| time.elapsed().is_ok_and(|age| age > SWEPT_AFTER));
            if is_old && is_dead(&own.folder, name) {
                // Somebody else may have been faster.
                let _removed = rustix::fs::unlinkat(&own.folder, name, AtFlags::empty());
            }
        }
    }
}

/// A socket that has a name and takes connections. Dropping it removes the name.
#[derive(Debug)]
pub(super) struct Bound {
    socket: OwnedFd,
    place: Place,
}

/// A name in the folder, removed when this is dropped.
#[derive(Debug)]
struct Place {
    folder: OwnedFd,
    name: String,
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Err(error) = rustix::fs::unlinkat(&self.folder, self.name.as_str(), AtFlags::empty()) {
            tracing::debug!(%error, name = self.name, "a landing stays behind");
        }
    }
}

/// The socket at which one session is reached.
#[derive(Debug)]
pub(super) struct Landing {
    listener: UnixListener,
    _place: Place,
}

impl Landing {
    /// Must be called within a tokio runtime.
    pub(super) fn listen(bound: Bound) -> io::Result<Landing> {
        let Bound { socket, place } = bound;
        Ok(Landing { listener: UnixListener::from_std(socket.into())?, _place: place })
    }

    pub(super) async fn accept(&self) -> io::Result<(UnixStream, SocketAddr)> {
        self.listener.accept().await
    }
}

/// The name of a session's landing; nothing for what cannot be the name of a session, which never becomes part of a path.
fn name_of(session: &str) -> Option<String> {
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    let is_ours =
        session.strip_prefix("s_").is_some_and(|rest| rest.len() == 12 && rest.bytes().all(is_digit));
    is_ours.then(|| format!("{session}{ENDING}"))
}

fn is_name(name: &str) -> bool {
    name.strip_suffix(ENDING).is_some_and(|session| name_of(session).is_some())
}

/// A socket in the folder, named through a descriptor: the whole path may be longer than the kernel takes.
fn named(folder: &OwnedFd, name: &str) -> String {
    format!("/proc/self/fd/{}/{name}", folder.as_raw_fd())
}

fn address(folder: &OwnedFd, name: &str) -> io::Result<SocketAddrUnix> {
    Ok(SocketAddrUnix::new(named(folder, name))?)
}

/// Whether nobody listens. Does not wait: one whose queue is full is alive.
fn is_dead(folder: &OwnedFd, name: &str) -> bool {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let knocked = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
        .map_err(io::Error::from)
        .and_then(|socket| Ok(rustix::net::connect(&socket, &address(folder, name)?)?));
    knocked.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_sessions_become_part_of_a_path() {
        assert_eq!(name_of("s_0123456789ab").as_deref(), Some("s_0123456789ab.sock"));
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
            assert_eq!(name_of(hostile), None, "{hostile:?}");
        }
    }

    #[test]
    fn what_a_dead_daemon_left_is_swept_and_what_lives_or_is_young_or_foreign_stays() {
        let state = tempfile::tempdir().unwrap();
        let landings = Landings::new(state.path());
        let living = landings.bind("s_000000000001").unwrap();
        let file = |name: &str| state.path().join(FOLDER).join(name);
        let dead = |name: &str, age: Duration| {
            drop(std::os::unix::net::UnixListener::bind(file(name)).unwrap());
            let time = std::time::SystemTime::now() - age;
            let times = rustix::fs::Timestamps { last_access: stamp(time), last_modification: stamp(time) };
            rustix::fs::utimensat(rustix::fs::CWD, file(name), &times, AtFlags::empty()).unwrap();
        };
        let old = SWEPT_AFTER * 2;
        dead("s_000000000002.sock", old);
        dead("s_000000000003.sock", Duration::ZERO);
        dead("other.sock", old);
        let bound = landings.bind("s_000000000004").unwrap();
        let found = |name: &str| file(name).exists();
        assert!(!found("s_000000000002.sock"), "nobody listens there");
        assert!(found("s_000000000003.sock"), "somebody may be about to listen");
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
    fn a_landing_is_for_its_owner_only() {
        use std::os::unix::fs::PermissionsExt as _;
        let state = tempfile::tempdir().unwrap();
        // Longer than any address may be.
        let state = state.path().join("x".repeat(150));
        let landings = Landings::new(&state);
        let _bound = landings.bind("s_0123456789ab").unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&state.join(FOLDER)), 0o700);
        assert_eq!(mode(&state.join(FOLDER).join("s_0123456789ab.sock")), 0o600);
    }
}
