//! File operations on a target.

use bytes::Bytes;
use wire::rexd::v1::{self, Method};

use crate::connection::ReplayPolicy;
use crate::error::Error;
use crate::queue::{self, queue};
use crate::session::Session;
use crate::session::message::NewRoute;

/// Bytes that one request reads; encoded as text they must fit into one message.
pub const READ_CHUNK_BYTES: u64 = 8 * 1024 * 1024;

/// The file operations of one session. Relative paths start at the session's directory.
#[derive(Debug, Clone, Copy)]
pub struct Files<'a> {
    session: &'a Session,
}

impl<'a> Files<'a> {
    pub(crate) fn new(session: &'a Session) -> Files<'a> {
        Files { session }
    }

    /// Reads a range of a file: its bytes and the server's response. One response holds at most [`READ_CHUNK_BYTES`];
    /// read the rest from where it ended.
    pub async fn read(
        &self,
        path: &str,
        offset: u64,
        length: Option<u64>,
    ) -> Result<(Bytes, v1::FsReadResult), Error> {
        let number = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        let length = Some(number(length.map_or(READ_CHUNK_BYTES, |length| length.min(READ_CHUNK_BYTES))));
        let (path, offset) = (path.to_owned(), Some(number(offset)));
        self.read_with(v1::FsRead { path, offset, length, ..v1::FsRead::default() }).await
    }

    /// Reads with the given params; session and encoding are filled in.
    pub async fn read_with(&self, params: v1::FsRead) -> Result<(Bytes, v1::FsReadResult), Error> {
        let encoding = if self.session.has_binary_frames() { wire::binary::ENCODING } else { "base64" };
        let (session_id, encoding) = (self.session.id(), Some(encoding.to_owned()));
        let params = v1::FsRead { session_id, encoding, ..params };
        let encode = |id| wire::jsonrpc::request(id, v1::FsRead::NAME, &params);
        let response = self.session.request_with::<v1::FsRead>(encode, ReplayPolicy::Safe, NewRoute::None);
        let (mut result, payload) = response.await?;
        let content = std::mem::take(&mut result.content);
        let bytes = match (payload, result.encoding.as_str()) {
            (Some(payload), _) => payload,
            // A server may support no other encoding.
            (None, "utf8") => content.into(),
            (None, _) => wire::base64::decode(&content)
                .map_err(|source| Error::DecodeContent { method: v1::FsRead::NAME, source })?
                .into(),
        };
        Ok((bytes, result))
    }

    /// Reads a whole file, with as many requests as it takes.
    pub async fn read_all(&self, path: &str) -> Result<Vec<u8>, Error> {
        let (first, mut response) = self.read(path, 0, None).await?;
        let mut content = Vec::from(first);
        while response.truncated {
            let (more, next) = self.read(path, content.len() as u64, None).await?;
            if more.is_empty() {
                break;
            }
            content.extend_from_slice(&more);
            response = next;
        }
        Ok(content)
    }

    /// Replaces or creates a file atomically.
    pub async fn write(&self, path: &str, content: &[u8]) -> Result<v1::FsWriteResult, Error> {
        let params = v1::FsWrite {
            path: path.to_owned(),
            content: wire::base64::encode(content),
            encoding: Some("base64".to_owned()),
            mkdir_parents: true,
            ..v1::FsWrite::default()
        };
        self.write_with(params).await
    }

    /// Encodes bytes as text, or as base64 if that is shorter: every control character takes six bytes of a message.
    pub fn encode_content(bytes: &[u8]) -> (String, &'static str) {
        let escaped = |byte: &u8| match byte {
            b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 8 | 12 => 2,
            ..0x20 => 6,
            _ => 1,
        };
        match std::str::from_utf8(bytes) {
            Ok(text) if bytes.iter().map(escaped).sum::<usize>() <= bytes.len().div_ceil(3) * 4 => {
                (text.to_owned(), "utf8")
            }
            _ => (wire::base64::encode(bytes), "base64"),
        }
    }

    /// Writes with the given params; session and key are filled in.
    pub async fn write_with(&self, params: v1::FsWrite) -> Result<v1::FsWriteResult, Error> {
        let session_id = self.session.id();
        self.change(&v1::FsWrite { session_id, idempotency_key: Some(self.session.key()), ..params }).await
    }

    /// Writes bytes with the given params, without a key and without a copy of large content. A write that must not be
    /// repeated fails as [`Error::Ambiguous`] if the connection is lost. The session is filled in; content and encoding
    /// of the params are ignored.
    pub async fn put(&self, params: v1::FsWrite, bytes: &[u8]) -> Result<v1::FsWriteResult, Error> {
        // Replacing a file twice with the same content has the effect of one replacement.
        let replaces = matches!(params.mode.as_deref(), None | Some("replace"));
        let replay = match replaces && params.expected_mtime.is_none() {
            true => ReplayPolicy::Safe,
            false => ReplayPolicy::Never,
        };
        let params = v1::FsWrite { session_id: self.session.id(), idempotency_key: None, ..params };
        self.session.request_bytes(&params, bytes, replay).await
    }

    /// Replaces text in a file; session and key are filled in.
    pub async fn edit(&self, params: v1::FsEdit) -> Result<v1::FsEditResult, Error> {
        let session_id = self.session.id();
        self.change(&v1::FsEdit { session_id, idempotency_key: Some(self.session.key()), ..params }).await
    }

    /// Applies a patch completely or not at all.
    pub async fn patch(&self, patch_text: &str, cwd: Option<&str>) -> Result<v1::FsPatchResult, Error> {
        let params = v1::FsPatch {
            session_id: self.session.id(),
            patch_text: patch_text.to_owned(),
            cwd: cwd.map(str::to_owned),
            idempotency_key: Some(self.session.key()),
        };
        self.change(&params).await
    }

    /// Lists a directory; the session is filled in. Callers join the names to paths of this machine, so a server that
    /// returns anything else than plain file names gets an error.
    pub async fn list(&self, params: v1::FsList) -> Result<v1::FsListResult, Error> {
        let params = v1::FsList { session_id: self.session.id(), ..params };
        let listed: v1::FsListResult = self.session.call(&params).await?;
        match listed.entries.iter().find(|entry| !is_file_name(&entry.name)) {
            Some(entry) => Err(Error::InvalidName { name: entry.name.clone(), directory: params.path }),
            None => Ok(listed),
        }
    }

    /// Finds paths by a glob pattern; the session is filled in.
    pub async fn glob(&self, params: v1::FsGlob) -> Result<v1::FsGlobResult, Error> {
        self.session.call(&v1::FsGlob { session_id: self.session.id(), ..params }).await
    }

    /// Finds lines by a regular expression; the session is filled in.
    pub async fn grep(&self, params: v1::FsGrep) -> Result<v1::FsGrepResult, Error> {
        self.session.call(&v1::FsGrep { session_id: self.session.id(), ..params }).await
    }

    /// Returns the metadata of a path.
    pub async fn stat(&self, path: &str) -> Result<v1::FsStatResult, Error> {
        self.stat_with(v1::FsStat { path: path.to_owned(), ..v1::FsStat::default() }).await
    }

    /// Returns the metadata of a path and the hash of its content, or of its first bytes. Needs `fs.stat.hash` for
    /// `sha256`, and also `fs.hash.xxh128` for `xxh128`.
    pub async fn stat_hash(
        &self,
        path: &str,
        hash: &str,
        first: Option<u64>,
    ) -> Result<v1::FsStatResult, Error> {
        let hash_bytes = first.map(|bytes| i64::try_from(bytes).unwrap_or(i64::MAX));
        let (path, hash) = (path.to_owned(), Some(hash.to_owned()));
        self.stat_with(v1::FsStat { path, hash, hash_bytes, ..v1::FsStat::default() }).await
    }

    async fn stat_with(&self, params: v1::FsStat) -> Result<v1::FsStatResult, Error> {
        self.session.call(&v1::FsStat { session_id: self.session.id(), ..params }).await
    }

    /// Creates a directory, and with `parents` the missing ones above it.
    pub async fn mkdir(&self, path: &str, parents: bool) -> Result<(), Error> {
        self.make_directory(path, parents, None).await
    }

    /// Creates a directory and the missing ones above it, and sets its mode, also if it exists. The server must have the
    /// capability `fs.mkdir.permissions`.
    pub async fn mkdir_with_mode(&self, path: &str, mode: u32) -> Result<(), Error> {
        self.make_directory(path, true, Some(format!("{mode:04o}"))).await
    }

    async fn make_directory(
        &self,
        path: &str,
        parents: bool,
        permissions: Option<String>,
    ) -> Result<(), Error> {
        let (session_id, path) = (self.session.id(), path.to_owned());
        let idempotency_key = Some(self.session.key());
        let params = v1::FsMkdir { session_id, path, parents, permissions, idempotency_key };
        self.change(&params).await.map(drop)
    }

    /// Creates a symlink with this text.
    pub async fn symlink(&self, path: &str, target: &str) -> Result<(), Error> {
        let (path, target) = (path.to_owned(), target.to_owned());
        let (session_id, idempotency_key) = (self.session.id(), Some(self.session.key()));
        self.change(&v1::FsSymlink { session_id, path, target, idempotency_key }).await.map(drop)
    }

    /// Removes a file, or with `recursive` a directory and its content.
    pub async fn remove(&self, path: &str, recursive: bool) -> Result<(), Error> {
        let (session_id, path) = (self.session.id(), path.to_owned());
        let params = v1::FsRemove { session_id, path, recursive, idempotency_key: Some(self.session.key()) };
        self.change(&params).await.map(drop)
    }

    /// Renames a file or directory; with `overwrite` an existing target is replaced.
    pub async fn rename(&self, from: &str, to: &str, overwrite: bool) -> Result<(), Error> {
        let (from, to) = (from.to_owned(), to.to_owned());
        let (session_id, idempotency_key) = (self.session.id(), Some(self.session.key()));
        self.change(&v1::FsRename { session_id, from, to, overwrite, idempotency_key }).await.map(drop)
    }

    /// Copies a file or directory on the target; session and key are filled in.
    pub async fn copy(&self, params: v1::FsCopy) -> Result<(), Error> {
        let session_id = self.session.id();
        self.change(&v1::FsCopy { session_id, idempotency_key: Some(self.session.key()), ..params })
            .await
            .map(drop)
    }

    /// Watches a path and reports changes below it.
    pub async fn watch(&self, path: &str, recursive: bool) -> Result<FileWatch, Error> {
        let (events, receiver) = queue(self.session.drained());
        let (session_id, path) = (self.session.id(), path.to_owned());
        let params = v1::FsWatch { session_id, path, recursive: Some(recursive) };
        let opened = self.session.request(&params, ReplayPolicy::Safe, NewRoute::Watch(events)).await?;
        Ok(FileWatch { session: self.session.clone(), watch_id: opened.watch_id, events: receiver })
    }

    /// Sends a request that the server performs once, even if it is sent again.
    async fn change<M: Method>(&self, params: &M) -> Result<M::Result, Error> {
        self.session.request(params, ReplayPolicy::Safe, NewRoute::None).await
    }
}

/// A watch on a path; its changes are reported as they happen.
#[derive(Debug)]
pub struct FileWatch {
    session: Session,
    watch_id: String,
    events: queue::Receiver<WatchEvent>,
}

/// A report of changes below a watched path.
#[derive(Debug)]
pub struct WatchEvent {
    /// The changes, or why no more are reported.
    pub changed: Result<v1::FsChanged, Error>,
    /// The line of the event, if [`OutputMode::Verbatim`](crate::OutputMode::Verbatim) was requested.
    pub line: Option<Bytes>,
}

impl FileWatch {
    /// The next report; `None` when the session has ended. Cancel-safe.
    pub async fn next(&mut self) -> Option<WatchEvent> {
        self.events.recv().await
    }

    /// Ends the watch on the server.
    pub async fn stop(self) -> Result<(), Error> {
        let params = v1::FsUnwatch { session_id: self.session.id(), watch_id: self.watch_id.clone() };
        self.session.call(&params).await.map(drop)
    }
}

/// Whether a name from a server is the name of one directory entry: a path joined with it stays in its directory.
pub fn is_file_name(name: &str) -> bool {
    !matches!(name, "" | "." | "..") && !name.contains(['/', '\0'])
}
