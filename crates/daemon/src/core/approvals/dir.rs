//! The directory of approvals: private, one JSON file per question and per grant, each replaced as a whole.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::core::state::create_private_dir;

/// What the files of grants begin with; those of questions are named after them.
const GRANT: &str = "grant-";
const JSON: &str = ".json";
/// A file larger than this is none of ours.
const LARGEST: u64 = 64 * 1024;

/// A directory that need not exist yet.
#[derive(Debug, Clone)]
pub(super) struct ApprovalDir(PathBuf);

impl ApprovalDir {
    pub(super) fn new(path: PathBuf) -> ApprovalDir {
        ApprovalDir(path)
    }

    /// The file of a question. Names come from callers, so only what a name can be is looked for.
    pub(super) fn question(&self, id: &str) -> Option<PathBuf> {
        let is_name = id.len() <= 64 && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        is_name.then(|| self.0.join(format!("{id}{JSON}")))
    }

    pub(super) fn grant(&self, name: &str) -> PathBuf {
        self.0.join(format!("{GRANT}{name}{JSON}"))
    }

    /// The files of all questions.
    pub(super) fn questions(&self) -> Vec<PathBuf> {
        self.files(|name| !name.starts_with(GRANT))
    }

    /// The files of all grants.
    pub(super) fn grants(&self) -> Vec<PathBuf> {
        self.files(|name| name.starts_with(GRANT))
    }

    fn files(&self, is_wanted: impl Fn(&str) -> bool) -> Vec<PathBuf> {
        let entries = fs::read_dir(&self.0).into_iter().flatten().flatten();
        let named = entries.filter(|entry| {
            entry.file_name().to_str().is_some_and(|name| name.ends_with(JSON) && is_wanted(name))
        });
        named.map(|entry| entry.path()).collect()
    }

    /// Writes a file as a whole: whoever reads it sees the old one or the new one.
    pub(super) fn write(&self, path: &Path, value: &impl Serialize) -> io::Result<()> {
        create_private_dir(&self.0)?;
        let draft = path.with_extension(format!("draft-{}", std::process::id()));
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
        let written = file
            .write_all(&serde_json::to_vec(value)?)
            .and_then(|()| file.sync_data())
            .and_then(|()| fs::rename(&draft, path));
        if written.is_err() {
            // The reason why it could not be written is worth more.
            let _removed = fs::remove_file(&draft);
        }
        written
    }
}

/// Reads a file; nothing if there is none, or none of ours.
pub(super) fn read<T: DeserializeOwned>(path: &Path) -> Option<T> {
    if fs::symlink_metadata(path).ok().filter(|found| found.is_file())?.len() > LARGEST {
        return None;
    }
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}
