//! `fs/getMetadata`, `fs/readDirectory` and `fs/canonicalize`.

use std::sync::Arc;

use engine::RootedPath;
use engine::files::{self, DirEntry, FileKind, ListOptions, ScanBudget};
use rustix::io::Errno;
use wire::exec_server::code;
use wire::exec_server::v1::{
    self, FsCanonicalizeResponse, FsGetMetadataResponse, FsReadDirectoryEntry, FsReadDirectoryResponse,
};
use wire::jsonrpc::RpcError;

use super::files::check_links;
use super::{Context, PrepareResult, blocking, path, rpc_error, uri};
use crate::faces::exec_server::errors::system_text;

/// Entries of a directory in one response.
const MAX_ENTRIES: usize = 50_000;

/// `fs/getMetadata`: of the target of a link, and whether the path is a link.
pub(crate) fn get(params: &Arc<v1::FsGetMetadataParams>, context: &Context<'_>) -> PrepareResult {
    let path = path(context, &params.path, params.sandbox.as_ref()).map_err(|error| match error.code {
        // Clients look for a repository in every parent directory, and accept only that it does not exist.
        code::INVALID_REQUEST => RpcError::new(code::NOT_FOUND, error.message),
        _ => error,
    })?;
    let follows = params.follow_symlinks.unwrap_or(true);
    // Most of these paths do not exist, and the kernel knows that without a disk.
    if let (true, Some(Ok(None))) = (follows, files::stat_cached(&path)) {
        return Err(not_found());
    }
    blocking(move || {
        check_links(&path, follows, RootedPath::real)?;
        let itself = files::stat(&path).map_err(rpc_error)?.ok_or_else(not_found)?;
        let followed = files::stat_followed(&path).map_err(rpc_error)?;
        let (found, created_ms) = followed.ok_or_else(not_found)?;
        Ok(FsGetMetadataResponse {
            is_directory: found.kind == FileKind::Dir,
            is_file: found.kind == FileKind::File,
            is_symlink: itself.kind == FileKind::Symlink,
            size: Some(found.size),
            created_at_ms: created_ms.unwrap_or(0),
            modified_at_ms: found.mtime_ms,
        })
    })
}

/// `fs/readDirectory`: names with links followed; links that lead nowhere are left out.
pub(crate) fn list(params: &Arc<v1::FsReadDirectoryParams>, context: &Context<'_>) -> PrepareResult {
    let path = path(context, &params.path, params.sandbox.as_ref())?;
    blocking(move || {
        let options = ListOptions { recursive: false, names_only: true, max_entries: Some(MAX_ENTRIES + 1) };
        let listing = files::list(&path, options, &ScanBudget::unbounded()).map_err(rpc_error)?;
        if listing.entries.len() > MAX_ENTRIES {
            let message = format!("{} has more than {MAX_ENTRIES} entries", path.as_path().display());
            return Err(RpcError::internal(message));
        }
        let entries = listing.entries.iter().filter_map(|entry| {
            let kind = followed_kind(&path, entry)?;
            Some(FsReadDirectoryEntry {
                file_name: entry.name().to_string_lossy().into_owned(),
                is_directory: kind == FileKind::Dir,
                is_file: kind == FileKind::File,
            })
        });
        Ok(FsReadDirectoryResponse { entries: entries.collect() })
    })
}

/// Checks and converts a `fs/canonicalize` request.
pub(crate) fn canonicalize(params: &Arc<v1::FsCanonicalizeParams>, context: &Context<'_>) -> PrepareResult {
    let path = path(context, &params.path, params.sandbox.as_ref())?;
    blocking(move || {
        files::stat_followed(&path).map_err(rpc_error)?.ok_or_else(not_found)?;
        Ok(FsCanonicalizeResponse { path: uri(&path.real().map_err(rpc_error)?) })
    })
}

/// The kind of a directory entry, links followed; `None` if a link leads nowhere or outside the roots.
pub(super) fn followed_kind(directory: &RootedPath, entry: &DirEntry) -> Option<FileKind> {
    match entry.kind {
        FileKind::Symlink => {
            let path = directory.join(&entry.path).ok()?;
            files::stat_followed(&path).ok()?.map(|(found, _)| found.kind)
        }
        kind => Some(kind),
    }
}

/// The error for a path that does not exist.
pub(super) fn not_found() -> RpcError {
    RpcError::new(code::NOT_FOUND, system_text(Errno::NOENT))
}
