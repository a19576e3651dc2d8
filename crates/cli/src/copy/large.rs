//! LargeCopy: copies a large file in chunks, several in flight, to a partial file that is renamed when it is complete.
//!
//! An earlier partial file is resumed if its SHA-256 is that of the same number of bytes of the source. If both ends are on
//! one target, the server copies the contents and none are transferred.

use std::collections::VecDeque;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use bytes::Bytes;
use link::task::OwnedTask;
use tokio::sync::mpsc;

use super::endpoint::{CopyEndpoint, FileAttributes, FileKind};
use super::error::CopyError;
use super::hash::{HashKind, RunningHash, add_first};
use super::local_end::{self, SourceFile, WRITE_CHUNK};
use super::names;
use super::remote_end::RemoteEnd;
use super::stats::CopyStats;

/// Bytes of one request.
pub(super) const PIECE: u64 = 1024 * 1024;
/// Chunks read ahead, and chunks written ahead.
const MAX_IN_FLIGHT: usize = 6;
/// The attributes of a partial file until it is complete.
const PRIVATE: FileAttributes = FileAttributes { mode: Some(0o600), mtime: None };

/// One large file and its destination.
#[derive(Debug, Clone)]
pub(super) struct LargeCopy {
    pub(super) from: String,
    pub(super) to: String,
    pub(super) size: u64,
    /// The attributes of the source, if known.
    pub(super) attributes: FileAttributes,
    /// Whether hashes are compared at the end.
    pub(super) verify: bool,
}

/// Chunks that are read ahead, in order.
type ChunkReceiver = mpsc::Receiver<OwnedTask<Result<Bytes, CopyError>>>;

/// Where the copy resumes: the number of bytes present, and their hash.
struct ResumePoint {
    at: u64,
    running: RunningHash,
}

/// The source of chunks.
#[derive(Clone)]
enum PieceSource {
    Local(Arc<SourceFile>),
    Remote(RemoteEnd, String),
}

/// The destination of chunks, written in order.
enum PieceSink {
    Local(Arc<File>),
    Remote {
        remote: RemoteEnd,
        part: String,
        attributes: FileAttributes,
        ahead: VecDeque<OwnedTask<Result<(), CopyError>>>,
    },
}

impl LargeCopy {
    /// Copies the file and resumes an earlier attempt if possible.
    pub(super) async fn copy(
        &self,
        source: &CopyEndpoint,
        target: &CopyEndpoint,
        stats: &Arc<CopyStats>,
    ) -> Result<(), CopyError> {
        let to = self.resolve_link(target).await?;
        let part = names::part(&to);
        if let Some(remote) = on_one_target(source, target) {
            return self.copy_within(remote, (&part, &to), stats).await;
        }
        self.copy_to(source, target, (&part, &to), stats).await.map_err(|error| match error.is_disk_full {
            true => {
                error.hint(format!("free some space and copy again to resume: {part} is kept until then"))
            }
            false => error,
        })
    }

    /// Lets the server copy the contents, which are not transferred. A partial file of this copy is not resumed.
    async fn copy_within(
        &self,
        remote: &RemoteEnd,
        (part, to): (&str, &str),
        stats: &Arc<CopyStats>,
    ) -> Result<(), CopyError> {
        // The server keeps the mode of the file that it replaces, so the contents are private until they have their final mode.
        remote.write(part, b"", "replace", PRIVATE).await?;
        if let Err(error) = remote.copy(&self.from, part).await {
            // The first error is the one to report.
            remote.remove(part).await.ok();
            return Err(error);
        }
        remote.write(part, b"", "append", self.attributes).await?;
        stats.sent(self.size);
        if self.verify {
            let _verifying = stats.verifying();
            let kind = remote.hash_kind();
            let (source, held) =
                tokio::try_join!(remote.hash(&self.from, kind, None), remote.hash(part, kind, None))?;
            if source.text != held.text {
                return Err(local_end::changed(&self.from));
            }
        }
        remote.commit(part, to).await
    }

    async fn copy_to(
        &self,
        source: &CopyEndpoint,
        target: &CopyEndpoint,
        (part, to): (&str, &str),
        stats: &Arc<CopyStats>,
    ) -> Result<(), CopyError> {
        let pieces = self.open(source)?;
        let kind = source.hash_kind().common(target.hash_kind());
        let begun = self.begun(&pieces, (target, part), kind).await?;
        stats.passed(begun.at);
        let mut sink = self.sink(target, part, begun.at)?;
        let sent = self.send(&pieces, &mut sink, begun, stats).await;
        let running = match (sent, sink.flush().await) {
            (Ok(running), Ok(())) => running,
            (Err(error), _) | (_, Err(error)) => return Err(error),
        };
        if let PieceSource::Local(source) = &pieces {
            source.check()?;
        }
        let verifying = self.verify.then(|| stats.verifying());
        self.check(&pieces, (target, part), &running).await?;
        drop(verifying);
        match (target, sink) {
            (CopyEndpoint::Local, PieceSink::Local(file)) => {
                local_end::commit(&file, (part, to), self.attributes)
            }
            (CopyEndpoint::Remote(remote), _) => remote.commit(part, to).await,
            (CopyEndpoint::Local, PieceSink::Remote { .. }) => Ok(()),
        }
    }

    /// The path to write: on a target, an existing symbolic link stays, and the file it names is replaced.
    async fn resolve_link(&self, target: &CopyEndpoint) -> Result<String, CopyError> {
        match target {
            CopyEndpoint::Local => Ok(self.to.clone()),
            CopyEndpoint::Remote(remote) => match remote.stat(&self.to).await? {
                Some(found) if found.kind == FileKind::Link => {
                    let leads = remote.follow(&self.to).await?;
                    leads.map(|(path, _)| path).ok_or_else(|| {
                        CopyError::file(format!("cannot write {}: it is a dangling symbolic link", self.to))
                            .hint("remove the link, or copy to another path")
                    })
                }
                _ => Ok(self.to.clone()),
            },
        }
    }

    fn open(&self, source: &CopyEndpoint) -> Result<PieceSource, CopyError> {
        match source {
            CopyEndpoint::Local => {
                let source = SourceFile::open(&self.from)?;
                match source.meta().size == self.size {
                    true => Ok(PieceSource::Local(Arc::new(source))),
                    false => Err(local_end::changed(&self.from)),
                }
            }
            CopyEndpoint::Remote(remote) => Ok(PieceSource::Remote(remote.clone(), self.from.clone())),
        }
    }

    /// How much of an earlier partial file can be kept.
    async fn begun(
        &self,
        pieces: &PieceSource,
        (target, part): (&CopyEndpoint, &str),
        kind: HashKind,
    ) -> Result<ResumePoint, CopyError> {
        let nothing = || ResumePoint { at: 0, running: RunningHash::new(kind) };
        let Some(found) = target.stat(part).await? else { return Ok(nothing()) };
        if found.kind != FileKind::File || found.size == 0 || found.size > self.size {
            return Ok(nothing());
        }
        let at = found.size;
        // SHA-256: a source can be constructed to collide with its partial file in the hash that is compared at the end.
        let (local, remote, path, first) = match (pieces, target) {
            (PieceSource::Local(source), CopyEndpoint::Remote(remote)) => (&*source.path, remote, part, None),
            (PieceSource::Remote(remote, path), CopyEndpoint::Local) => (part, remote, &**path, Some(at)),
            // Between two remote ends the state of the hash is unknown here, so the copy starts again.
            _ => return Ok(nothing()),
        };
        let (prefix, there) = tokio::try_join!(
            LocalPrefix::read(local.to_owned(), at, kind),
            remote.hash(path, HashKind::Sha256, first)
        )?;
        match prefix {
            Some(prefix) if there.bytes == at && there.text == prefix.sha256 => {
                Ok(ResumePoint { at, running: prefix.running })
            }
            _ => Ok(nothing()),
        }
    }

    fn sink(&self, target: &CopyEndpoint, part: &str, at: u64) -> Result<PieceSink, CopyError> {
        match target {
            CopyEndpoint::Local => {
                let file = local_end::open_part(part, at == 0).map_err(CopyError::local("write", part))?;
                Ok(PieceSink::Local(Arc::new(file)))
            }
            CopyEndpoint::Remote(remote) => Ok(PieceSink::Remote {
                remote: remote.clone(),
                part: part.to_owned(),
                attributes: self.attributes,
                ahead: VecDeque::new(),
            }),
        }
    }

    /// Sends the missing chunks; returns the hash of the whole file.
    async fn send(
        &self,
        pieces: &PieceSource,
        sink: &mut PieceSink,
        begun: ResumePoint,
        stats: &Arc<CopyStats>,
    ) -> Result<RunningHash, CopyError> {
        let ResumePoint { mut at, mut running } = begun;
        if at == self.size {
            sink.write(at, Bytes::new(), true).await?;
            return Ok(running);
        }
        let (mut read, _reader) = read_ahead(pieces.clone(), at, self.size);
        while let Some(piece) = read.recv().await {
            let bytes = piece.join().await??;
            let file = match sink {
                PieceSink::Local(file) => Some(file.clone()),
                PieceSink::Remote { .. } => None,
            };
            let (part, length) = (self.to.clone(), bytes.len() as u64);
            let work = move || {
                running.add(&bytes);
                if let Some(file) = file {
                    let chunks = (at..).step_by(WRITE_CHUNK).zip(bytes.chunks(WRITE_CHUNK));
                    for (at, chunk) in chunks {
                        file.write_all_at(chunk, at).map_err(CopyError::local("write", &part))?;
                    }
                }
                Ok::<_, CopyError>((running, bytes))
            };
            let (hashed, bytes) = tokio::task::spawn_blocking(work).await??;
            running = hashed;
            sink.write(at, bytes, at + length == self.size).await?;
            at += length;
            stats.sent(length);
        }
        match at == self.size {
            true => Ok(running),
            false => Err(local_end::changed(&self.from)),
        }
    }

    /// Compares the hash of the partial file with the hash of the sent data and of the source; without `verify`, only its
    /// size, which differs if the directory or its disk was replaced during the copy.
    async fn check(
        &self,
        pieces: &PieceSource,
        (target, part): (&CopyEndpoint, &str),
        sent: &RunningHash,
    ) -> Result<(), CopyError> {
        let (kind, sent) = (sent.kind(), sent.text());
        if let PieceSource::Remote(remote, path) = pieces
            && self.verify
        {
            let source = remote.hash(path, kind, None).await?;
            if source.text != sent {
                return Err(local_end::changed(&self.from));
            }
        }
        if let CopyEndpoint::Remote(remote) = target {
            let is_whole = match self.verify {
                true => remote.hash(part, kind, None).await?.text == sent,
                false => remote.stat(part).await?.is_some_and(|found| found.size == self.size),
            };
            if !is_whole {
                target.remove(part).await?;
                let error = format!(
                    "cannot copy {}: {part} differs from the data that was sent; it was removed",
                    self.from
                );
                return Err(CopyError::file(error)
                    .hint("check whether another program writes it, then copy again")
                    .passing());
            }
        }
        Ok(())
    }
}

/// The end of a copy whose ends are on one target.
fn on_one_target<'a>(source: &'a CopyEndpoint, target: &CopyEndpoint) -> Option<&'a RemoteEnd> {
    match (source, target) {
        (CopyEndpoint::Remote(one), CopyEndpoint::Remote(other)) => {
            (one.session.target() == other.session.target()).then_some(one)
        }
        _ => None,
    }
}

/// The first bytes of a local file: their SHA-256, and the hash that is continued and compared at the end.
struct LocalPrefix {
    sha256: String,
    running: RunningHash,
}

impl LocalPrefix {
    /// `None` if the file is shorter.
    async fn read(path: String, first: u64, kind: HashKind) -> Result<Option<LocalPrefix>, CopyError> {
        let work = move || {
            let cannot = || CopyError::local("read", &path);
            let file = File::open(&path).map_err(cannot())?;
            let mut sha256 = RunningHash::new(HashKind::Sha256);
            let running = match kind {
                HashKind::Sha256 => {
                    let is_complete = add_first(&file, first, &mut [&mut sha256]).map_err(cannot())?;
                    is_complete.then(|| sha256.clone())
                }
                HashKind::Xxh128 => {
                    let mut running = RunningHash::new(kind);
                    let both = &mut [&mut sha256, &mut running];
                    add_first(&file, first, both).map_err(cannot())?.then_some(running)
                }
            };
            Ok(running.map(|running| LocalPrefix { sha256: sha256.text(), running }))
        };
        tokio::task::spawn_blocking(work).await?
    }
}

/// Reads chunks ahead and returns them in order.
fn read_ahead(pieces: PieceSource, from: u64, size: u64) -> (ChunkReceiver, OwnedTask<()>) {
    let (ready, read) = mpsc::channel(MAX_IN_FLIGHT);
    let reader = OwnedTask::spawn(async move {
        let most = match &pieces {
            PieceSource::Local(_) => PIECE,
            PieceSource::Remote(remote, _) => PIECE.min(remote.max_read()),
        };
        let mut at = from;
        while at < size {
            let length = most.min(size - at);
            let piece = OwnedTask::spawn(pieces.clone().read(at, length));
            // The receiver is gone after an error.
            if ready.send(piece).await.is_err() {
                return;
            }
            at += length;
        }
    });
    (read, reader)
}

impl PieceSource {
    async fn read(self, at: u64, length: u64) -> Result<Bytes, CopyError> {
        let (bytes, path) = match self {
            PieceSource::Local(source) => {
                let work = move || {
                    let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
                    match source.file.read_exact_at(&mut bytes, at) {
                        Ok(()) => Ok((Bytes::from(bytes), source.path.clone())),
                        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
                            Err(local_end::changed(&source.path))
                        }
                        Err(error) => Err(CopyError::local("read", &source.path)(error)),
                    }
                };
                tokio::task::spawn_blocking(work).await??
            }
            PieceSource::Remote(remote, path) => (remote.read(&path, at, length).await?, path),
        };
        match bytes.len() as u64 == length {
            true => Ok(bytes),
            false => Err(local_end::changed(&path)),
        }
    }
}

impl PieceSink {
    /// Queues the next chunk; waits only while too many are in flight.
    async fn write(&mut self, at: u64, bytes: Bytes, is_last: bool) -> Result<(), CopyError> {
        let PieceSink::Remote { remote, part, attributes, ahead } = self else { return Ok(()) };
        while ahead.len() >= MAX_IN_FLIGHT {
            if let Some(oldest) = ahead.pop_front() {
                oldest.join().await??;
            }
        }
        // The first chunk replaces an earlier partial file.
        let how = if at == 0 { "replace" } else { "append" };
        let attributes = match is_last {
            true => *attributes,
            false => PRIVATE,
        };
        let (remote, part) = (remote.clone(), part.clone());
        // Requests are queued at their first poll, and tasks are first polled in the order they are spawned.
        let write = async move { remote.write(&part, &bytes, how, attributes).await };
        ahead.push_back(OwnedTask::spawn(write));
        Ok(())
    }

    /// Waits until all chunks are written.
    async fn flush(&mut self) -> Result<(), CopyError> {
        let PieceSink::Remote { ahead, .. } = self else { return Ok(()) };
        let mut all = Ok(());
        for piece in std::mem::take(ahead) {
            let piece = piece.join().await.map_err(CopyError::from).and_then(|written| written);
            all = all.and(piece);
        }
        all
    }
}
