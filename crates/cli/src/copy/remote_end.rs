//! Files on a target, through one session.

use client::{Session, v1};

use super::endpoint::{FileKind, FileMeta, ListedEntry};
use super::error::CopyError;
use super::hash;
use super::names;

/// The kind of hash that is compared.
const HASH: &str = "sha256";
/// What a server that does not tell how much it reads at once is asked for.
const DEFAULT_READ: u64 = 64 * 1024;
/// Links that are followed one after the other, as the kernel does.
const MAX_LINKS: usize = 40;

/// Files on a target.
#[derive(Debug, Clone)]
pub(super) struct RemoteEnd {
    pub(super) session: Session,
    /// Whether hashes are compared.
    pub(super) verify: bool,
}

/// What a file there holds, by its hash.
#[derive(Debug, Clone)]
pub(super) struct FileHash {
    pub(super) text: String,
    pub(super) bytes: u64,
    pub(super) meta: FileMeta,
}

impl RemoteEnd {
    /// What a name is; a link is not followed.
    pub(super) async fn stat(&self, path: &str) -> Result<Option<FileMeta>, CopyError> {
        let found = self.session.files().stat(path).await.map_err(error("look at", path))?;
        Ok(meta(&found))
    }

    /// Where a path leads through any links, and what is remote.
    pub(super) async fn follow(&self, path: &str) -> Result<Option<(String, FileMeta)>, CopyError> {
        let mut path = path.to_owned();
        for _ in 0..MAX_LINKS {
            let found = self.session.files().stat(&path).await.map_err(error("look at", &path))?;
            match (meta(&found), &found.symlink_target) {
                (Some(FileMeta { kind: FileKind::Link, .. }), Some(text)) => path = names::lead(&path, text),
                (found, _) => return Ok(found.map(|found| (path, found))),
            }
        }
        Err(CopyError::file(format!("cannot follow {path}: too many links lead from one to the next")))
    }

    /// What is in a directory.
    pub(super) async fn list(&self, path: &str) -> Result<Vec<Result<ListedEntry, CopyError>>, CopyError> {
        let params = v1::FsList { path: path.to_owned(), ..v1::FsList::default() };
        let listed = self.session.files().list(params).await.map_err(error("list", path))?;
        if listed.truncated {
            return Err(CopyError::file(format!("cannot list {path}: the server cuts the list short")));
        }
        let found = |entry: v1::ListEntry| match entry.name.contains(char::REPLACEMENT_CHARACTER) {
            // That is how names come that are no text; by that name nothing is found.
            true => Err(CopyError::file(format!("cannot copy {}: its name is not UTF-8", entry.path))
                .hint("rename it there; names travel as text")),
            false => {
                let meta = FileMeta { kind: kind(&entry.kind), size: entry.size.unwrap_or(0), mode: None };
                Ok(ListedEntry { name: entry.name, meta })
            }
        };
        Ok(listed.entries.into_iter().map(found).collect())
    }

    /// The hash of a file, or of its first bytes.
    pub(super) async fn hash(&self, path: &str, first: Option<u64>) -> Result<FileHash, CopyError> {
        let found = self.session.files().stat_hash(path, first).await.map_err(error("hash", path))?;
        let meta = meta(&found);
        match (found.hash, found.hash_bytes, meta) {
            (Some(text), Some(bytes), Some(meta)) => Ok(FileHash { text, bytes, meta }),
            _ => Err(CopyError::file(format!("cannot hash {path}: it is gone"))),
        }
    }

    /// A range of a file.
    pub(super) async fn read(&self, path: &str, at: u64, length: u64) -> Result<bytes::Bytes, CopyError> {
        let (bytes, _) =
            self.session.files().read(path, at, Some(length)).await.map_err(error("read", path))?;
        Ok(bytes)
    }

    /// A small file with its mode; its hash must be that of the bytes that came.
    pub(super) async fn read_whole(
        &self,
        path: &str,
        size: u64,
    ) -> Result<(bytes::Bytes, FileMeta), CopyError> {
        let length = i64::try_from(size.max(1)).ok();
        let params = v1::FsRead {
            path: path.to_owned(),
            length,
            hash: Some(HASH.to_owned()),
            ..v1::FsRead::default()
        };
        let (bytes, about) = self.session.files().read_with(params).await.map_err(error("read", path))?;
        if self.verify && about.hash != Some(hash::of(&bytes)) {
            return Err(CopyError::file(format!("what came of {path} is not what was sent")).passing());
        }
        match bytes.len() as u64 == size && about.size == size {
            true => Ok((
                bytes,
                FileMeta { kind: FileKind::File, size, mode: about.mode.as_deref().and_then(permissions) },
            )),
            false => Err(super::local_end::changed(path)),
        }
    }

    /// Puts a whole small file in commit, in one step, if what arrived is what was sent.
    pub(super) async fn put(&self, path: &str, bytes: &[u8], mode: Option<u32>) -> Result<(), CopyError> {
        let asked = self.verify.then(|| HASH.to_owned());
        let written = self.send(path, bytes, "replace", (mode, asked)).await?;
        match !self.verify || written.hash == Some(hash::of(bytes)) {
            true => Ok(()),
            false => Err(CopyError::file(format!("what arrived in {path} is not what was sent")).passing()),
        }
    }

    /// Writes bytes; the name may be that of a part.
    pub(super) async fn write(
        &self,
        path: &str,
        bytes: &[u8],
        how: &str,
        mode: Option<u32>,
    ) -> Result<(), CopyError> {
        self.send(path, bytes, how, (mode, None)).await.map(drop)
    }

    async fn send(
        &self,
        path: &str,
        bytes: &[u8],
        how: &str,
        (mode, hash): (Option<u32>, Option<String>),
    ) -> Result<v1::FsWriteResult, CopyError> {
        let params = v1::FsWrite {
            path: path.to_owned(),
            mode: Some(how.to_owned()),
            mkdir_parents: true,
            permissions: mode.map(|mode| format!("{mode:04o}")),
            // As cp, scp and rsync: when it is on disk is the system's to say.
            durable: Some(false),
            hash,
            ..v1::FsWrite::default()
        };
        self.session.files().put(params, bytes).await.map_err(error("write", path))
    }

    /// Gives what is complete its name.
    pub(super) async fn commit(&self, part: &str, target: &str) -> Result<(), CopyError> {
        self.session.files().rename(part, target, true).await.map_err(error("write", target))
    }

    /// Makes a directory and those above it.
    pub(super) async fn mkdir(&self, path: &str) -> Result<(), CopyError> {
        self.session.files().mkdir(path, true).await.map_err(error("make", path))
    }

    /// Removes a file that need not be remote.
    pub(super) async fn remove(&self, path: &str) -> Result<(), CopyError> {
        match self.stat(path).await? {
            Some(_) => self.session.files().remove(path, false).await.map_err(error("remove", path)),
            None => Ok(()),
        }
    }

    /// The most that one answer holds of a file.
    pub(super) fn max_read(&self) -> u64 {
        self.session.open_result().limits.max_file_read_bytes.unwrap_or(DEFAULT_READ).max(1)
    }
}

/// What a target says about one of its files.
fn error(action: &str, path: &str) -> impl FnOnce(client::Error) -> CopyError {
    move |error| CopyError::from(error).about(action, path)
}

fn meta(found: &v1::FsStatResult) -> Option<FileMeta> {
    let mode = found.mode.as_deref().and_then(permissions);
    let kind = kind(found.kind.as_deref().unwrap_or_default());
    found.exists.then(|| FileMeta { kind, size: found.size.unwrap_or(0), mode })
}

fn kind(name: &str) -> FileKind {
    match name {
        "file" => FileKind::File,
        "dir" => FileKind::Dir,
        "symlink" => FileKind::Link,
        _ => FileKind::Other,
    }
}

/// Permission bits from letters: `-rwxr-xr-x`.
fn permissions(letters: &str) -> Option<u32> {
    let letters = letters.as_bytes();
    let last = letters.get(letters.len().checked_sub(9)?..)?;
    Some(last.iter().fold(0, |bits, letter| bits << 1 | u32::from(*letter != b'-')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_read_as_permissions() {
        assert_eq!(permissions("-rwxr-x---"), Some(0o750));
        assert_eq!(permissions("dtrwxrwxrwx"), Some(0o777));
        assert_eq!(permissions("-rw"), None);
    }
}
