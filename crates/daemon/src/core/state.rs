//! State: directories that are the daemon's alone, and what tells one process from another with its number.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{Mode, OFlags};

/// Makes directories that only this user may enter.
pub(crate) fn private_dir_builder() -> DirBuilder {
    let mut builder = DirBuilder::new();
    builder.mode(0o700);
    builder
}

/// Makes a directory with everything above it, and sees that it is ours alone.
pub(crate) fn create_private_dir(dir: &Path) -> io::Result<()> {
    private_dir_builder().recursive(true).create(dir)?;
    check_private_dir(dir)
}

/// Whether a directory is ours alone: what lies in it is trusted.
pub(crate) fn check_private_dir(dir: &Path) -> io::Result<()> {
    let found = std::fs::symlink_metadata(dir)?;
    let is_own = found.uid() == rustix::process::geteuid().as_raw();
    if is_own && found.is_dir() && found.mode() & 0o077 == 0 {
        return Ok(());
    }
    let reason = format!("{} must be a directory of this user with mode 0700", dir.display());
    Err(io::Error::new(io::ErrorKind::PermissionDenied, reason))
}

/// Puts nothing in the place of the standard streams, so that whoever waits for their end sees it.
pub(crate) fn detach_standard_streams() -> io::Result<()> {
    let null = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    rustix::stdio::dup2_stderr(&null)?;
    Ok(())
}

/// When a process started, in the kernel's ticks since boot; nothing if there is none.
pub(crate) fn process_start(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name may hold anything, even parentheses: the fields begin after its last one.
    stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

/// Milliseconds since the epoch, as files have them.
pub(crate) fn to_ms(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
