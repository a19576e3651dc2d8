//! The lock on the names of processes, which all daemons of a user share.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use engine::Error;
use rustix::fs::FlockOperation;
use tokio::sync::OwnedMutexGuard;

use crate::core::state::create_private_dir;

/// The file that is locked, in the directory of the keepers.
const LOCK: &str = "names.lock";

/// While it is held, no other process gets a name. It is held from the check of a name until its process is listed.
#[derive(Debug)]
pub struct NameLock {
    _file: File,
    /// The turn of this daemon: only one of its threads waits for the file.
    _turn: OwnedMutexGuard<()>,
}

impl NameLock {
    /// Waits for the lock, which others hold only while they start a process.
    pub(super) fn take(keepers: &Path, turn: OwnedMutexGuard<()>) -> Result<NameLock, Error> {
        let path = keepers.join(LOCK);
        let lock = || -> io::Result<File> {
            create_private_dir(keepers)?;
            let file = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&path)?;
            rustix::fs::flock(&file, FlockOperation::LockExclusive)?;
            Ok(file)
        };
        let file = lock().map_err(|source| Error::File { action: "lock", path: path.clone(), source })?;
        Ok(NameLock { _file: file, _turn: turn })
    }
}
