//! Socket activation: sockets opened by a service manager, descriptors 3 and up, counted by `LISTEN_FDS`.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{FileType, fstat};

/// The first descriptor of the protocol.
const FIRST: RawFd = 3;
/// Sockets accepted: 1,024; a larger count is ignored.
const MAX_SOCKETS: RawFd = 1_024;

static TAKEN: AtomicBool = AtomicBool::new(false);

/// The sockets that were passed to this very process, in their order, closed in everything it starts. Only the first
/// call finds any. Nothing else may have touched these descriptors: call it before the first file is opened by number.
#[expect(unsafe_code, reason = "a descriptor is known by its number only")]
pub fn activation_sockets() -> io::Result<Vec<OwnedFd>> {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<RawFd>().ok());
    let is_for_us = number("LISTEN_PID") == i32::try_from(std::process::id()).ok();
    let count = number("LISTEN_FDS").filter(|count| (1..=MAX_SOCKETS).contains(count));
    let Some(count) = count.filter(|_| is_for_us && !TAKEN.swap(true, Ordering::SeqCst)) else {
        return Ok(Vec::new());
    };
    let mut sockets = Vec::new();
    for number in FIRST..FIRST + count {
        // SAFETY: the manager opened these for this process, by the protocol that the variables belong to, and they
        // are taken only once. A number that is not open is refused below, before anything else is done with it.
        let socket = unsafe { OwnedFd::from_raw_fd(number) };
        if let Err(error) = close_on_exec(&socket) {
            // Not ours, so not to be closed.
            std::mem::forget(socket);
            return Err(io::Error::new(error.kind(), format!("descriptor {number} was not passed: {error}")));
        }
        sockets.push(socket);
    }
    Ok(sockets)
}

fn close_on_exec(socket: &OwnedFd) -> io::Result<()> {
    if FileType::from_raw_mode(fstat(socket)?.st_mode) != FileType::Socket {
        return Err(io::Error::other("not a socket"));
    }
    Ok(rustix::io::fcntl_setfd(socket, rustix::io::FdFlags::CLOEXEC)?)
}
