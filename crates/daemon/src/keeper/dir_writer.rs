//! The directory of one keeper, for the keeper itself.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use engine::session::random_name;
use rustix::fs::FlockOperation;
use serde::Serialize;

use super::dir::{KeeperDir, LIFE, LOG, RECORD, RECORD_DRAFT, SOCKET, STATUS, STATUS_DRAFT, UNFINISHED};
use super::record::{EndRecord, ProcessRecord};
use crate::core::state::{create_private_dir, private_dir_builder};

/// The space that is reserved for the status.
const STATUS_BYTES: usize = 4096;

/// A directory that this process created and locked.
#[derive(Debug)]
pub(super) struct KeeperDirWriter {
    keepers: PathBuf,
    pub(super) dir: KeeperDir,
    /// The file with the end of the log.
    pub(super) life: File,
    record: File,
    draft: File,
}

impl KeeperDirWriter {
    /// Creates the directory under a temporary name, locked, with all files whose creation needs time.
    pub(super) fn create(keepers: &Path) -> io::Result<KeeperDirWriter> {
        create_private_dir(keepers)?;
        let name = random_name().map_err(io::Error::other)?;
        let dir = KeeperDir { path: keepers.join(format!("{UNFINISHED}{name}")) };
        private_dir_builder().create(&dir.path)?;
        KeeperDirWriter::create_files(keepers, dir.clone()).inspect_err(|_| {
            // The error of the creation is the one to report.
            let _removed = dir.remove();
        })
    }

    fn create_files(keepers: &Path, dir: KeeperDir) -> io::Result<KeeperDirWriter> {
        let life = private_file(&dir.path.join(LIFE))?;
        rustix::fs::flock(&life, FlockOperation::NonBlockingLockExclusive)?;
        life.write_all_at(&[0; 8], 0)?;
        let record = private_file(&dir.path.join(RECORD_DRAFT))?;
        let draft = private_file(&dir.path.join(STATUS_DRAFT))?;
        draft.write_all_at(&[b' '; STATUS_BYTES], 0)?;
        private_dir_builder().create(dir.path.join(LOG))?;
        Ok(KeeperDirWriter { keepers: keepers.to_owned(), dir, life, record, draft })
    }

    /// Listens on the socket. Its path may be too long for the kernel, so it is bound through a descriptor.
    pub(super) fn listen(&self) -> io::Result<UnixListener> {
        let dir = self.dir.open()?;
        let listener = UnixListener::bind(format!("/proc/self/fd/{}/{SOCKET}", dir.as_raw_fd()))?;
        listener.set_nonblocking(true)?;
        Ok(listener)
    }

    /// Renames the directory to the name of its process, which is about to start. It is not listed yet.
    pub(super) fn claim(&mut self, id: &str) -> io::Result<()> {
        let named = self.keepers.join(id);
        std::fs::rename(&self.dir.path, &named)?;
        self.dir.path = named;
        Ok(())
    }

    /// Writes the record: from now on the process is listed.
    pub(super) fn publish(&self, record: &ProcessRecord) -> io::Result<()> {
        self.record.write_all_at(&json(record)?, 0)?;
        std::fs::rename(self.dir.path.join(RECORD_DRAFT), self.dir.path.join(RECORD))
    }

    /// Writes the status into its reserved space.
    pub(super) fn write_status(&self, status: &EndRecord) -> io::Result<()> {
        let text = json(status)?;
        self.draft.write_all_at(&text, 0)?;
        self.draft.set_len(text.len() as u64)?;
        std::fs::rename(self.dir.path.join(STATUS_DRAFT), self.dir.path.join(STATUS))
    }

    /// Removes the socket from the directory.
    pub(super) fn remove_socket(&self) {
        // If it remains, connections to it are refused.
        let _removed = std::fs::remove_file(self.dir.path.join(SOCKET));
    }

    /// Removes the directory of a process that was not started.
    pub(super) fn discard(self) {
        let _removed = self.dir.remove();
    }
}

fn private_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)
}

fn json(value: &impl Serialize) -> io::Result<Vec<u8>> {
    serde_json::to_vec(value).map_err(io::Error::from)
}
