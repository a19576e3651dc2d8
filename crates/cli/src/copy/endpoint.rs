//! CopyEndpoint: one end of a copy, local or on a target, with the operations that a copy needs.

use super::error::CopyError;
use super::hash::HashKind;
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
    /// What a copy keeps besides the contents.
    pub(super) attributes: FileAttributes,
}

/// The attributes that a copy keeps, as far as they are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct FileAttributes {
    /// Permission bits.
    pub(super) mode: Option<u32>,
    /// The modification time in milliseconds since 1970.
    pub(super) mtime: Option<i64>,
}

impl FileAttributes {
    /// Whether a file with these attributes must be changed to get the wanted ones.
    pub(super) fn differ_from(self, wanted: FileAttributes) -> bool {
        (wanted.mode.is_some() && wanted.mode != self.mode)
            || (wanted.mtime.is_some() && wanted.mtime != self.mtime)
    }
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
    pub(super) async fn put(
        &self,
        path: &str,
        bytes: &[u8],
        attributes: FileAttributes,
    ) -> Result<(), CopyError> {
        match self {
            CopyEndpoint::Local => local_end::put(path, bytes, attributes),
            CopyEndpoint::Remote(remote) => remote.put(path, bytes, attributes).await,
        }
    }

    /// The text of a symbolic link.
    pub(super) async fn read_link(&self, path: &str) -> Result<String, CopyError> {
        match self {
            CopyEndpoint::Local => local_end::read_link(path),
            CopyEndpoint::Remote(remote) => remote.read_link(path).await,
        }
    }

    /// Creates a symbolic link, in the place of a file or link that exists.
    pub(super) async fn put_link(&self, path: &str, text: &str, exists: bool) -> Result<(), CopyError> {
        match self {
            CopyEndpoint::Local => local_end::put_link(path, text),
            CopyEndpoint::Remote(remote) => remote.put_link(path, text, exists).await,
        }
    }

    /// Whether symbolic links can be created.
    pub(super) fn has_links(&self) -> bool {
        match self {
            CopyEndpoint::Local => true,
            CopyEndpoint::Remote(remote) => remote.session.has_capability("fs.symlink"),
        }
    }

    /// Creates the directory that everything is copied to, and returns its path; a local one without symbolic links.
    pub(super) async fn make_destination(&self, path: &str) -> Result<String, CopyError> {
        match self {
            CopyEndpoint::Local => local_end::make_destination(path),
            CopyEndpoint::Remote(remote) => remote.mkdir(path, None).await.map(|()| path.to_owned()),
        }
    }

    /// Creates a directory and its parents, and sets its mode, also if it exists.
    pub(super) async fn mkdir(&self, path: &str, mode: Option<u32>) -> Result<(), CopyError> {
        match self {
            CopyEndpoint::Local => local_end::mkdir(path, mode),
            CopyEndpoint::Remote(remote) => remote.mkdir(path, mode).await,
        }
    }

    /// Whether the mode of a directory can be set.
    pub(super) fn has_directory_modes(&self) -> bool {
        match self {
            CopyEndpoint::Local => true,
            CopyEndpoint::Remote(remote) => remote.session.has_capability("fs.mkdir.permissions"),
        }
    }

    /// Sets the attributes of a file.
    pub(super) async fn set_attributes(
        &self,
        path: &str,
        attributes: FileAttributes,
    ) -> Result<(), CopyError> {
        match self {
            CopyEndpoint::Local => local_end::set_attributes(path, attributes),
            CopyEndpoint::Remote(remote) => remote.write(path, b"", "append", attributes).await,
        }
    }

    /// Removes a file if it exists.
    pub(super) async fn remove(&self, path: &str) -> Result<(), CopyError> {
        match self {
            CopyEndpoint::Local => local_end::remove(path),
            CopyEndpoint::Remote(remote) => remote.remove(path).await,
        }
    }

    /// Removes a directory and its contents.
    pub(super) async fn remove_tree(&self, path: &str) -> Result<(), CopyError> {
        match self {
            CopyEndpoint::Local => local_end::remove_tree(path),
            CopyEndpoint::Remote(remote) => remote.remove_tree(path).await,
        }
    }

    /// The fastest hash that this end has.
    pub(super) fn hash_kind(&self) -> HashKind {
        match self {
            CopyEndpoint::Local => HashKind::Xxh128,
            CopyEndpoint::Remote(remote) => remote.hash_kind(),
        }
    }

    /// The SHA-256 of a whole file, and its attributes.
    pub(super) async fn hash(&self, path: &str) -> Result<(String, FileAttributes), CopyError> {
        match self {
            CopyEndpoint::Local => {
                let path = path.to_owned();
                tokio::task::spawn_blocking(move || local_end::hash(&path)).await?
            }
            CopyEndpoint::Remote(remote) => remote
                .hash(path, HashKind::Sha256, None)
                .await
                .map(|hashed| (hashed.text, hashed.meta.attributes)),
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
