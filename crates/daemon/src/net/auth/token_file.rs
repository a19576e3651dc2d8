//! Token files: a token that is read from a file, and again when the file changes.

use std::fs::{File, Metadata, OpenOptions};
use std::io::Read as _;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use super::{AuthError, Secret, TokenDigest};

/// The limit on the length of a token.
const MAX_BYTES: u64 = 4_096;
/// A file that changed less than this before it was read may change again with the same timestamps.
const TIMESTAMP_GRANULARITY: Duration = Duration::from_secs(2);

/// Why a token file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TokenFileError {
    /// The file does not exist.
    #[error("no such file")]
    Missing,
    /// Group or others have access.
    #[error("mode {mode:03o} gives access to other users; run chmod 600 on it")]
    Open {
        /// The permission bits.
        mode: u32,
    },
    /// Another user owns the file and could change it.
    #[error("owned by user {owner}, not by the user of rexd")]
    Foreign {
        /// The user id of the owner.
        owner: u32,
    },
    /// A directory, a pipe or a device.
    #[error("not a regular file")]
    NotAFile,
    /// The content is not a token.
    #[error("expected one token on one line, of 1 to {MAX_BYTES} visible ASCII characters")]
    NoToken,
    /// The system rejects reading it.
    #[error("{}", engine::error::errno_text(.0))]
    Unreadable(std::io::Error),
}

/// One token file and its content at the last check.
#[derive(Debug)]
pub(super) struct TokenFile {
    path: PathBuf,
    state: Mutex<FileState>,
}

#[derive(Debug, Default)]
struct FileState {
    stamp: Option<Stamp>,
    /// True if the timestamps of the file will show its next change.
    settled: bool,
    /// `None` while the file is missing or unusable.
    digest: Option<TokenDigest>,
}

/// The metadata that differ after every change of a file: its identity, size and mode, and the times of its changes.
type Stamp = ([u64; 3], u32, [i64; 4]);

fn stamp(file: &Metadata) -> Stamp {
    let times = [file.mtime(), file.mtime_nsec(), file.ctime(), file.ctime_nsec()];
    ([file.dev(), file.ino(), file.size()], file.mode(), times)
}

impl TokenFile {
    /// Reads a file. A missing one is no error here: it contains no token until it exists.
    pub(super) fn open(path: &Path) -> Result<Self, AuthError> {
        let state = match read(path) {
            Ok(state) => state,
            Err(TokenFileError::Missing) => {
                tracing::warn!(file = %path.display(), "the token file is missing; no token of it is accepted");
                FileState::default()
            }
            Err(cause) => return Err(AuthError::File { path: path.to_owned(), cause }),
        };
        Ok(Self { path: path.to_owned(), state: Mutex::new(state) })
    }

    /// The digest of the token at the last check.
    pub(super) fn digest(&self) -> Option<TokenDigest> {
        self.state().digest
    }

    /// Reads the file again if it has changed. True if another token, or none, is valid now.
    pub(super) fn refresh(&self) -> bool {
        let stamp = std::fs::metadata(&self.path).ok().map(|metadata| stamp(&metadata));
        let mut state = self.state();
        let is_unchanged = stamp == state.stamp && (state.settled || stamp.is_none());
        if is_unchanged {
            return false;
        }
        let before = (state.digest, state.stamp);
        *state = read(&self.path).unwrap_or_else(|cause| {
            if before.1 != stamp {
                tracing::warn!(file = %self.path.display(), "ignoring the token file: {cause}");
            }
            FileState { stamp, ..FileState::default() }
        });
        state.digest != before.0
    }

    fn state(&self) -> MutexGuard<'_, FileState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Checks that a file contains a usable token.
pub(super) fn check(path: &Path) -> Result<(), TokenFileError> {
    read(path).map(drop)
}

fn read(path: &Path) -> Result<FileState, TokenFileError> {
    // Without blocking, in case the file is a pipe.
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file =
        OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => TokenFileError::Missing,
            _ => TokenFileError::Unreadable(error),
        })?;
    let metadata = file.metadata().map_err(TokenFileError::Unreadable)?;
    check_owner(&metadata)?;
    let token = token(file)?;
    let changed = metadata.modified().map_err(TokenFileError::Unreadable)?;
    let settled = SystemTime::now().duration_since(changed).is_ok_and(|age| age > TIMESTAMP_GRANULARITY);
    Ok(FileState { stamp: Some(stamp(&metadata)), settled, digest: Some(token.digest()) })
}

fn check_owner(metadata: &Metadata) -> Result<(), TokenFileError> {
    let (mode, owner) = (metadata.mode() & 0o777, metadata.uid());
    if !metadata.is_file() {
        return Err(TokenFileError::NotAFile);
    }
    if mode & 0o077 != 0 {
        return Err(TokenFileError::Open { mode });
    }
    if owner != 0 && owner != rustix::process::geteuid().as_raw() {
        return Err(TokenFileError::Foreign { owner });
    }
    Ok(())
}

fn token(file: File) -> Result<Secret, TokenFileError> {
    let mut text = String::new();
    // Two bytes more than the limit: a line end, and one that shows that the token is too long.
    file.take(MAX_BYTES + 2).read_to_string(&mut text).map_err(TokenFileError::Unreadable)?;
    let line = text.strip_suffix('\n').unwrap_or(&text);
    let line = line.strip_suffix('\r').unwrap_or(line);
    if is_token(line) { Ok(Secret::new(line)) } else { Err(TokenFileError::NoToken) }
}

/// True if a text can be sent as a token in a header.
pub(super) fn is_token(text: &str) -> bool {
    let fits = u64::try_from(text.len()).is_ok_and(|length| (1..=MAX_BYTES).contains(&length));
    fits && text.bytes().all(|byte| byte.is_ascii_graphic())
}
