//! Notifies the service manager of the daemon's state, over the socket in `NOTIFY_SOCKET`.
//!
//! Without that variable nothing is sent. The datagrams are lines of `NAME=value`; a leading `@` means an abstract
//! socket.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// The variable with the socket. Commands do not inherit it, because they are not the daemon.
pub const VARIABLE: &str = "NOTIFY_SOCKET";
/// The timeout of a send while the queue of the service manager is full.
const SEND_TIMEOUT: Duration = Duration::from_secs(1);

/// The socket of the service manager, if there is one.
#[derive(Debug, Default)]
pub struct Notify {
    manager: Option<(UnixDatagram, SocketAddr)>,
}

impl Notify {
    /// The socket of the environment. One that cannot be used is logged and ignored.
    pub fn from_environment() -> Notify {
        match std::env::var_os(VARIABLE).filter(|name| !name.is_empty()) {
            None => Notify::default(),
            Some(name) => Notify::to(&name).unwrap_or_else(|error| {
                tracing::warn!(%error, socket = ?name, "cannot notify the service manager");
                Notify::default()
            }),
        }
    }

    /// Sends to this socket: a path, or `@` and the name of an abstract one.
    pub fn to(name: &OsStr) -> io::Result<Notify> {
        let address = match name.as_bytes() {
            [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
            [b'/', ..] => SocketAddr::from_pathname(name)?,
            _ => return Err(io::ErrorKind::InvalidInput.into()),
        };
        let socket = UnixDatagram::unbound()?;
        socket.set_write_timeout(Some(SEND_TIMEOUT))?;
        Ok(Notify { manager: Some((socket, address)) })
    }

    /// The listeners are open; `status` is one line for people.
    pub fn ready(&self, status: &str) {
        self.send(&[("READY", "1"), ("STATUS", status)]);
    }

    /// The configuration is being reloaded; [`Notify::ready`] follows.
    pub fn reloading(&self) {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let micros = now.tv_sec.saturating_mul(1_000_000).saturating_add(now.tv_nsec / 1_000);
        self.send(&[("RELOADING", "1"), ("MONOTONIC_USEC", &micros.to_string())]);
    }

    /// The daemon stops: it accepts no connections and drains the open ones.
    pub fn stopping(&self) {
        self.send(&[("STOPPING", "1"), ("STATUS", "draining connections")]);
    }

    fn send(&self, lines: &[(&str, &str)]) {
        let Some((socket, manager)) = &self.manager else { return };
        let mut message = String::new();
        for (name, value) in lines {
            // A line end would start another assignment. Writing to a string cannot fail.
            let _written = writeln!(message, "{name}={}", value.replace(['\n', '\r'], " "));
        }
        if let Err(error) = socket.send_to_addr(message.as_bytes(), manager) {
            tracing::warn!(%error, "cannot notify the service manager of {:?}", message.trim_end());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received(manager: &UnixDatagram) -> String {
        let mut bytes = [0; 1_024];
        let length = manager.recv(&mut bytes).unwrap();
        String::from_utf8(bytes[..length].to_vec()).unwrap()
    }

    fn sends_every_state(notify: &Notify, manager: &UnixDatagram) {
        notify.ready("listening on 2\nREADY=0");
        assert_eq!(received(manager), "READY=1\nSTATUS=listening on 2 READY=0\n");
        notify.reloading();
        let reloading = received(manager);
        let micros = reloading.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").unwrap().trim_end();
        assert!(micros.parse::<u64>().unwrap() > 0, "{reloading}");
        notify.stopping();
        assert!(received(manager).starts_with("STOPPING=1\n"));
    }

    #[test]
    fn a_manager_at_a_path_is_notified() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notify");
        let manager = UnixDatagram::bind(&path).unwrap();
        sends_every_state(&Notify::to(path.as_os_str()).unwrap(), &manager);
    }

    #[test]
    fn a_manager_at_an_abstract_name_is_notified() {
        let directory = tempfile::tempdir().unwrap();
        // The name of the directory is unique.
        let name = directory.path().display().to_string();
        let manager = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        sends_every_state(&Notify::to(OsStr::new(&format!("@{name}"))).unwrap(), &manager);
    }

    #[test]
    fn without_a_manager_nothing_is_sent() {
        Notify::default().ready("listening");
        for name in ["relative/path", "vsock:2:1234", ""] {
            assert!(Notify::to(OsStr::new(name)).is_err(), "{name}");
        }
        // A missing one is logged.
        let gone = tempfile::tempdir().unwrap().path().join("gone");
        Notify::to(gone.as_os_str()).unwrap().ready("listening");
    }
}
