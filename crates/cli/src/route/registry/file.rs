//! The registry file: locked while it is changed, replaced atomically.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;

use crate::failure::Failure;

/// The mode of a registry that `rex` creates.
const MODE: u32 = 0o600;

/// Runs `work` while this process holds the lock. `work` receives the path with symbolic links resolved.
pub(super) fn locked<T>(path: &Path, work: impl FnOnce(&Path) -> Result<T, Failure>) -> Result<T, Failure> {
    let path = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let lock = lock_file(&path).map_err(|error| {
        Failure::new(format!("cannot change the registry {}: {error}", path.display()))
            .hint("make its directory writable, or set REXD_TARGETS_FILE to another file")
    })?;
    let done = work(&path);
    drop(lock);
    done
}

/// Locks the file beside `path`; dropping the returned file releases the lock. Blocks while another process holds it.
pub(crate) fn lock_file(path: &Path) -> io::Result<File> {
    if let Some(dir) = parent_of(path) {
        std::fs::create_dir_all(dir)?;
    }
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    let file = OpenOptions::new().create(true).truncate(false).write(true).mode(MODE).open(name)?;
    // The lock is held only while one small file is written, or while one token is renewed.
    rustix::fs::flock(&file, FlockOperation::LockExclusive)?;
    Ok(file)
}

/// Replaces the file atomically.
pub(super) fn replace(path: &Path, text: &str) -> Result<(), Failure> {
    write_atomically(path, text.as_bytes(), MODE)
        .map_err(|error| Failure::new(format!("cannot write {}: {error}", path.display())))
}

/// Writes a file atomically: readers see the old or the new contents. An existing file keeps its mode.
pub(crate) fn write_atomically(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let mode = match std::fs::metadata(path) {
        Ok(present) => present.permissions().mode() & 0o777,
        Err(_) => mode,
    };
    write_with_mode(path, content, mode)
}

/// The same for a file with secrets: its mode is always 0600.
pub(crate) fn write_private(path: &Path, content: &[u8]) -> io::Result<()> {
    write_with_mode(path, content, MODE)
}

fn write_with_mode(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let dir = parent_of(path).map_or_else(|| PathBuf::from("."), Path::to_owned);
    std::fs::create_dir_all(&dir)?;
    let temporary = temporary_name(path);
    let written = write_temporary(&temporary, content, mode).and_then(|()| std::fs::rename(&temporary, path));
    if written.is_err() {
        std::fs::remove_file(&temporary).ok();
        return written;
    }
    // The rename must survive a power failure, too.
    File::open(&dir)?.sync_all()
}

fn write_temporary(temporary: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let mut file = OpenOptions::new().create_new(true).write(true).mode(MODE).open(temporary)?;
    file.write_all(content)?;
    file.set_permissions(Permissions::from_mode(mode))?;
    file.sync_all()
}

fn temporary_name(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    PathBuf::from(name)
}

fn parent_of(path: &Path) -> Option<&Path> {
    path.parent().filter(|dir| !dir.as_os_str().is_empty())
}
