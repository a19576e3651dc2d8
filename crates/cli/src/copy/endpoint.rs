//! CopyEndpoint: one end of a copy, local or on a target, with the operations that a copy needs.

use super::error::CopyError;
use super::local_end;
use super::remote_end::RemoteEnd;

/// The type of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Dir,
    /// A symbolic link.
    Link,
    /// A FIFO, socket or device.
    Other,
}

/// The metadata of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileMeta {
    pub(super) kind: FileKind,
    pub(super) size: u64,
    /// Permission bits, if the server reports them.
    pub(super) mode: Option<u32>,
}

/// An entry of a directory.
#[derive(Debug, Clone)]
pub(super) struct ListedEntry {
    pub(super) name: String,
    pub(super) meta: FileMeta,
}

/// One end of a copy.
#[derive(Debug, Clone)]
pub(super) enum CopyEndpoint {
    /// The local machine.
    Local,
    /// A session on a target.
    Remote(RemoteEnd),
}

impl CopyEndpoint {
    /// The metadata of a path, without following symbolic links.
    pub(super) async fn stat(&self, path: &str) -> Result<Option<FileMeta>, CopyError> {
        match self {
            CopyEndpoint::Local => local_end::stat(path),
            CopyEndpoint::Remote(remote) => remote.stat(path).await,
        }
    }

    /// Follows symbolic links; returns the final path and its metadata.
    pub(super) async fn follow(&self, path: &str) -> Result<Option<(String, FileMeta)>, CopyError> {
        match self {
            CopyEndpoint::Local => Ok(local_end::follow(path)?.map(|meta| (path.to_owned(), meta))),
            CopyEndpoint::Remote(remote) => remote.follow(path).await,
        }
    }

    /// Lists a directory; entries that cannot be copied are errors.
    pub(super) async fn list(&self, path: &str) -> Result<Vec<Result<ListedEntry, CopyError>>, CopyError> {
        match self {
            CopyEndpoint::Local => local_end::list(path),
            CopyEndpoint::Remote(remote) => remote.list(path).await,
        }
    }

    /// Reads a whole small file.
    pub(super) async fn read_whole(
        &self,
        path: &str,
        size: u64,
    ) -> Result<(bytes::Bytes, FileMeta), CopyError> {
        match self {
            CopyEndpoint::Local => local_end::read_whole(path).map(|(bytes, meta)| (bytes.into(), meta)),
            CopyEndpoint::Remote(remote) => remote.read_whole(path, size).await,
        }
    }

    /// Writes a whole small file atomically.
    pub(super) async fn put(&self, path: &str, bytes: &[u8], mode: Option<u32>) -> Result<(), CopyError> {
        match self {
            CopyEndpoint::Local => local_end::put(path, bytes, mode),
            CopyEndpoint::Remote(remote) => remote.put(path, bytes, mode).await,
        }
    }

    /// Creates the directory that everything is copied to, and returns its path; a local one without symbolic links.
    pub(super) async fn make_destination(&self, path: &str) -> Result<String, CopyError> {
        match self {
            CopyEndpoint::Local => local_end::make_destination(path),
            CopyEndpoint::Remote(remote) => remote.mkdir(path).await.map(|()| path.to_owned()),
        }
    }

    /// Creates a directory and its parents.
    pub(super) async fn mkdir(&self, path: &str) -> Result<(), CopyError> {
        match self {
            CopyEndpoint::Local => local_end::mkdir(path),
            CopyEndpoint::Remote(remote) => remote.mkdir(path).await,
        }
    }

    /// Sets the permission bits of a file.
    pub(super) async fn set_mode(&self, path: &str, mode: u32) -> Result<(), CopyError> {
        match self {
            CopyEndpoint::Local => local_end::set_mode(path, mode),
            CopyEndpoint::Remote(remote) => remote.write(path, b"", "append", Some(mode)).await,
        }
    }

    /// Removes a file if it exists.
    pub(super) async fn remove(&self, path: &str) -> Result<(), CopyError> {
        match self {
            CopyEndpoint::Local => local_end::remove(path),
            CopyEndpoint::Remote(remote) => remote.remove(path).await,
        }
    }

    /// The hash of a whole file, and its permission bits.
    pub(super) async fn hash(&self, path: &str) -> Result<(String, Option<u32>), CopyError> {
        match self {
            CopyEndpoint::Local => {
                let path = path.to_owned();
                tokio::task::spawn_blocking(move || local_end::hash(&path)).await?
            }
            CopyEndpoint::Remote(remote) => {
                remote.hash(path, None).await.map(|hashed| (hashed.text, hashed.meta.mode))
            }
        }
    }

    /// The maximum number of bytes of one read.
    pub(super) fn max_read(&self) -> u64 {
        match self {
            CopyEndpoint::Local => u64::MAX,
            CopyEndpoint::Remote(remote) => remote.max_read(),
        }
    }
}
