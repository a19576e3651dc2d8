//! End: one end of a copy, on this machine or on a target, with the few things a copy asks of either.

use super::here;
use super::there::There;
use super::wrong::Wrong;

/// What a name is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Dir,
    /// A symbolic link.
    Link,
    /// A FIFO, socket or device.
    Other,
}

/// What is known about a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Meta {
    pub(super) kind: Kind,
    pub(super) size: u64,
    /// Permission bits, where they were told.
    pub(super) mode: Option<u32>,
}

/// A name in a directory.
#[derive(Debug, Clone)]
pub(super) struct Found {
    pub(super) name: String,
    pub(super) meta: Meta,
}

/// One end of a copy.
#[derive(Debug, Clone)]
pub(super) enum End {
    /// This machine.
    Here,
    /// A target.
    There(There),
}

impl End {
    /// What a name is; a link is not followed.
    pub(super) async fn stat(&self, path: &str) -> Result<Option<Meta>, Wrong> {
        match self {
            End::Here => here::stat(path),
            End::There(there) => there.stat(path).await,
        }
    }

    /// What a path leads to, and the path to it without a link at its end.
    pub(super) async fn follow(&self, path: &str) -> Result<Option<(String, Meta)>, Wrong> {
        match self {
            End::Here => Ok(here::follow(path)?.map(|meta| (path.to_owned(), meta))),
            End::There(there) => there.follow(path).await,
        }
    }

    /// What is in a directory.
    pub(super) async fn list(&self, path: &str) -> Result<Vec<Result<Found, Wrong>>, Wrong> {
        match self {
            End::Here => here::list(path),
            End::There(there) => there.list(path).await,
        }
    }

    /// A whole small file.
    pub(super) async fn read_whole(&self, path: &str, size: u64) -> Result<(bytes::Bytes, Meta), Wrong> {
        match self {
            End::Here => here::read_whole(path).map(|(bytes, meta)| (bytes.into(), meta)),
            End::There(there) => there.read_whole(path, size).await,
        }
    }

    /// Puts a whole small file in place, in one step.
    pub(super) async fn put(&self, path: &str, bytes: &[u8], mode: Option<u32>) -> Result<(), Wrong> {
        match self {
            End::Here => here::put(path, bytes, mode),
            End::There(there) => there.put(path, bytes, mode).await,
        }
    }

    /// Makes a directory and those above it.
    pub(super) async fn mkdir(&self, path: &str) -> Result<(), Wrong> {
        match self {
            End::Here => here::mkdir(path),
            End::There(there) => there.mkdir(path).await,
        }
    }

    /// Sets who may do what with a file.
    pub(super) async fn set_mode(&self, path: &str, mode: u32) -> Result<(), Wrong> {
        match self {
            End::Here => here::set_mode(path, mode),
            End::There(there) => there.write(path, b"", "append", Some(mode)).await,
        }
    }

    /// Removes a file that need not be there.
    pub(super) async fn remove(&self, path: &str) -> Result<(), Wrong> {
        match self {
            End::Here => here::remove(path),
            End::There(there) => there.remove(path).await,
        }
    }

    /// The hash of a whole file and its permission bits.
    pub(super) async fn hash(&self, path: &str) -> Result<(String, Option<u32>), Wrong> {
        match self {
            End::Here => {
                let path = path.to_owned();
                tokio::task::spawn_blocking(move || here::hash(&path)).await?
            }
            End::There(there) => there.hash(path, None).await.map(|hashed| (hashed.text, hashed.meta.mode)),
        }
    }

    /// The most that is taken in one go.
    pub(super) fn most_read(&self) -> u64 {
        match self {
            End::Here => u64::MAX,
            End::There(there) => there.most_read(),
        }
    }
}
