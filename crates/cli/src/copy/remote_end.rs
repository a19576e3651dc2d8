//! Files on a target, through one session.

use client::{Session, v1};

use super::endpoint::{FileAttributes, FileKind, FileMeta, ListedEntry};
use super::error::{CopyError, ErrorScope};
use super::hash::HashKind;
use super::names;

/// The read size for a server that reports no limit.
const DEFAULT_READ: u64 = 64 * 1024;
/// The maximum number of symbolic links to follow, as in Linux.
const MAX_LINKS: usize = 40;
/// How often a request is sent whose session is lost.
const MAX_ATTEMPTS: usize = 4;

/// The remote end of a copy.
#[derive(Debug, Clone)]
pub(super) struct RemoteEnd {
    pub(super) session: Session,
    /// Whether hashes are compared.
    pub(super) verify: bool,
}

/// The hash of a file, the number of hashed bytes, and the metadata.
#[derive(Debug, Clone)]
pub(super) struct FileHash {
    pub(super) text: String,
    pub(super) bytes: u64,
    pub(super) meta: FileMeta,
}

impl RemoteEnd {
    pub(super) fn new(session: &Session, verify: bool) -> RemoteEnd {
        RemoteEnd { session: session.clone(), verify }
    }

    /// The fastest hash that the server has now: a session that reconnects may find an older server.
    pub(super) fn hash_kind(&self) -> HashKind {
        match self.session.has_capability("fs.hash.xxh128") {
            true => HashKind::Xxh128,
            false => HashKind::Sha256,
        }
    }

    /// The metadata of a path, without following symbolic links.
    pub(super) async fn stat(&self, path: &str) -> Result<Option<FileMeta>, CopyError> {
        Ok(meta(&self.look(path).await?))
    }

    async fn look(&self, path: &str) -> Result<v1::FsStatResult, CopyError> {
        let files = self.session.files();
        repeat(|| files.stat(path)).await.map_err(error("stat", path))
    }

    /// Follows symbolic links; returns the final path and its metadata.
    pub(super) async fn follow(&self, path: &str) -> Result<Option<(String, FileMeta)>, CopyError> {
        let mut path = path.to_owned();
        for _ in 0..MAX_LINKS {
            let found = self.look(&path).await?;
            match (meta(&found), &found.symlink_target) {
                (Some(FileMeta { kind: FileKind::Link, .. }), Some(text)) => path = names::lead(&path, text),
                (found, _) => return Ok(found.map(|found| (path, found))),
            }
        }
        Err(CopyError::file(format!("cannot follow {path}: too many levels of symbolic links")))
    }

    /// The absolute path, which may not exist.
    pub(super) async fn absolute(&self, path: &str) -> Result<String, CopyError> {
        Ok(self.look(path).await?.path)
    }

    /// The absolute path with all symbolic links resolved that the server shows; the end of it may not exist.
    pub(super) async fn resolve(&self, path: &str) -> Result<String, CopyError> {
        let mut path = self.absolute(path).await?;
        for _ in 0..MAX_LINKS {
            match self.without_first_link(&path).await? {
                Some(next) => path = self.absolute(&next).await?,
                None => return Ok(path),
            }
        }
        Err(CopyError::file(format!("cannot follow {path}: too many levels of symbolic links")))
    }

    /// The path with its first symbolic link replaced by what it points to; `None` if it has no link.
    async fn without_first_link(&self, path: &str) -> Result<Option<String>, CopyError> {
        let ends = path.match_indices('/').map(|(at, _)| at).filter(|at| *at > 0).chain([path.len()]);
        for end in ends {
            let (start, rest) = path.split_at(end);
            let found = match self.look(start).await {
                // A directory above the roots of the server.
                Err(error) if error.scope == ErrorScope::File => continue,
                found => found?,
            };
            if let Some(text) = found.symlink_target {
                return Ok(Some(names::join(&names::lead(start, &text), rest.trim_start_matches('/'))));
            }
        }
        Ok(None)
    }

    /// Lists the entries of a directory.
    pub(super) async fn list(&self, path: &str) -> Result<Vec<Result<ListedEntry, CopyError>>, CopyError> {
        let params = v1::FsList { path: path.to_owned(), ..v1::FsList::default() };
        let files = self.session.files();
        let listed = repeat(|| files.list(params.clone())).await.map_err(error("list", path))?;
        if listed.truncated {
            return Err(CopyError::file(format!("cannot list {path}: the server truncates the list")));
        }
        let found = |entry: v1::ListEntry| match entry.name.contains(char::REPLACEMENT_CHARACTER) {
            // The server replaces invalid UTF-8 in names, so the file cannot be addressed.
            true => Err(CopyError::file(format!("cannot copy {}: its name is not UTF-8", entry.path))
                .hint("rename the file on the target")),
            false => {
                let attributes = FileAttributes { mode: None, mtime: entry.mtime };
                let meta = FileMeta { kind: kind(&entry.kind), size: entry.size.unwrap_or(0), attributes };
                Ok(ListedEntry { name: entry.name, meta })
            }
        };
        Ok(listed.entries.into_iter().map(found).collect())
    }

    /// The hash of a file, or of its first bytes.
    pub(super) async fn hash(
        &self,
        path: &str,
        hash: HashKind,
        first: Option<u64>,
    ) -> Result<FileHash, CopyError> {
        let files = self.session.files();
        let hashed = repeat(|| files.stat_hash(path, hash.name(), first));
        let found = hashed.await.map_err(error("hash", path))?;
        let meta = meta(&found);
        match (found.hash, found.hash_bytes, meta) {
            (Some(text), Some(bytes), Some(meta)) => Ok(FileHash { text, bytes, meta }),
            _ => Err(CopyError::file(format!("cannot hash {path}: no such file"))),
        }
    }

    /// Reads a range of a file.
    pub(super) async fn read(&self, path: &str, at: u64, length: u64) -> Result<bytes::Bytes, CopyError> {
        let (bytes, _) =
            self.session.files().read(path, at, Some(length)).await.map_err(error("read", path))?;
        Ok(bytes)
    }

    /// Reads a small file with its mode and checks its hash.
    pub(super) async fn read_whole(
        &self,
        path: &str,
        size: u64,
    ) -> Result<(bytes::Bytes, FileMeta), CopyError> {
        let length = i64::try_from(size.max(1)).ok();
        let kind = self.hash_kind();
        let params = v1::FsRead {
            path: path.to_owned(),
            length,
            // The mode of the file comes with the hash.
            hash: Some(kind.name().to_owned()),
            ..v1::FsRead::default()
        };
        let (bytes, about) = self.session.files().read_with(params).await.map_err(error("read", path))?;
        if self.verify && about.hash != Some(kind.of(&bytes)) {
            return Err(
                CopyError::file(format!("hash mismatch: the received data of {path} is wrong")).passing()
            );
        }
        match bytes.len() as u64 == size && about.size == size {
            true => {
                let mode = about.mode.as_deref().and_then(permissions);
                let attributes = FileAttributes { mode, mtime: Some(about.mtime) };
                Ok((bytes, FileMeta { kind: FileKind::File, size, attributes }))
            }
            false => Err(super::local_end::changed(path)),
        }
    }

    /// Writes a small file atomically and checks the hash that the server returns.
    pub(super) async fn put(
        &self,
        path: &str,
        bytes: &[u8],
        attributes: FileAttributes,
    ) -> Result<(), CopyError> {
        let kind = self.hash_kind();
        let asked = self.verify.then(|| kind.name().to_owned());
        let written = self.send(path, bytes, "replace", (attributes, asked)).await?;
        match !self.verify || written.hash == Some(kind.of(bytes)) {
            true => Ok(()),
            false => {
                Err(CopyError::file(format!("hash mismatch: {path} differs from the data that was sent"))
                    .passing())
            }
        }
    }

    /// Writes bytes; the path may be that of a partial file.
    pub(super) async fn write(
        &self,
        path: &str,
        bytes: &[u8],
        how: &str,
        attributes: FileAttributes,
    ) -> Result<(), CopyError> {
        self.send(path, bytes, how, (attributes, None)).await.map(drop)
    }

    async fn send(
        &self,
        path: &str,
        bytes: &[u8],
        how: &str,
        (attributes, hash): (FileAttributes, Option<String>),
    ) -> Result<v1::FsWriteResult, CopyError> {
        let params = v1::FsWrite {
            path: path.to_owned(),
            mode: Some(how.to_owned()),
            mkdir_parents: true,
            permissions: attributes.mode.map(|mode| format!("{mode:04o}")),
            // An older server sets the time of the write.
            mtime: attributes.mtime.filter(|_| self.session.has_capability("fs.write.mtime")),
            // As with cp, scp and rsync, the kernel decides when data is written to disk.
            durable: Some(false),
            // A chunk of a partial file: if another program writes to it, the verification at the end fails.
            atomic: (how == "append" && !bytes.is_empty()).then_some(false),
            hash,
            ..v1::FsWrite::default()
        };
        self.session.files().put(params, bytes).await.map_err(error("write", path))
    }

    /// Renames a complete partial file.
    pub(super) async fn commit(&self, part: &str, target: &str) -> Result<(), CopyError> {
        self.session.files().rename(part, target, true).await.map_err(error("write", target))
    }

    /// Copies a file within the target, and replaces what is there.
    pub(super) async fn copy(&self, from: &str, to: &str) -> Result<(), CopyError> {
        let (from, to) = (from.to_owned(), to.to_owned());
        let params = v1::FsCopy { from, to: to.clone(), overwrite: true, ..v1::FsCopy::default() };
        self.session.files().copy(params).await.map_err(error("write", &to))
    }

    /// The text of a symbolic link.
    pub(super) async fn read_link(&self, path: &str) -> Result<String, CopyError> {
        let found = self.look(path).await?;
        found.symlink_target.ok_or_else(|| {
            CopyError::file(format!("cannot copy {path}: it changed during the copy"))
                .hint("copy it again when no program writes to it")
        })
    }

    /// Creates a symbolic link, in the place of a file or link that exists.
    pub(super) async fn put_link(&self, path: &str, text: &str, exists: bool) -> Result<(), CopyError> {
        if exists {
            self.remove(path).await?;
        }
        self.session.files().symlink(path, text).await.map_err(error("write", path))
    }

    /// Removes a directory and its contents.
    pub(super) async fn remove_tree(&self, path: &str) -> Result<(), CopyError> {
        self.session.files().remove(path, true).await.map_err(error("remove", path))
    }

    /// Creates a directory and its parents, and sets its mode.
    pub(super) async fn mkdir(&self, path: &str, mode: Option<u32>) -> Result<(), CopyError> {
        let files = self.session.files();
        let made = match mode {
            Some(mode) => files.mkdir_with_mode(path, mode).await,
            None => files.mkdir(path, true).await,
        };
        made.map_err(error("make", path))
    }

    /// Removes a file if it exists.
    pub(super) async fn remove(&self, path: &str) -> Result<(), CopyError> {
        match self.stat(path).await? {
            Some(_) => self.session.files().remove(path, false).await.map_err(error("remove", path)),
            None => Ok(()),
        }
    }

    /// The maximum number of bytes of one read.
    pub(super) fn max_read(&self) -> u64 {
        self.session.open_result().limits.max_file_read_bytes.unwrap_or(DEFAULT_READ).max(1)
    }
}

/// Sends a request that changes nothing, and sends it again if the session was lost with its connection: a server does not
/// keep a session that has changed nothing.
async fn repeat<T, F>(request: impl Fn() -> F) -> Result<T, client::Error>
where
    F: Future<Output = Result<T, client::Error>>,
{
    let mut attempts = 1;
    loop {
        match request().await {
            Err(client::Error::Lost(_)) if attempts < MAX_ATTEMPTS => attempts += 1,
            done => return done,
        }
    }
}

/// Converts an error of the target about a file.
fn error(action: &str, path: &str) -> impl FnOnce(client::Error) -> CopyError {
    move |error| CopyError::from(error).about(action, path)
}

fn meta(found: &v1::FsStatResult) -> Option<FileMeta> {
    let mode = found.mode.as_deref().and_then(permissions);
    let attributes = FileAttributes { mode, mtime: found.mtime };
    let kind = kind(found.kind.as_deref().unwrap_or_default());
    found.exists.then(|| FileMeta { kind, size: found.size.unwrap_or(0), attributes })
}

fn kind(name: &str) -> FileKind {
    match name {
        "file" => FileKind::File,
        "dir" => FileKind::Dir,
        "symlink" => FileKind::Link,
        _ => FileKind::Other,
    }
}

/// Parses permission bits such as `-rwxr-xr-x`.
fn permissions(letters: &str) -> Option<u32> {
    let letters = letters.as_bytes();
    let last = letters.get(letters.len().checked_sub(9)?..)?;
    Some(last.iter().fold(0, |bits, letter| bits << 1 | u32::from(*letter != b'-')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permission_letters_are_parsed() {
        assert_eq!(permissions("-rwxr-x---"), Some(0o750));
        assert_eq!(permissions("dtrwxrwxrwx"), Some(0o777));
        assert_eq!(permissions("-rw"), None);
    }
}
