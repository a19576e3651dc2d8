//! Files: read, written, edited, patched, described, created, moved, copied and removed.

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;

use engine::approval::FileAction;
use engine::files::patch::{self as patches, Hunk};
use engine::files::{
    self, CopyOptions, Edit, FileHasher, FileKind, Metadata, ReadRange, ScanBudget, WriteMode, WriteOptions,
};
use engine::policy::Access;
use engine::{Error, RootedPath};
use wire::binary;
use wire::rexd::v1::{self, Encoding, RpcError};

use super::content::{ReadEncoding, ReadOptions};
use super::mode_string::mode_string;
use super::scans::run_scan;
use super::{Context, Params, PrepareResult, RexdPrepared, admit, hint};
use crate::core::approvals::diff;
use crate::core::authorize::Authorization;
use crate::core::effects::{Effects, FileEffect, FileEffects, PreviewFn};
use crate::core::request::{AuthorizedRequest, off_thread};
use crate::core::response_memory::file_size;
use crate::faces::rexd::convert::{self, HashRequest, output_encoding};
use crate::faces::rexd::errors::{changed_since_shown, invalid, rpc_error, text};
use crate::faces::rexd::session::Session;

/// Reads up to this size are first tried on the event loop, if the page cache has them.
const CACHED_READ: u64 = 64 * 1024;
/// For larger reads the size of the file is examined first, so that they do not reserve memory in vain.
const EXAMINED_READ: u64 = 4 * 1024 * 1024;

/// A path of a request and what happens to it.
pub(super) struct FileAccess {
    /// Checked against the roots, for the effects.
    pub(super) admitted: RootedPath,
    /// Under the sandbox and the rules on files, for the operation.
    pub(super) path: RootedPath,
}

impl FileAccess {
    pub(super) fn new(context: &Context<'_>, path: &str) -> Result<FileAccess, RpcError> {
        let admitted = admit(context, path)?;
        Ok(FileAccess { path: context.guarded(&admitted), admitted })
    }

    /// The same for a parameter that must not be empty.
    pub(super) fn named(context: &Context<'_>, (field, path): (&str, &str)) -> Result<FileAccess, RpcError> {
        if path.is_empty() {
            return Err(invalid(field, "path is required"));
        }
        FileAccess::new(context, path)
    }

    pub(super) fn effect(&self, access: Access, is_tree: bool) -> FileEffect {
        FileEffect { path: self.admitted.clone(), access, is_tree }
    }

    /// The effects of reading this path.
    pub(super) fn read(&self, context: &Context<'_>) -> Result<Effects, RpcError> {
        context
            .file_effects(|| Ok(FileEffects::new(FileAction::Read, vec![self.effect(Access::Read, false)])))
    }
}

/// Checks and converts a `fs.read` request.
pub(crate) fn read(params: &Params<v1::FsRead>, context: &Context<'_>) -> PrepareResult {
    let encoding = match params.encoding.as_deref() {
        None => ReadEncoding::Detect,
        Some(binary::ENCODING) if context.session.state.client.encoding == Encoding::Binary => {
            ReadEncoding::Binary
        }
        Some(name) => match output_encoding(Some(name), "encoding")? {
            Encoding::Utf8 => ReadEncoding::Text,
            Encoding::Base64 | Encoding::Binary => ReadEncoding::Base64,
        },
    };
    let range = ReadRange {
        offset: convert::optional("offset", params.offset)?.unwrap_or(0),
        length: convert::optional("length", params.length)?,
        max: context.session.limits.max_file_read_bytes,
    };
    let options = ReadOptions::new(range, encoding, context.session.state.client.frame_bytes)
        .hashing(convert::hash_kind(params.hash.as_deref())?);
    let file = FileAccess::named(context, ("path", &params.path))?;
    let effects = file.read(context)?;
    let path = file.path;
    Ok(RexdPrepared::with_effects(effects, move |session, request| {
        let small = ReadRange { max: options.range.max.min(CACHED_READ), ..options.range };
        if let Some(content) = files::read_cached(&path, small) {
            let is_complete =
                content.as_ref().map_or(true, |content| !content.more || options.is_met_by(&content.bytes));
            if is_complete {
                let response = options.respond(&path, content, request.responder.id().as_ref());
                return session.spawn(request.responder.send_encoded(response));
            }
        }
        let AuthorizedRequest { responder, guard, .. } = request;
        let (id, memory) = (responder.id(), session.response_memory.clone());
        session.spawn(async move {
            let most = options.range.length.unwrap_or(u64::MAX).min(options.range.max);
            let bytes = match most > EXAMINED_READ {
                true => most.min(file_size(path.clone()).await),
                false => most,
            };
            // Once as read, once as encoded.
            let reserved = memory.reserve_for(responder, bytes.saturating_mul(2)).await;
            let Some(responder) = reserved else { return };
            let work = move || {
                let content = files::read(&path, options.range);
                drop(guard);
                options.respond(&path, content, id.as_ref())
            };
            responder.send_encoded(off_thread(work).await).await;
        });
    }))
}

/// Checks and converts a `fs.write` request.
pub(crate) fn write(params: &Params<v1::FsWrite>, context: &Context<'_>) -> PrepareResult {
    check_encoding(params)?;
    let options = WriteOptions {
        mode: convert::write_mode(params.mode.as_deref())?,
        mkdir_parents: params.mkdir_parents,
        atomic: params.atomic.unwrap_or(true),
        expected_mtime_ms: params.expected_mtime,
        durability: convert::durability(params.durable).unwrap_or(context.session.core.durability),
        permissions: convert::permissions(params.permissions.as_deref())?,
        mtime_ms: params.mtime,
    };
    let hash = convert::hash_kind(params.hash.as_deref())?;
    let file = FileAccess::named(context, ("path", &params.path))?;
    let preview: PreviewFn = {
        let (params, path, mode) = (params.clone(), file.admitted.clone(), options.mode);
        // Invalid base64 is reported when the write runs.
        Arc::new(move || diff::write(&path, &content(&params).unwrap_or_default(), mode))
    };
    let effects = context.file_effects(|| {
        // No approver is asked about a write that cannot be done.
        content(params)?;
        let effects = FileEffects::new(FileAction::Write, vec![file.effect(Access::Write, false)]);
        Ok(FileEffects { creates_parents: params.mkdir_parents, preview: Some(preview.clone()), ..effects })
    })?;
    let (params, path, authorization) = (params.clone(), file.path, context.request.authorization.clone());
    Ok(RexdPrepared::blocking(effects, move || {
        let bytes = content(&params)?;
        check_unchanged(&authorization, &preview, path.as_path())?;
        let written = files::write(&path, &bytes, &options).map_err(rpc_error)?;
        Ok(v1::FsWriteResult {
            path: text(path.as_path()),
            bytes_written: written.bytes,
            mtime: written.mtime_ms,
            created: written.created,
            hash: hash.map(|kind| convert::hash(kind, &bytes)),
        })
    }))
}

/// Base64 is decoded when the write runs.
fn check_encoding(params: &v1::FsWrite) -> Result<(), RpcError> {
    match params.payload {
        Some(_) => content(params).map(drop),
        None => output_encoding(params.encoding.as_deref(), "encoding").map(drop),
    }
}

/// The bytes to write; text is not copied.
fn content(params: &v1::FsWrite) -> Result<Cow<'_, [u8]>, RpcError> {
    let encoding = params.encoding.as_deref();
    if params.payload.is_none() && matches!(encoding, None | Some("utf8")) {
        return Ok(Cow::Borrowed(params.content.as_bytes()));
    }
    let bytes = convert::payload_or_text(params.payload.as_ref(), ("content", &params.content), encoding)?;
    Ok(Cow::Owned(bytes.into()))
}

/// Checks and converts a `fs.edit` request.
pub(crate) fn edit(params: &Params<v1::FsEdit>, context: &Context<'_>) -> PrepareResult {
    let file = FileAccess::named(context, ("path", &params.path))?;
    let edit = Arc::new(Edit { durability: context.session.core.durability, ..convert::edit(params) });
    let preview: PreviewFn = {
        let (path, edit) = (file.admitted.clone(), edit.clone());
        Arc::new(move || diff::edit(&path, &edit))
    };
    let effects = context.file_effects(|| {
        let effects = FileEffects::new(FileAction::Write, vec![file.effect(Access::Write, false)]);
        Ok(FileEffects { preview: Some(preview.clone()), ..effects })
    })?;
    let (path, authorization) = (file.path, context.request.authorization.clone());
    Ok(RexdPrepared::blocking(effects, move || {
        check_unchanged(&authorization, &preview, path.as_path())?;
        let edited = files::edit(&path, &edit).map_err(rpc_error)?;
        Ok(v1::FsEditResult {
            path: text(path.as_path()),
            bytes_written: edited.written.bytes,
            mtime: edited.written.mtime_ms,
            created: edited.written.created,
            replacements: edited.replacements as u64,
        })
    }))
}

/// Checks and converts a `fs.patch` request.
pub(crate) fn patch(params: &Params<v1::FsPatch>, context: &Context<'_>) -> PrepareResult {
    if params.patch_text.is_empty() {
        return Err(invalid("patch_text", "patch_text is required"));
    }
    let base = FileAccess::new(context, params.cwd.as_deref().unwrap_or_default())?;
    let preview: PreviewFn = {
        let (params, base) = (params.clone(), base.admitted.clone());
        Arc::new(move || Ok(diff::patch(&patches::plan(base.roots(), base.as_path(), &params.patch_text)?)))
    };
    let effects = context.file_effects(|| {
        let files = patched_files(context.session, base.admitted.as_path(), &params.patch_text)?;
        let effects = FileEffects::new(FileAction::Write, files);
        Ok(FileEffects { creates_parents: true, preview: Some(preview.clone()), ..effects })
    })?;
    let (params, base, roots) = (params.clone(), base.path, context.guarded_roots());
    let (authorization, durability) =
        (context.request.authorization.clone(), context.session.core.durability);
    Ok(RexdPrepared::blocking(effects, move || {
        let plan = patches::plan(&roots, base.as_path(), &params.patch_text).map_err(rpc_error)?;
        check_unchanged(&authorization, &preview, base.as_path())?;
        let patched = plan.apply(durability).map_err(rpc_error)?;
        let texts = |paths: &[std::path::PathBuf]| paths.iter().map(|path| text(path)).collect();
        let moved = patched.moved.iter().map(|(from, to)| v1::Move { from: text(from), to: text(to) });
        Ok(v1::FsPatchResult {
            added: texts(&patched.added),
            updated: texts(&patched.updated),
            deleted: texts(&patched.deleted),
            moved: moved.collect(),
        })
    }))
}

/// The files that a patch changes.
fn patched_files(session: &Session, base: &Path, text: &str) -> Result<Vec<FileEffect>, RpcError> {
    let hunks = patches::parse(text).map_err(|error| rpc_error(error.into()))?;
    let mut files = Vec::new();
    let mut add = |path: &str, access| {
        let path =
            session.roots.admit(base, Path::new(path)).map_err(|error| hint(session, rpc_error(error)))?;
        files.push(FileEffect { path, access, is_tree: false });
        Ok::<(), RpcError>(())
    };
    for hunk in &hunks {
        match hunk {
            Hunk::Add { path, .. } => add(path, Access::Write)?,
            Hunk::Delete { path } => add(path, Access::Remove)?,
            Hunk::Update { path, move_to: Some(to), .. } => {
                add(path, Access::Remove)?;
                add(to, Access::Write)?;
            }
            Hunk::Update { path, move_to: None, .. } => add(path, Access::Write)?,
        }
    }
    Ok(files)
}

/// Checks and converts a `fs.stat` request.
pub(crate) fn stat(params: &Params<v1::FsStat>, context: &Context<'_>) -> PrepareResult {
    let file = FileAccess::new(context, &params.path)?;
    let hash = convert::hash_request(params)?;
    let effects = file.read(context)?;
    let path = file.path;
    Ok(RexdPrepared::with_effects(effects, move |session, request| {
        if let Some(hash) = hash {
            return stat_and_hash(session, path, hash, request);
        }
        if let Some(found) = files::stat_cached(&path) {
            let result = found.map(|found| stat_result(&path, found)).map_err(rpc_error);
            return session.spawn(request.finish(result));
        }
        session.spawn(request.run_blocking(move || {
            files::stat(&path).map(|found| stat_result(&path, found)).map_err(rpc_error)
        }));
    }))
}

/// `fs.stat` with `hash`. Writes wait until the file is open, not until it is read.
fn stat_and_hash(session: &Session, path: RootedPath, hash: HashRequest, request: AuthorizedRequest) {
    let AuthorizedRequest { responder, guard, .. } = request;
    run_scan(session, responder, ScanBudget::unbounded(), move |scan| {
        let found = files::stat(&path).map_err(rpc_error)?;
        let mut result = stat_result(&path, found);
        if result.exists {
            let hashing = FileHasher::open(&path).map_err(rpc_error)?;
            drop(guard);
            let hashed = hashing.run(hash.kind, hash.first, &scan).map_err(rpc_error)?;
            result.hash = Some(hex::encode(hashed.digest));
            result.hash_bytes = Some(hashed.bytes);
        }
        Ok(result)
    });
}

/// Checks and converts a `fs.mkdir` request.
pub(crate) fn mkdir(params: &Params<v1::FsMkdir>, context: &Context<'_>) -> PrepareResult {
    let file = FileAccess::named(context, ("path", &params.path))?;
    let (parents, permissions) = (params.parents, convert::permissions(params.permissions.as_deref())?);
    let effects = context.file_effects(|| {
        let effects = FileEffects::new(FileAction::MakeDirectory, vec![file.effect(Access::Write, false)]);
        Ok(FileEffects { creates_parents: parents, ..effects })
    })?;
    let path = file.path;
    Ok(RexdPrepared::blocking(effects, move || done(files::make_directory(&path, parents, permissions))))
}

/// Checks and converts a `fs.symlink` request. An approver sees its target as the content of a new file.
pub(crate) fn symlink(params: &Params<v1::FsSymlink>, context: &Context<'_>) -> PrepareResult {
    if params.target.is_empty() {
        return Err(invalid("target", "target is required"));
    }
    let file = FileAccess::named(context, ("path", &params.path))?;
    let preview: PreviewFn = {
        let (path, target) = (file.admitted.clone(), params.target.clone());
        Arc::new(move || diff::write(&path, format!("symlink to {target}\n").as_bytes(), WriteMode::Create))
    };
    let effects = context.file_effects(|| {
        let effects = FileEffects::new(FileAction::MakeSymlink, vec![file.effect(Access::Write, false)]);
        Ok(FileEffects { preview: Some(preview.clone()), ..effects })
    })?;
    let (params, path, authorization) = (params.clone(), file.path, context.request.authorization.clone());
    Ok(RexdPrepared::blocking(effects, move || {
        check_unchanged(&authorization, &preview, path.as_path())?;
        done(files::make_symlink(&path, &params.target))
    }))
}

/// Checks and converts a `fs.remove` request.
pub(crate) fn remove(params: &Params<v1::FsRemove>, context: &Context<'_>) -> PrepareResult {
    let file = FileAccess::named(context, ("path", &params.path))?;
    let recursive = params.recursive;
    let effects = context.file_effects(|| {
        let effects = FileEffects::new(FileAction::Remove, vec![file.effect(Access::Remove, recursive)]);
        Ok(FileEffects { is_recursive: recursive, ..effects })
    })?;
    let path = file.path;
    let remove = move || done(files::remove(&path, recursive, &ScanBudget::unbounded()));
    Ok(RexdPrepared::blocking(effects, remove))
}

/// Checks and converts a `fs.rename` request.
pub(crate) fn rename(params: &Params<v1::FsRename>, context: &Context<'_>) -> PrepareResult {
    let from = FileAccess::named(context, ("from", &params.from))?;
    let to = FileAccess::named(context, ("to", &params.to))?;
    let overwrites = params.overwrite;
    let effects = context.file_effects(|| {
        let files = vec![from.effect(Access::Remove, true), to.effect(Access::Write, true)];
        Ok(FileEffects { overwrites, ..FileEffects::new(FileAction::Rename, files) })
    })?;
    let rename = move || done(files::rename(&from.path, &to.path, overwrites));
    Ok(RexdPrepared::blocking(effects, rename))
}

/// Checks and converts a `fs.copy` request.
pub(crate) fn copy(params: &Params<v1::FsCopy>, context: &Context<'_>) -> PrepareResult {
    let from = FileAccess::named(context, ("from", &params.from))?;
    let to = FileAccess::named(context, ("to", &params.to))?;
    let options =
        CopyOptions { recursive: params.recursive, overwrite: params.overwrite, ..CopyOptions::default() };
    let effects = context.file_effects(|| {
        let (is_recursive, overwrites) = (params.recursive, params.overwrite);
        let files = vec![from.effect(Access::Read, is_recursive), to.effect(Access::Write, is_recursive)];
        Ok(FileEffects { is_recursive, overwrites, ..FileEffects::new(FileAction::Copy, files) })
    })?;
    let copy = move || done(files::copy(&from.path, &to.path, options, &ScanBudget::unbounded()));
    Ok(RexdPrepared::blocking(effects, copy))
}

/// Fails if the files changed while their approval was waited for.
fn check_unchanged(authorization: &Authorization, preview: &PreviewFn, path: &Path) -> Result<(), RpcError> {
    match authorization.still_holds(preview).map_err(rpc_error)? {
        true => Ok(()),
        false => Err(changed_since_shown(path)),
    }
}

fn done(result: Result<(), Error>) -> Result<v1::OkResult, RpcError> {
    result.map(|()| v1::OkResult::DONE).map_err(rpc_error)
}

fn stat_result(path: &RootedPath, found: Option<Metadata>) -> v1::FsStatResult {
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

/// The protocol's name for a kind of file.
pub(super) fn kind_name(kind: FileKind) -> &'static str {
    match kind {
        FileKind::File => "file",
        FileKind::Dir => "dir",
        FileKind::Symlink => "symlink",
        FileKind::Other => "other",
    }
}
