//! The registry's file: one writer at a time, and never half of it.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;

use crate::failure::Failure;

/// Who may read a registry that rex makes.
const MODE: u32 = 0o600;

/// Does `work` while nobody else does. It gets the file itself where the path is a link to it.
pub(super) fn locked<T>(path: &Path, work: impl FnOnce(&Path) -> Result<T, Failure>) -> Result<T, Failure> {
    let path = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let lock = lock(&path).map_err(|error| {
        Failure::new(format!("cannot change the registry {}: {error}", path.display()))
            .hint("its folder must be yours to write; REXD_TARGETS_FILE names another file")
    })?;
    let done = work(&path);
    drop(lock);
    done
}

fn lock(path: &Path) -> io::Result<File> {
    if let Some(folder) = folder_of(path) {
        std::fs::create_dir_all(folder)?;
    }
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    let file = OpenOptions::new().create(true).truncate(false).write(true).mode(MODE).open(name)?;
    // Whoever holds it writes one small file: waiting for that is short.
    rustix::fs::flock(&file, FlockOperation::LockExclusive)?;
    Ok(file)
}

/// Puts `text` in the place of the file, in one step.
pub(super) fn replace(path: &Path, text: &str) -> Result<(), Failure> {
    write_atomically(path, text.as_bytes(), MODE)
        .map_err(|error| Failure::new(format!("cannot write {}: {error}", path.display())))
}

/// Writes a file in one step: whoever reads it sees the old or the new one. A file that is there keeps its mode.
pub(crate) fn write_atomically(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let mode = match std::fs::metadata(path) {
        Ok(present) => present.permissions().mode() & 0o777,
        Err(_) => mode,
    };
    let folder = folder_of(path).map_or_else(|| PathBuf::from("."), Path::to_owned);
    std::fs::create_dir_all(&folder)?;
    let draft = draft_name(path);
    let written = write_draft(&draft, content, mode).and_then(|()| std::fs::rename(&draft, path));
    if written.is_err() {
        std::fs::remove_file(&draft).ok();
        return written;
    }
    // The new name has to outlive a loss of power too.
    File::open(&folder)?.sync_all()
}

fn write_draft(draft: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let mut file = OpenOptions::new().create_new(true).write(true).mode(MODE).open(draft)?;
    file.write_all(content)?;
    file.set_permissions(Permissions::from_mode(mode))?;
    file.sync_all()
}

fn draft_name(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    PathBuf::from(name)
}

fn folder_of(path: &Path) -> Option<&Path> {
    path.parent().filter(|folder| !folder.as_os_str().is_empty())
}
