//! Private directories and files, and the start time that distinguishes a process from a later one with the same pid.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use engine::files::Durability;
use engine::process::{is_reaped, own_start_time, stat_fields};
use rustix::fs::{Mode, OFlags};

/// A builder for directories with mode 0700.
pub(crate) fn private_dir_builder() -> DirBuilder {
    let mut builder = DirBuilder::new();
    builder.mode(0o700);
    builder
}

/// Creates a directory and its parents with mode 0700, and checks the result with [`check_private_dir`].
pub(crate) fn create_private_dir(dir: &Path) -> io::Result<()> {
    private_dir_builder().recursive(true).create(dir)?;
    check_private_dir(dir)
}

/// Checks that a directory belongs to this user and has no permissions for others: its contents are trusted.
pub(crate) fn check_private_dir(dir: &Path) -> io::Result<()> {
    let found = std::fs::symlink_metadata(dir)?;
    let is_own = found.uid() == rustix::process::geteuid().as_raw();
    if is_own && found.is_dir() && found.mode() & 0o077 == 0 {
        return Ok(());
    }
    let reason = format!("{} must be a directory owned by this user, with mode 0700", dir.display());
    Err(io::Error::new(io::ErrorKind::PermissionDenied, reason))
}

/// Replaces a file with mode 0600: a reader sees the old contents or the new ones. Blocks.
pub(crate) fn replace_private_file(path: &Path, contents: &[u8], durability: Durability) -> io::Result<()> {
    let mut draft = path.as_os_str().to_owned();
    draft.push("-draft");
    let written =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft).and_then(
            |mut file| {
                file.write_all(contents)?;
                match durability {
                    Durability::Synced => file.sync_data()?,
                    Durability::Relaxed => {}
                }
                std::fs::rename(&draft, path)
            },
        );
    if written.is_err() {
        // The error of the write is the one to report.
        let _removed = std::fs::remove_file(&draft);
    }
    written
}

/// Replaces the standard streams with `/dev/null`, so that a reader of the old ones sees the end of file.
pub(crate) fn detach_standard_streams() -> io::Result<()> {
    let null = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    rustix::stdio::dup2_stderr(&null)?;
    Ok(())
}

/// The name of this process on this machine: its pid and start time.
pub(crate) fn own_name() -> &'static str {
    static NAME: OnceLock<String> = OnceLock::new();
    NAME.get_or_init(|| format!("{}.{}", std::process::id(), own_start_time()))
}

/// Whether the process with this [name](own_name) runs, as far as can be known.
pub(crate) fn is_running(name: &str) -> bool {
    let name = name.split_once('.').and_then(|(pid, start)| Some((pid.parse().ok()?, start.parse().ok()?)));
    name.is_some_and(|(pid, start)| !is_reaped(pid, start))
}

/// Whether a process is a child of `parent` and has not exited, as far as can be known.
pub(crate) fn is_running_child(pid: u32, parent: u32) -> bool {
    let fields = match stat_fields(pid) {
        Ok(Some(fields)) => fields,
        Ok(None) => return false,
        Err(_) => return true,
    };
    let mut fields = fields.split_whitespace();
    let (state, found) = (fields.next(), fields.next());
    !matches!(state, Some("Z" | "X")) && found.is_some_and(|found| found == parent.to_string())
}

/// Milliseconds since the Unix epoch; times before it become 0.
pub(crate) fn to_ms(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
