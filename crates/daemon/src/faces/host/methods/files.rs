//! Files below the directory of a run: read, listed, searched, and written after approval.

use std::sync::Arc;

use engine::RootedPath;
use engine::approval::FileAction;
use engine::files::{
    self, FileKind, GrepOptions, ListOptions, ReadRange, ScanBudget, WriteMode, WriteOptions,
};
use engine::policy::Access;
use wire::base64;
use wire::hub::v1::{
    self, DirEntry, DirectoriesResult, FsListResult, FsReadResult, FsSearchResult, FsWriteResult,
    SearchMatch, rpc,
};
use wire::jsonrpc::RpcError;

use super::{HostContext, HostPrepareResult};
use crate::core::approvals::diff;
use crate::core::effects::{Effects, FileEffect, FileEffects, PreviewFn};
use crate::core::table::{AlwaysAsks, Prepared};
use crate::faces::host::convert::relative;
use crate::faces::host::errors::rpc_error;

/// Bytes of a file that are read; the rest is cut.
const MAX_READ_BYTES: u64 = 1024 * 1024;
/// Bytes that are written; more is refused.
const MAX_WRITE_BYTES: usize = 1024 * 1024;
/// Matches of a search; the rest is left out.
const MAX_MATCHES: usize = 200;
/// Entries of a list; the rest is left out.
const MAX_ENTRIES: usize = 500;
/// Entries of a directory that are examined for directories.
const MAX_SCANNED: usize = 10_000;

/// The rule behind the question about a write.
const ASKS: AlwaysAsks =
    AlwaysAsks { rule: rpc::FS_WRITE, reason: "a write through the hub needs the approval of a person" };

/// `rpc.fs.read`: the text of a file, or its bytes in base64.
pub(crate) fn read(params: &Arc<v1::FsRead>, context: &HostContext<'_>) -> HostPrepareResult {
    let is_encoded = match params.encoding.as_deref() {
        None | Some("utf8") => false,
        Some("base64") => true,
        Some(_) => return Err(RpcError::invalid_params("encoding must be utf8 or base64")),
    };
    let offset = params.offset.unwrap_or_default();
    let name = relative(params.path.as_deref().unwrap_or_default())?.to_owned();
    let (admitted, path) = paths(context, &name)?;
    Ok(Prepared::blocking(read_effects(context, admitted)?, move || {
        let range = ReadRange { offset, length: Some(MAX_READ_BYTES), max: MAX_READ_BYTES };
        let content = files::read(&path, range).map_err(rpc_error)?;
        let text = match is_encoded {
            true => base64::encode(&content.bytes),
            false => text(content.bytes, content.more)?,
        };
        Ok(FsReadResult { path: name, content: text, truncated: content.more })
    }))
}

/// Bytes as text; a character that the limit cuts is left out.
fn text(bytes: Vec<u8>, is_cut: bool) -> Result<String, RpcError> {
    String::from_utf8(bytes).or_else(|error| {
        let (valid, is_incomplete) =
            (error.utf8_error().valid_up_to(), error.utf8_error().error_len().is_none());
        let mut bytes = error.into_bytes();
        bytes.truncate(valid);
        match String::from_utf8(bytes) {
            Ok(text) if is_cut && is_incomplete => Ok(text),
            _ => Err(RpcError::invalid_params("file is not valid utf-8")),
        }
    })
}

/// `rpc.fs.list`: the entries of a directory.
pub(crate) fn list(params: &Arc<v1::PathParams>, context: &HostContext<'_>) -> HostPrepareResult {
    let name = params.path.clone().filter(|path| !path.is_empty()).unwrap_or_else(|| ".".to_owned());
    let (admitted, path) = paths(context, relative(&name)?)?;
    let deadline = context.session.limits.scan_deadline;
    Ok(Prepared::blocking(read_effects(context, admitted)?, move || {
        let options = ListOptions { recursive: false, names_only: false, max_entries: Some(MAX_ENTRIES) };
        match files::stat_followed(&path).map_err(rpc_error)? {
            Some((found, _)) if found.kind != FileKind::Dir => {
                return Err(RpcError::invalid_params("path is not a directory"));
            }
            _ => {}
        }
        let listing = files::list(&path, options, &ScanBudget::within(deadline)).map_err(rpc_error)?;
        let entry = |entry: &files::DirEntry| DirEntry {
            name: entry.name().to_string_lossy().into_owned(),
            is_dir: entry.kind == FileKind::Dir,
            size_bytes: entry.size.filter(|_| entry.kind == FileKind::File),
        };
        let mut entries: Vec<DirEntry> = listing.entries.iter().map(entry).collect();
        entries.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        Ok(FsListResult { path: name, entries, truncated: listing.truncated })
    }))
}

/// `rpc.host.directories`: the directories below one inside the roots, or the roots.
pub(crate) fn directories(params: &Arc<v1::PathParams>, context: &HostContext<'_>) -> HostPrepareResult {
    let Some(name) = params.path.clone().filter(|path| !path.is_empty()) else {
        let roots = context.session.roots.paths().iter().map(|root| root.display().to_string());
        let result = DirectoriesResult { path: None, directories: roots.collect(), truncated: false };
        return Ok(Prepared::blocking(Effects::None, move || Ok(result)));
    };
    if !name.starts_with('/') {
        return Err(RpcError::invalid_params("path must be absolute"));
    }
    let (admitted, path) = paths(context, &name)?;
    let deadline = context.session.limits.scan_deadline;
    Ok(Prepared::blocking(read_effects(context, admitted)?, move || {
        let options = ListOptions { recursive: false, names_only: false, max_entries: Some(MAX_SCANNED) };
        let listing = files::list(&path, options, &ScanBudget::within(deadline)).map_err(rpc_error)?;
        let found = listing.entries.iter().filter(|entry| entry.kind == FileKind::Dir);
        let mut directories: Vec<String> =
            found.map(|entry| path.as_path().join(entry.name()).display().to_string()).collect();
        directories.sort_unstable();
        let truncated = listing.truncated || directories.len() > MAX_ENTRIES;
        directories.truncate(MAX_ENTRIES);
        Ok(DirectoriesResult { path: Some(name), directories, truncated })
    }))
}

/// `rpc.fs.search`: a regular expression, never an option of a program.
pub(crate) fn search(params: &Arc<v1::FsSearch>, context: &HostContext<'_>) -> HostPrepareResult {
    if params.q.is_empty() {
        return Err(RpcError::invalid_params("missing q"));
    }
    let mut grep = GrepOptions::new(params.q.clone());
    grep.case = files::Case::Sensitive;
    grep.max_matches = MAX_MATCHES;
    let (admitted, path) = paths(context, ".")?;
    let deadline = context.session.limits.scan_deadline;
    Ok(Prepared::blocking(read_effects(context, admitted)?, move || {
        let found = files::grep_sorted(&path, &grep, &ScanBudget::within(deadline)).map_err(rpc_error)?;
        let matches = found.matches.into_iter().map(|found| SearchMatch {
            path: found
                .path
                .strip_prefix(path.as_path())
                .unwrap_or(&found.path)
                .to_string_lossy()
                .into_owned(),
            line: found.line,
            column: found.column,
            text: found.text,
        });
        Ok(FsSearchResult { matches: matches.collect(), truncated: found.truncated })
    }))
}

/// `rpc.fs.write`: everything is checked before a person is asked.
pub(crate) fn write(params: &Arc<v1::FsWrite>, context: &HostContext<'_>) -> HostPrepareResult {
    let name = relative(&params.path)?.to_owned();
    if params.content.len() > MAX_WRITE_BYTES {
        let message = format!("content too large: {} bytes (limit {MAX_WRITE_BYTES})", params.content.len());
        return Err(RpcError::invalid_params(message));
    }
    let (admitted, path) = paths(context, &name)?;
    let preview: PreviewFn = {
        let (params, path) = (params.clone(), admitted.clone());
        Arc::new(move || {
            check_parent(&path)?;
            diff::write(&path, params.content.as_bytes(), WriteMode::Replace)
        })
    };
    let effect = FileEffect { path: admitted, access: Access::Write, is_tree: false };
    let effects =
        FileEffects { preview: Some(preview.clone()), ..FileEffects::new(FileAction::Write, vec![effect]) };
    let options = WriteOptions {
        mode: WriteMode::Replace,
        durability: context.session.core.durability,
        ..WriteOptions::default()
    };
    let (params, authorization) = (params.clone(), context.request.authorization.clone());
    let mark = super::running_mark(context);
    let prepared = Prepared::blocking(Effects::Files(Box::new(effects)), move || {
        if !authorization.still_holds(&preview).map_err(rpc_error)? {
            return Err(RpcError::invalid_request("the file has changed since it was shown to the approver"));
        }
        mark.set()?;
        let written = files::write(&path, params.content.as_bytes(), &options).map_err(rpc_error)?;
        Ok(FsWriteResult { path: name, bytes_written: written.bytes, truncated: false })
    });
    Ok(prepared.asking(ASKS))
}

/// A write creates no directories; `path is a directory` and a missing parent are known before a person is asked.
fn check_parent(path: &RootedPath) -> Result<(), engine::Error> {
    let missing = |kind: std::io::ErrorKind| engine::Error::File {
        action: "write",
        path: path.as_path().to_owned(),
        source: kind.into(),
    };
    if let Some((found, _)) = files::stat_followed(path)?
        && found.kind == FileKind::Dir
    {
        return Err(missing(std::io::ErrorKind::IsADirectory));
    }
    let parent = path.as_path().parent().unwrap_or(path.as_path());
    match files::stat_followed(&path.roots().admit(parent, parent)?)? {
        Some((found, _)) if found.kind == FileKind::Dir => Ok(()),
        _ => Err(missing(std::io::ErrorKind::NotFound)),
    }
}

/// A path of a request: for its effects, and as the request may use it.
fn paths(context: &HostContext<'_>, path: &str) -> Result<(RootedPath, RootedPath), RpcError> {
    let admitted = context.admit(path).map_err(rpc_error)?;
    let guarded = context.guarded(&admitted);
    Ok((admitted, guarded))
}

fn read_effects(context: &HostContext<'_>, path: RootedPath) -> Result<Effects, RpcError> {
    let effect = FileEffect { path, access: Access::Read, is_tree: false };
    context.file_effects(|| Ok(FileEffects::new(FileAction::Read, vec![effect])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_character_at_the_limit_is_left_out_and_other_bytes_are_refused() {
        assert_eq!(text(b"a\xc3".to_vec(), true).unwrap(), "a");
        assert_eq!(text(b"a\xc3".to_vec(), false).unwrap_err().message, "file is not valid utf-8");
        assert_eq!(text(b"a\xff".to_vec(), true).unwrap_err().message, "file is not valid utf-8");
        assert_eq!(text("ä".as_bytes().to_vec(), true).unwrap(), "ä");
    }
}
