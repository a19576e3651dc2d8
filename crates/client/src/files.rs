//! Files on a target.

use bytes::Bytes;
use wire::rexd::v1::{self, Method};

use crate::error::Error;
use crate::queue::{self, queue};
use crate::session::Session;
use crate::session::letter::{Again, Opens};

/// What is read with one request: in text it must still fit into a message.
pub const READ_CHUNK_BYTES: u64 = 8 * 1024 * 1024;

/// Everything about files, through one session. Relative paths start at the session's directory.
#[derive(Debug, Clone, Copy)]
pub struct Files<'a> {
    session: &'a Session,
}

impl<'a> Files<'a> {
    pub(crate) fn new(session: &'a Session) -> Files<'a> {
        Files { session }
    }

    /// A range of a file as bytes, and what the server says about it. One answer holds so much: what is missing has to
    /// be asked for from where it ended.
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

    /// Reads bytes as the params say; session and encoding are filled in.
    pub async fn read_with(&self, params: v1::FsRead) -> Result<(Bytes, v1::FsReadResult), Error> {
        let (session_id, encoding) = (self.session.id(), Some("base64".to_owned()));
        let mut result = self.session.call(&v1::FsRead { session_id, encoding, ..params }).await?;
        let content = std::mem::take(&mut result.content);
        let bytes = match result.encoding.as_str() {
            // A server may know no other.
            "utf8" => content.into_bytes(),
            _ => wire::base64::decode(&content)
                .map_err(|_| Error::Protocol("a file's content that is not base64".to_owned()))?,
        };
        Ok((Bytes::from(bytes), result))
    }

    /// A whole file, in as many answers as it takes.
    pub async fn read_all(&self, path: &str) -> Result<Vec<u8>, Error> {
        let (first, mut about) = self.read(path, 0, None).await?;
        let mut whole = Vec::from(first);
        while about.truncated {
            let (more, next) = self.read(path, whole.len() as u64, None).await?;
            if more.is_empty() {
                break;
            }
            whole.extend_from_slice(&more);
            about = next;
        }
        Ok(whole)
    }

    /// Replaces or creates a file, in one step.
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

    /// Text as it is, unless it is shorter as base64: every control character takes six bytes of a message.
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

    /// Writes as the params say; session and key are filled in.
    pub async fn write_with(&self, params: v1::FsWrite) -> Result<v1::FsWriteResult, Error> {
        let session_id = self.session.id();
        self.change(&v1::FsWrite { session_id, idempotency_key: Some(self.session.key()), ..params }).await
    }

    /// Writes bytes as the params say, large ones too, without a key: whoever cannot write twice hears of a cut as
    /// [`Error::Ambiguous`]. The session is filled in; content and encoding of the params do not count.
    pub async fn put(&self, params: v1::FsWrite, bytes: &[u8]) -> Result<v1::FsWriteResult, Error> {
        // To replace a file twice by the same is to replace it once.
        let replaces = matches!(params.mode.as_deref(), None | Some("replace"));
        let again = match replaces && params.expected_mtime.is_none() {
            true => Again::Safe,
            false => Again::Never,
        };
        let params = v1::FsWrite { session_id: self.session.id(), idempotency_key: None, ..params };
        let write = |id| v1::write_request(id, &params, bytes);
        self.session.ask_written::<v1::FsWrite>(write, again, Opens::Nothing).await
    }

    /// Replaces text in a file; the session and the key are filled in.
    pub async fn edit(&self, params: v1::FsEdit) -> Result<v1::FsEditResult, Error> {
        let session_id = self.session.id();
        self.change(&v1::FsEdit { session_id, idempotency_key: Some(self.session.key()), ..params }).await
    }

    /// Applies a patch, whole or not at all.
    pub async fn patch(&self, patch_text: &str, cwd: Option<&str>) -> Result<v1::FsPatchResult, Error> {
        let params = v1::FsPatch {
            session_id: self.session.id(),
            patch_text: patch_text.to_owned(),
            cwd: cwd.map(str::to_owned),
            idempotency_key: Some(self.session.key()),
        };
        self.change(&params).await
    }

    /// What is in a directory; the session is filled in.
    pub async fn list(&self, params: v1::FsList) -> Result<v1::FsListResult, Error> {
        self.session.call(&v1::FsList { session_id: self.session.id(), ..params }).await
    }

    /// Paths by pattern; the session is filled in.
    pub async fn glob(&self, params: v1::FsGlob) -> Result<v1::FsGlobResult, Error> {
        self.session.call(&v1::FsGlob { session_id: self.session.id(), ..params }).await
    }

    /// Lines by pattern; the session is filled in.
    pub async fn grep(&self, params: v1::FsGrep) -> Result<v1::FsGrepResult, Error> {
        self.session.call(&v1::FsGrep { session_id: self.session.id(), ..params }).await
    }

    /// What a path is.
    pub async fn stat(&self, path: &str) -> Result<v1::FsStatResult, Error> {
        self.stat_with(v1::FsStat { path: path.to_owned(), ..v1::FsStat::default() }).await
    }

    /// What a path is and what its content hashes to, all of it or the first bytes; needs `fs.stat.hash`.
    pub async fn stat_hash(&self, path: &str, first: Option<u64>) -> Result<v1::FsStatResult, Error> {
        let hash_bytes = first.map(|bytes| i64::try_from(bytes).unwrap_or(i64::MAX));
        let (path, hash) = (path.to_owned(), Some("sha256".to_owned()));
        self.stat_with(v1::FsStat { path, hash, hash_bytes, ..v1::FsStat::default() }).await
    }

    async fn stat_with(&self, params: v1::FsStat) -> Result<v1::FsStatResult, Error> {
        self.session.call(&v1::FsStat { session_id: self.session.id(), ..params }).await
    }

    /// Makes a directory, and with `parents` those above it.
    pub async fn mkdir(&self, path: &str, parents: bool) -> Result<(), Error> {
        let (session_id, path) = (self.session.id(), path.to_owned());
        let params = v1::FsMkdir { session_id, path, parents, idempotency_key: Some(self.session.key()) };
        self.change(&params).await.map(drop)
    }

    /// Removes a file, or with `recursive` a whole directory.
    pub async fn remove(&self, path: &str, recursive: bool) -> Result<(), Error> {
        let (session_id, path) = (self.session.id(), path.to_owned());
        let params = v1::FsRemove { session_id, path, recursive, idempotency_key: Some(self.session.key()) };
        self.change(&params).await.map(drop)
    }

    /// Renames; with `overwrite` what is there goes.
    pub async fn rename(&self, from: &str, to: &str, overwrite: bool) -> Result<(), Error> {
        let (from, to) = (from.to_owned(), to.to_owned());
        let (session_id, idempotency_key) = (self.session.id(), Some(self.session.key()));
        self.change(&v1::FsRename { session_id, from, to, overwrite, idempotency_key }).await.map(drop)
    }

    /// Copies there; the session and the key are filled in.
    pub async fn copy(&self, params: v1::FsCopy) -> Result<(), Error> {
        let session_id = self.session.id();
        self.change(&v1::FsCopy { session_id, idempotency_key: Some(self.session.key()), ..params })
            .await
            .map(drop)
    }

    /// Reports what changes below a path.
    pub async fn watch(&self, path: &str, recursive: bool) -> Result<FileWatch, Error> {
        let (events, receiver) = queue(self.session.drained());
        let (session_id, path) = (self.session.id(), path.to_owned());
        let params = v1::FsWatch { session_id, path, recursive: Some(recursive) };
        let opened = self.session.ask(&params, Again::Safe, Opens::Watch(events)).await?;
        Ok(FileWatch { session: self.session.clone(), watch_id: opened.watch_id, events: receiver })
    }

    /// Changes something, once however often it is asked.
    async fn change<M: Method>(&self, params: &M) -> Result<M::Result, Error> {
        self.session.ask(params, Again::Safe, Opens::Nothing).await
    }
}

/// Changes below a path, as they happen.
#[derive(Debug)]
pub struct FileWatch {
    session: Session,
    watch_id: String,
    events: queue::Receiver<WatchEvent>,
}

/// Changes below a watched path.
#[derive(Debug)]
pub struct WatchEvent {
    /// What changed, or why nothing more will be heard.
    pub changed: Result<v1::FsChanged, Error>,
    /// The event as it came, if [`OutputMode::Verbatim`](crate::OutputMode::Verbatim) was asked for.
    pub line: Option<Bytes>,
}

impl FileWatch {
    /// The next changes; nothing when the session is over. Nothing is lost if this future is dropped.
    pub async fn next(&mut self) -> Option<WatchEvent> {
        self.events.recv().await
    }

    /// Stops the reports.
    pub async fn stop(self) -> Result<(), Error> {
        let params = v1::FsUnwatch { session_id: self.session.id(), watch_id: self.watch_id.clone() };
        self.session.call(&params).await.map(drop)
    }
}
