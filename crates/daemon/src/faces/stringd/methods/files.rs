//! Files of a command: read, described, listed, written and removed.

use std::path::Path;
use std::sync::Arc;

use engine::RootedPath;
use engine::approval::FileAction;
use engine::files::{self, FileKind, ListOptions, ReadRange, ScanBudget, WriteMode, WriteOptions};
use engine::policy::Access;
use wire::jsonrpc::RpcError;

use super::params::{DirEntry, DirListing, EntryKind, FilePath, FileRemove, FileWrite};
use super::{StringdContext, StringdPrepareResult};
use crate::core::approvals::diff;
use crate::core::effects::{Effects, FileEffect, FileEffects, PreviewFn};
use crate::core::table::Prepared;
use crate::faces::stringd::errors::rpc_error;

/// Bytes of a file that is read; a longer one is refused.
const MAX_READ_BYTES: u64 = 64 * 1024 * 1024;
/// Entries of a directory that are listed; more are left out, and the listing says so.
const MAX_ENTRIES: usize = 10_000;
/// The permissions of a file with secrets.
const PRIVATE: u32 = 0o600;
/// The permissions of a directory with variables or packages.
const PRIVATE_DIRECTORY: u32 = 0o700;

/// `file.read`: the content of a file, as base64.
pub(crate) fn read(params: &Arc<FilePath>, context: &StringdContext<'_>) -> StringdPrepareResult {
    let (admitted, path) = paths_inside(context, params)?;
    Ok(Prepared::blocking(read_effects(context, admitted)?, move || {
        let content = files::read(&path, ReadRange::whole(MAX_READ_BYTES)).map_err(rpc_error)?;
        if content.more {
            let size = content.size;
            return Err(RpcError::invalid_request(format!(
                "file too large: {size} bytes (limit {MAX_READ_BYTES})"
            )));
        }
        Ok(wire::base64::encode(&content.bytes))
    }))
}

/// `file.stat`: what is at a path.
pub(crate) fn stat(params: &Arc<FilePath>, context: &StringdContext<'_>) -> StringdPrepareResult {
    let (admitted, path) = paths(context, &params.path)?;
    Ok(Prepared::blocking(read_effects(context, admitted)?, move || kind(&path).map_err(rpc_error)))
}

fn kind(path: &RootedPath) -> Result<Option<EntryKind>, engine::Error> {
    let found = files::stat_followed(path)?;
    Ok(found.map(|(found, _)| match found.kind {
        FileKind::Dir => EntryKind::Dir,
        FileKind::File => EntryKind::File,
        FileKind::Symlink | FileKind::Other => EntryKind::Other,
    }))
}

/// `file.list`: the entries of a directory.
pub(crate) fn list(params: &Arc<FilePath>, context: &StringdContext<'_>) -> StringdPrepareResult {
    let (admitted, path) = paths(context, &params.path)?;
    let deadline = context.session.limits.scan_deadline;
    Ok(Prepared::blocking(read_effects(context, admitted)?, move || {
        let options = ListOptions { recursive: false, names_only: false, max_entries: Some(MAX_ENTRIES) };
        let listing = files::list(&path, options, &ScanBudget::within(deadline)).map_err(rpc_error)?;
        let is_dir = |entry: &files::DirEntry| match entry.kind {
            FileKind::Dir => true,
            FileKind::Symlink => {
                let target = path.join(Path::new(entry.name()));
                matches!(target.and_then(|target| kind(&target)), Ok(Some(EntryKind::Dir)))
            }
            FileKind::File | FileKind::Other => false,
        };
        let entry = |entry: &files::DirEntry| DirEntry {
            name: entry.name().to_string_lossy().into_owned(),
            is_dir: is_dir(entry),
        };
        let entries = listing.entries.iter().map(entry).collect();
        Ok(DirListing { entries, is_truncated: listing.truncated })
    }))
}

/// `file.write`: replaces or creates a file.
pub(crate) fn write(params: &Arc<FileWrite>, context: &StringdContext<'_>) -> StringdPrepareResult {
    let content =
        wire::base64::decode(&params.content).map_err(|_| RpcError::invalid_params("bad base64"))?;
    let content: Arc<[u8]> = content.into();
    let (admitted, path) = paths(context, &params.path)?;
    let preview: PreviewFn = {
        let (content, path) = (content.clone(), admitted.clone());
        Arc::new(move || diff::write(&path, &content, WriteMode::Replace))
    };
    let effects = context.file_effects(|| {
        let effect = FileEffect { path: admitted, access: Access::Write, is_tree: false };
        let effects = FileEffects::new(FileAction::Write, vec![effect]);
        Ok(FileEffects { creates_parents: params.creates_parents, preview: Some(preview.clone()), ..effects })
    })?;
    let options = WriteOptions {
        mode: WriteMode::Replace,
        mkdir_parents: params.creates_parents,
        durability: context.session.core.durability,
        permissions: params.is_private.then_some(PRIVATE),
        ..WriteOptions::default()
    };
    let directories =
        params.private_directories.iter().map(|path| paths(context, path).map(|(_, path)| path));
    let directories: Vec<RootedPath> = directories.collect::<Result<_, _>>()?;
    let authorization = context.request.authorization.clone();
    Ok(Prepared::blocking(effects, move || {
        if !authorization.still_holds(&preview).map_err(rpc_error)? {
            return Err(RpcError::invalid_request("the file has changed since it was shown to the approver"));
        }
        for directory in &directories {
            // One that exists keeps its mode; what else is wrong, the write reports.
            files::make_directory(directory, false, Some(PRIVATE_DIRECTORY)).ok();
        }
        files::write(&path, &content, &options).map(drop).map_err(rpc_error)
    }))
}

/// `file.remove`: removes a file or a tree.
pub(crate) fn remove(params: &Arc<FileRemove>, context: &StringdContext<'_>) -> StringdPrepareResult {
    let (admitted, path) = paths(context, &params.path)?;
    let recursive = params.recursive;
    let effects = context.file_effects(|| {
        let effect = FileEffect { path: admitted, access: Access::Write, is_tree: recursive };
        let effects = FileEffects::new(FileAction::Remove, vec![effect]);
        Ok(FileEffects { is_recursive: recursive, ..effects })
    })?;
    let deadline = context.session.limits.scan_deadline;
    Ok(Prepared::blocking(effects, move || {
        files::remove(&path, recursive, &ScanBudget::within(deadline)).map_err(rpc_error)
    }))
}

/// As [`paths`], for a path that may have to lie in a directory.
fn paths_inside(
    context: &StringdContext<'_>,
    params: &FilePath,
) -> Result<(RootedPath, RootedPath), RpcError> {
    let Some(directory) = &params.inside else { return paths(context, &params.path) };
    let roots = context.session.roots.narrowed(vec![directory.clone()]).map_err(rpc_error)?;
    let admitted = roots.admit(directory, &params.path).map_err(rpc_error)?;
    let guarded = context.guarded(&admitted);
    Ok((admitted, guarded))
}

/// A path of a request: for its effects, and as the request may use it.
fn paths(context: &StringdContext<'_>, path: &Path) -> Result<(RootedPath, RootedPath), RpcError> {
    let admitted = context.session.roots.admit(&context.request.cwd, path).map_err(rpc_error)?;
    let guarded = context.guarded(&admitted);
    Ok((admitted, guarded))
}

fn read_effects(context: &StringdContext<'_>, path: RootedPath) -> Result<Effects, RpcError> {
    let effect = FileEffect { path, access: Access::Read, is_tree: false };
    context.file_effects(|| Ok(FileEffects::new(FileAction::Read, vec![effect])))
}
