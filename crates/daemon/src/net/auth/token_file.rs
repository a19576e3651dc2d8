//! Token files: a token that lies in a file, noticed when the file changes or goes.

use std::fs::{File, Metadata, OpenOptions};
use std::io::Read as _;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use super::AuthError;
use super::secret::{Digest, Secret};

/// The longest token a file may hold.
const MAX_BYTES: u64 = 4_096;
/// A file that changed less than this before it was read may change again without its times showing it.
const SETTLES: Duration = Duration::from_secs(2);

/// What is wrong with a token file.
#[derive(Debug, thiserror::Error)]
pub enum Trouble {
    /// It is not there.
    #[error("there is no such file")]
    Missing,
    /// Others may read or write it.
    #[error("its mode is {mode:03o}, so others than its owner may read it; chmod 600 it")]
    Open {
        /// Its permissions.
        mode: u32,
    },
    /// Somebody else owns it and may change it.
    #[error("it belongs to the user {owner}, not to the one rexd runs as")]
    Foreign {
        /// Who owns it.
        owner: u32,
    },
    /// It is a directory, a pipe, a device.
    #[error("it is not a regular file")]
    NotAFile,
    /// It holds no token.
    #[error("it must hold one token on one line, of 1 to {MAX_BYTES} visible ASCII characters")]
    NoToken,
    /// It cannot be read.
    #[error("{}", engine::error::errno_text(.0))]
    Unreadable(std::io::Error),
}

/// One token file and what was in it when it was last read.
#[derive(Debug)]
pub(super) struct TokenFile {
    path: PathBuf,
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    stamp: Option<Stamp>,
    /// Whether the file had been at rest long enough for its times to tell the next change.
    settled: bool,
    /// None while the file is missing or not fit to be believed.
    digest: Option<Digest>,
}

/// What changes about a file whenever it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    mode: u32,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            mode: metadata.mode(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

impl TokenFile {
    /// Reads a file. A missing one is no error here: it admits nobody until it is there.
    pub(super) fn open(path: &Path) -> Result<Self, AuthError> {
        let seen = match read(path) {
            Ok(seen) => seen,
            Err(Trouble::Missing) => {
                tracing::warn!(file = %path.display(), "the token file is missing; nobody gets in with it");
                Seen::default()
            }
            Err(trouble) => return Err(AuthError::File { path: path.to_owned(), trouble }),
        };
        Ok(Self { path: path.to_owned(), seen: Mutex::new(seen) })
    }

    /// The digest of the token that was in it at the last look.
    pub(super) fn digest(&self) -> Option<Digest> {
        self.seen().digest
    }

    /// Looks whether the file changed and reads it again if so. True when another token, or none, is valid now.
    pub(super) fn look(&self) -> bool {
        let stamp = std::fs::metadata(&self.path).ok().map(|metadata| Stamp::of(&metadata));
        let mut seen = self.seen();
        let is_known = stamp == seen.stamp && (seen.settled || stamp.is_none());
        if is_known {
            return false;
        }
        let before = (seen.digest, seen.stamp);
        *seen = read(&self.path).unwrap_or_else(|trouble| {
            if before.1 != stamp {
                tracing::warn!(file = %self.path.display(), "the token file is not used: {trouble}");
            }
            Seen { stamp, ..Seen::default() }
        });
        seen.digest != before.0
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a file would be accepted.
pub(super) fn check(path: &Path) -> Result<(), Trouble> {
    read(path).map(drop)
}

fn read(path: &Path) -> Result<Seen, Trouble> {
    // Opened without waiting, so that a pipe in its place holds nobody up.
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file =
        OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => Trouble::Missing,
            _ => Trouble::Unreadable(error),
        })?;
    let metadata = file.metadata().map_err(Trouble::Unreadable)?;
    check_owner(&metadata)?;
    let token = token(file)?;
    let changed = metadata.modified().map_err(Trouble::Unreadable)?;
    let settled = SystemTime::now().duration_since(changed).is_ok_and(|age| age > SETTLES);
    Ok(Seen { stamp: Some(Stamp::of(&metadata)), settled, digest: Some(token.digest()) })
}

fn check_owner(metadata: &Metadata) -> Result<(), Trouble> {
    let (mode, owner) = (metadata.mode() & 0o777, metadata.uid());
    if !metadata.is_file() {
        return Err(Trouble::NotAFile);
    }
    if mode & 0o077 != 0 {
        return Err(Trouble::Open { mode });
    }
    if owner != 0 && owner != rustix::process::geteuid().as_raw() {
        return Err(Trouble::Foreign { owner });
    }
    Ok(())
}

fn token(file: File) -> Result<Secret, Trouble> {
    let mut text = String::new();
    // Two bytes more than a token has: a line end, and one that tells that it is too long.
    file.take(MAX_BYTES + 2).read_to_string(&mut text).map_err(Trouble::Unreadable)?;
    let line = text.strip_suffix('\n').unwrap_or(&text);
    let line = line.strip_suffix('\r').unwrap_or(line);
    if is_token(line) { Ok(Secret::new(line)) } else { Err(Trouble::NoToken) }
}

/// Whether a text can be a token: it has to fit into a header.
pub(super) fn is_token(text: &str) -> bool {
    let fits = u64::try_from(text.len()).is_ok_and(|length| (1..=MAX_BYTES).contains(&length));
    fits && text.bytes().all(|byte| byte.is_ascii_graphic())
}
