//! Files: read, written, edited, patched, described, made, moved, copied and removed.

use engine::files::{
    self, CopyOptions, Edit, FileHasher, FileKind, Metadata, ReadRange, ScanBudget, WriteOptions,
};
use engine::{Error, RootedPath};
use serde::Serialize;
use wire::rexd::v1::{self, RpcError};

use super::super::answer::Answer;
use super::super::convert::{self, HashWish, output_encoding};
use super::super::errors::{changed_since_shown, invalid, rpc_error, text};
use super::super::keys::Kept;
use super::super::order::Turn;
use super::super::session::Session;
use super::content::{Reading, Wanted};
use super::launch::remember;
use super::mode_string::mode_string;
use crate::core::approvals::diff::{self, Preview, PreviewDigest};

/// Reads up to this size are first tried on this thread, where they can be had without waiting for a disk.
const SMALL_READ: u64 = 64 * 1024;

impl Session {
    /// `fs.read`.
    pub(super) fn fs_read(&self, params: v1::FsRead, answer: Answer, turn: Turn) {
        let (path, reading) = match self.reading(&params) {
            Ok(found) => found,
            Err(error) => return self.refuse(answer, error),
        };
        let small = ReadRange { max: reading.range.max.min(SMALL_READ), ..reading.range };
        if let Some(content) = files::read_cached(&path, small) {
            let is_whole =
                content.as_ref().map_or(true, |content| !content.more || reading.is_met_by(&content.bytes));
            if is_whole {
                return self.spawn(send_content(answer, reading.respond(&path, content)));
            }
        }
        let id = answer.id();
        self.spawn(async move {
            let work = move || {
                let content = files::read(&path, reading.range);
                drop(turn);
                reading.respond(&path, content).map(|response| response.encode(id.as_ref()))
            };
            match off_thread(work).await {
                Ok(Some(line)) => answer.send_raw(line).await,
                Ok(None) => answer.send(Ok(())).await,
                Err(error) => answer.send(Err::<(), _>(error)).await,
            }
        });
    }

    fn reading(&self, params: &v1::FsRead) -> Result<(RootedPath, Reading), RpcError> {
        let wanted = match params.encoding.as_deref() {
            None => Wanted::Whatever,
            Some(name) => match output_encoding(Some(name), "encoding")? {
                v1::Encoding::Utf8 => Wanted::Text,
                v1::Encoding::Base64 => Wanted::Bytes,
            },
        };
        let offset = convert::optional("offset", params.offset)?.unwrap_or(0);
        let length = convert::optional("length", params.length)?;
        let max = self.limits.max_file_read_bytes;
        let frame_bytes = self.manners.frame_bytes;
        let reading = Reading::new(ReadRange { offset, length, max }, wanted, frame_bytes);
        let hashes = convert::wants_hash(params.hash.as_deref())?;
        Ok((self.named_path(&params.path)?, reading.hashing(hashes)))
    }

    /// `fs.write`.
    pub(super) fn fs_write(&self, params: v1::FsWrite, answer: Answer, turn: Turn) {
        let key = params.idempotency_key.clone();
        let Some((answer, kept)) = self.once(answer, key.as_deref(), &params) else { return };
        let (path, options) = match self.writing(&params) {
            Ok(found) => found,
            Err(error) => return self.refuse(answer, error),
        };
        let hashes = match convert::wants_hash(params.hash.as_deref()) {
            Ok(hashes) => hashes,
            Err(error) => return self.refuse(answer, error),
        };
        let shown = self.permit.shown;
        self.change(answer, turn, kept, move || {
            let bytes = convert::data("content", &params.content, params.encoding.as_deref(), "encoding")?;
            still_as_shown(shown, &path, || diff::write(&path, &bytes, options.mode))?;
            let written = files::write(&path, &bytes, &options).map_err(rpc_error)?;
            Ok(v1::FsWriteResult {
                path: text(path.as_path()),
                bytes_written: written.bytes,
                mtime: written.mtime_ms,
                created: written.created,
                hash: hashes.then(|| convert::hash(&bytes)),
            })
        });
    }

    fn writing(&self, params: &v1::FsWrite) -> Result<(RootedPath, WriteOptions), RpcError> {
        let mode = convert::write_mode(params.mode.as_deref())?;
        output_encoding(params.encoding.as_deref(), "encoding")?;
        let options = WriteOptions {
            mode,
            mkdir_parents: params.mkdir_parents,
            atomic: params.atomic.unwrap_or(true),
            expected_mtime_ms: params.expected_mtime,
            durability: convert::durability(params.durable).unwrap_or(self.service.durability),
            permissions: convert::permissions(params.permissions.as_deref())?,
        };
        Ok((self.named_path(&params.path)?, options))
    }

    /// `fs.edit`.
    pub(super) fn fs_edit(&self, params: v1::FsEdit, answer: Answer, turn: Turn) {
        let key = params.idempotency_key.clone();
        let Some((answer, kept)) = self.once(answer, key.as_deref(), &params) else { return };
        let path = match self.named_path(&params.path) {
            Ok(path) => path,
            Err(error) => return self.refuse(answer, error),
        };
        let edit = Edit { durability: self.service.durability, ..convert::edit(&params) };
        let shown = self.permit.shown;
        self.change(answer, turn, kept, move || {
            still_as_shown(shown, &path, || diff::edit(&path, &edit))?;
            let edited = files::edit(&path, &edit).map_err(rpc_error)?;
            Ok(v1::FsEditResult {
                path: text(path.as_path()),
                bytes_written: edited.written.bytes,
                mtime: edited.written.mtime_ms,
                created: edited.written.created,
                replacements: edited.replacements as u64,
            })
        });
    }

    /// `fs.patch`.
    pub(super) fn fs_patch(&self, params: v1::FsPatch, answer: Answer, turn: Turn) {
        let key = params.idempotency_key.clone();
        let Some((answer, kept)) = self.once(answer, key.as_deref(), &params) else { return };
        if params.patch_text.is_empty() {
            return self.refuse(answer, invalid("patch_text", "patch_text is required"));
        }
        let base = match self.path(params.cwd.as_deref().unwrap_or_default()) {
            Ok(base) => base,
            Err(error) => return self.refuse(answer, error),
        };
        let (roots, durability) = (self.ruled_roots(), self.service.durability);
        let shown = self.permit.shown;
        self.change(answer, turn, kept, move || {
            let plan = files::patch::plan(&roots, base.as_path(), &params.patch_text).map_err(rpc_error)?;
            still_as_shown(shown, &base, || Ok(diff::patch(&plan)))?;
            let patched = plan.apply(durability).map_err(rpc_error)?;
            let texts = |paths: &[std::path::PathBuf]| paths.iter().map(|path| text(path)).collect();
            Ok(v1::FsPatchResult {
                added: texts(&patched.added),
                updated: texts(&patched.updated),
                deleted: texts(&patched.deleted),
                moved: patched
                    .moved
                    .iter()
                    .map(|(from, to)| v1::Move { from: text(from), to: text(to) })
                    .collect(),
            })
        });
    }

    /// `fs.stat`.
    pub(super) fn fs_stat(&self, params: v1::FsStat, answer: Answer, turn: Turn) {
        let path = match self.path(&params.path) {
            Ok(path) => path,
            Err(error) => return self.refuse(answer, error),
        };
        match convert::hash_wish(&params) {
            Ok(None) => {}
            Ok(Some(wish)) => return self.stat_and_hash(path, wish, answer, turn),
            Err(error) => return self.refuse(answer, error),
        }
        if let Some(found) = files::stat_cached(&path) {
            return self.reply(answer, found.map(|found| described(&path, found)).map_err(rpc_error));
        }
        self.spawn(async move {
            let work = move || {
                let found = files::stat(&path).map_err(rpc_error)?;
                drop(turn);
                Ok(described(&path, found))
            };
            answer.send(off_thread(work).await).await;
        });
    }

    /// `fs.stat` with `hash`. Others wait until the file is open; however long it then takes to read, nobody does.
    fn stat_and_hash(&self, path: RootedPath, wish: HashWish, answer: Answer, turn: Turn) {
        self.scan(answer, ScanBudget::unbounded(), move |scan| {
            let found = files::stat(&path).map_err(rpc_error)?;
            let mut result = described(&path, found);
            if result.exists {
                let hashing = FileHasher::open(&path).map_err(rpc_error)?;
                drop(turn);
                let hashed = hashing.run(wish.first, &scan).map_err(rpc_error)?;
                result.hash = Some(convert::hexadecimal(&hashed.sha256));
                result.hash_bytes = Some(hashed.bytes);
            }
            Ok(result)
        });
    }

    /// `fs.mkdir`.
    pub(super) fn fs_mkdir(&self, params: v1::FsMkdir, answer: Answer, turn: Turn) {
        let key = params.idempotency_key.clone();
        let Some((answer, kept)) = self.once(answer, key.as_deref(), &params) else { return };
        match self.named_path(&params.path) {
            Ok(path) => {
                self.change(answer, turn, kept, move || done(files::make_directory(&path, params.parents)))
            }
            Err(error) => self.refuse(answer, error),
        }
    }

    /// `fs.remove`.
    pub(super) fn fs_remove(&self, params: v1::FsRemove, answer: Answer, turn: Turn) {
        let key = params.idempotency_key.clone();
        let Some((answer, kept)) = self.once(answer, key.as_deref(), &params) else { return };
        let scan = ScanBudget::unbounded();
        match self.named_path(&params.path) {
            Ok(path) => {
                self.change(answer, turn, kept, move || done(files::remove(&path, params.recursive, &scan)))
            }
            Err(error) => self.refuse(answer, error),
        }
    }

    /// `fs.rename`.
    pub(super) fn fs_rename(&self, params: v1::FsRename, answer: Answer, turn: Turn) {
        let key = params.idempotency_key.clone();
        let Some((answer, kept)) = self.once(answer, key.as_deref(), &params) else { return };
        match self.two_paths(&params.from, &params.to) {
            Ok((from, to)) => {
                self.change(answer, turn, kept, move || done(files::rename(&from, &to, params.overwrite)))
            }
            Err(error) => self.refuse(answer, error),
        }
    }

    /// `fs.copy`.
    pub(super) fn fs_copy(&self, params: v1::FsCopy, answer: Answer, turn: Turn) {
        let key = params.idempotency_key.clone();
        let Some((answer, kept)) = self.once(answer, key.as_deref(), &params) else { return };
        let options = CopyOptions {
            recursive: params.recursive,
            overwrite: params.overwrite,
            ..CopyOptions::default()
        };
        match self.two_paths(&params.from, &params.to) {
            Ok((from, to)) => {
                self.change(answer, turn, kept, move || {
                    done(files::copy(&from, &to, options, &ScanBudget::unbounded()))
                });
            }
            Err(error) => self.refuse(answer, error),
        }
    }

    fn two_paths(&self, from: &str, to: &str) -> Result<(RootedPath, RootedPath), RpcError> {
        let named = |field: &str, path: &str| match path {
            "" => Err(invalid(field, "path is required")),
            path => self.path(path),
        };
        Ok((named("from", from)?, named("to", to)?))
    }

    /// A path of a request that must name something.
    pub(super) fn named_path(&self, asked: &str) -> Result<RootedPath, RpcError> {
        convert::named_path(&self.ruled_roots(), &self.cwd, asked).map_err(|error| self.hint(error))
    }

    /// Changes something off the event loop, remembers the answer under its key, and lets the next in line go on.
    fn change<T: Serialize + Send + 'static>(
        &self,
        answer: Answer,
        turn: Turn,
        kept: Option<Kept>,
        work: impl FnOnce() -> Result<T, RpcError> + Send + 'static,
    ) {
        self.spawn(async move {
            let result = match &turn {
                Turn::Train(train) => train.carry(work).await,
                _ => off_thread(work).await,
            };
            remember(kept, &result);
            drop(turn);
            answer.send(result).await;
        });
    }
}

/// Whether what somebody approved is still what would be done: the files may have changed while it waited.
fn still_as_shown(
    shown: Option<PreviewDigest>,
    path: &RootedPath,
    preview: impl FnOnce() -> Result<Preview, Error>,
) -> Result<(), RpcError> {
    let Some(shown) = shown else { return Ok(()) };
    match preview().map_err(rpc_error)?.shown == shown {
        true => Ok(()),
        false => Err(changed_since_shown(path.as_path())),
    }
}

/// Runs what may wait for a disk on a thread that may wait.
pub(super) async fn off_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, RpcError> + Send + 'static,
) -> Result<T, RpcError> {
    let finished = tokio::task::spawn_blocking(work).await;
    finished.unwrap_or_else(|_panicked| Err(RpcError::internal("the operation failed inside the server")))
}

async fn send_content(answer: Answer, response: Result<super::content::Response, RpcError>) {
    let id = answer.id();
    match response.map(|response| response.encode(id.as_ref())) {
        Ok(Some(line)) => answer.send_raw(line).await,
        Ok(None) => answer.send(Ok(())).await,
        Err(error) => answer.send(Err::<(), _>(error)).await,
    }
}

fn done(result: Result<(), Error>) -> Result<v1::OkResult, RpcError> {
    result.map(|()| v1::OkResult::DONE).map_err(rpc_error)
}

fn described(path: &RootedPath, found: Option<Metadata>) -> v1::FsStatResult {
    let path = text(path.as_path());
    let Some(found) = found else { return v1::FsStatResult { path, ..v1::FsStatResult::default() } };
    v1::FsStatResult {
        path,
        exists: true,
        kind: Some(kind_name(found.kind).to_owned()),
        size: Some(found.size),
        mtime: Some(found.mtime_ms),
        mode: Some(mode_string(found.mode)),
        uid: Some(found.uid),
        gid: Some(found.gid),
        symlink_target: found.link_target.as_deref().map(text),
        hash: None,
        hash_bytes: None,
    }
}

/// What the protocol calls a kind of file.
pub(super) fn kind_name(kind: FileKind) -> &'static str {
    match kind {
        FileKind::File => "file",
        FileKind::Dir => "dir",
        FileKind::Symlink => "symlink",
        FileKind::Other => "other",
    }
}
