//! The directory of approvals: private, with one JSON file per approval and per grant, each replaced atomically.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::core::state::create_private_dir;

/// Prefix of a grant's file name; an approval's file is named after its id.
const GRANT: &str = "grant-";
const JSON: &str = ".json";
/// Larger files are ignored: the daemon writes none.
const MAX_FILE_BYTES: u64 = 64 * 1024;

/// The directory of approvals; it is created by the first write.
#[derive(Debug, Clone)]
pub(super) struct ApprovalDir(PathBuf);

impl ApprovalDir {
    pub(super) fn new(path: PathBuf) -> ApprovalDir {
        ApprovalDir(path)
    }

    /// The file of an approval; `None` if `id`, which comes from a client, cannot be an id.
    pub(super) fn approval(&self, id: &str) -> Option<PathBuf> {
        let is_name = id.len() <= 64 && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        is_name.then(|| self.0.join(format!("{id}{JSON}")))
    }

    pub(super) fn grant(&self, name: &str) -> PathBuf {
        self.0.join(format!("{GRANT}{name}{JSON}"))
    }

    /// The files of all approvals.
    pub(super) fn approvals(&self) -> Vec<PathBuf> {
        self.files(|name| !name.starts_with(GRANT))
    }

    /// The files of all grants.
    pub(super) fn grants(&self) -> Vec<PathBuf> {
        self.files(|name| name.starts_with(GRANT))
    }

    fn files(&self, is_selected: impl Fn(&str) -> bool) -> Vec<PathBuf> {
        let entries = fs::read_dir(&self.0).into_iter().flatten().flatten();
        let named = entries.filter(|entry| {
            entry.file_name().to_str().is_some_and(|name| name.ends_with(JSON) && is_selected(name))
        });
        named.map(|entry| entry.path()).collect()
    }

    /// Replaces a file atomically: a reader sees the old content or the new one.
    pub(super) fn write(&self, path: &Path, value: &impl Serialize) -> io::Result<()> {
        create_private_dir(&self.0)?;
        let draft = path.with_extension(format!("draft-{}", std::process::id()));
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
        let written = file
            .write_all(&serde_json::to_vec(value)?)
            .and_then(|()| file.sync_data())
            .and_then(|()| fs::rename(&draft, path));
        if written.is_err() {
            // The error of the write is the one to report.
            let _removed = fs::remove_file(&draft);
        }
        written
    }
}

/// Reads a file; `None` if it does not exist or is not a record.
pub(super) fn read<T: DeserializeOwned>(path: &Path) -> Option<T> {
    if fs::symlink_metadata(path).ok().filter(|found| found.is_file())?.len() > MAX_FILE_BYTES {
        return None;
    }
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}
