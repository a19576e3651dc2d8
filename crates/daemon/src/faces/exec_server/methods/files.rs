//! Whole files read and written, directories created, files copied and removed.

use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;

use engine::files::{self, CopyOptions, Durability, ReadRange, ScanBudget, WriteOptions};
use engine::{Error, RootedPath};
use rustix::io::Errno;
use wire::exec_server::code;
use wire::exec_server::v1::{self, Done};
use wire::jsonrpc::{Id, RpcError};

use super::handles::read_full;
use super::{Context, ExecServerPrepared, PrepareResult, blocking, path, rpc_error};
use crate::core::request::{AuthorizedRequest, off_thread};
use crate::core::response_memory::file_size;
use crate::faces::exec_server::errors::{read_error, system_text};

/// The largest file that is read as a whole.
const MAX_READ: u64 = 512 * 1024 * 1024;
/// Whole files are read in pieces of a multiple of this.
const UNIT: usize = v1::FileEncoder::PIECE_UNIT;
/// Bytes of a file in memory before they are encoded.
const PIECE: usize = UNIT * 1024 * 1024;

/// Checks and converts a `fs/readFile` request.
pub(crate) fn read_file(params: &Arc<v1::FsReadFileParams>, context: &Context<'_>) -> PrepareResult {
    let path = path(context, &params.path, params.sandbox.as_ref())?;
    let follows = params.follow_symlinks.unwrap_or(true);
    let memory = context.session.response_memory.clone();
    Ok(ExecServerPrepared::new(move |session, request| {
        session.spawn(async move {
            let AuthorizedRequest { mut responder, guard, .. } = request;
            let id = responder.id();
            let cached = if follows { files::read_cached(&path, ReadRange::whole(MAX_READ)) } else { None };
            let response = match cached {
                Some(read) => read.map_err(read_error).and_then(|content| match content.more {
                    true => Err(too_large()),
                    false => Ok(id.map(|id| v1::encode_file(&id, &content.bytes))),
                }),
                None => match file_size(path.clone()).await {
                    size if size > MAX_READ => Err(too_large()),
                    size => {
                        // As base64; the bytes themselves are read piece by piece.
                        let bytes = size / 3 * 4 + PIECE as u64;
                        let Some(reserved) = memory.reserve_for(responder, bytes).await else { return };
                        responder = reserved;
                        off_thread(move || {
                            check_links(&path, follows, RootedPath::real)?;
                            let file = path.open_file().map_err(read_error)?;
                            id.map(|id| encode_file(&id, &file, size)).transpose()
                        })
                        .await
                    }
                },
            };
            drop(guard);
            responder.send_encoded(response).await;
        });
    }))
}

/// Reads a file into its response, piece by piece.
fn encode_file(id: &Id, file: &impl FileExt, size: u64) -> Result<Vec<u8>, RpcError> {
    let mut encoder = v1::FileEncoder::new(id, usize::try_from(size).unwrap_or(0));
    let mut piece =
        vec![0; PIECE.min(usize::try_from(size).unwrap_or(PIECE).next_multiple_of(UNIT).max(UNIT))];
    let mut read = 0;
    loop {
        let count =
            read_full(file, &mut piece, read).map_err(|error| RpcError::internal(error.to_string()))?;
        read += count as u64;
        if read > MAX_READ {
            return Err(too_large());
        }
        encoder.push(&piece[..count]);
        if count < piece.len() {
            return Ok(encoder.finish());
        }
    }
}

fn too_large() -> RpcError {
    RpcError::invalid_request(format!("file is too large to read: limit is {MAX_READ} bytes"))
}

/// `fs/writeFile`: readers see the old content or the new. It is not forced to disk; the protocol does not promise it.
pub(crate) fn write_file(params: &Arc<v1::FsWriteFileParams>, context: &Context<'_>) -> PrepareResult {
    let path = path(context, &params.path, params.sandbox.as_ref())?;
    let params = params.clone();
    blocking(move || {
        let bytes = wire::base64::decode(&params.data_base64).map_err(|error| {
            RpcError::invalid_request(format!("fs/writeFile requires valid base64 dataBase64: {error}"))
        })?;
        check_links(&path, params.follow_symlinks.unwrap_or(true), RootedPath::real)?;
        let options = WriteOptions { durability: Durability::Relaxed, ..WriteOptions::default() };
        files::write(&path, &bytes, &options).map(|_written| Done {}).map_err(rpc_error)
    })
}

/// Checks and converts a `fs/createDirectory` request.
pub(crate) fn mkdir(params: &Arc<v1::FsCreateDirectoryParams>, context: &Context<'_>) -> PrepareResult {
    let path = path(context, &params.path, params.sandbox.as_ref())?;
    let (follows, recursive) = (params.follow_symlinks.unwrap_or(true), params.recursive.unwrap_or(true));
    blocking(move || {
        check_links(&path, follows, RootedPath::real)?;
        let made = files::make_directory(&path, recursive, None).map(|()| Done {});
        made.map_err(|error| match &error {
            // Another kind of file has the name itself.
            Error::File { source, .. }
                if source.kind() == ErrorKind::NotADirectory && matches!(files::stat(&path), Ok(Some(_))) =>
            {
                RpcError::internal(system_text(Errno::EXIST))
            }
            _ => rpc_error(error),
        })
    })
}

/// `fs/remove`: removes a link, never its target.
pub(crate) fn remove(params: &Arc<v1::FsRemoveParams>, context: &Context<'_>) -> PrepareResult {
    let path = path(context, &params.path, params.sandbox.as_ref())?;
    let params = params.clone();
    blocking(move || {
        check_links(&path, params.follow_symlinks.unwrap_or(true), RootedPath::entry)?;
        let recursive = params.recursive.unwrap_or(true);
        match files::remove(&path, recursive, &ScanBudget::unbounded()).map_err(rpc_error) {
            Err(error) if error.code == code::NOT_FOUND && params.force.unwrap_or(true) => Ok(Done {}),
            removed => removed.map(|()| Done {}),
        }
    })
}

/// `fs/copy`: copies links as links, merges into existing directories, and follows a link at the destination.
pub(crate) fn copy(params: &Arc<v1::FsCopyParams>, context: &Context<'_>) -> PrepareResult {
    let sandbox = params.sandbox.as_ref();
    let from = path(context, &params.source_path, sandbox)?;
    let to = path(context, &params.destination_path, sandbox)?;
    let options =
        CopyOptions { recursive: params.recursive, overwrite: true, skip_special: true, follows: true };
    blocking(move || {
        let copied = files::copy(&from, &to, options, &ScanBudget::unbounded()).map(|()| Done {});
        copied.map_err(|error| match &error {
            Error::File { path, source, .. }
                if path == from.as_path() && source.kind() == ErrorKind::IsADirectory =>
            {
                RpcError::invalid_request("fs/copy requires recursive: true when sourcePath is a directory")
            }
            Error::BadPath { .. } if to.as_path().starts_with(from.as_path()) => RpcError::invalid_request(
                "fs/copy cannot copy a directory to itself or one of its descendants",
            ),
            Error::NotRegular { path } if path == from.as_path() => {
                RpcError::invalid_request("fs/copy only supports regular files, directories, and symlinks")
            }
            _ => rpc_error(error),
        })
    })
}

/// Refuses a path that contains a link, for requests that follow none. `resolve` is [`RootedPath::entry`] for a request
/// on the name itself.
pub(super) fn check_links(
    path: &RootedPath,
    follows: bool,
    resolve: fn(&RootedPath) -> Result<PathBuf, Error>,
) -> Result<(), RpcError> {
    if follows || resolve(path).map_err(rpc_error)? == path.as_path() {
        return Ok(());
    }
    Err(RpcError::invalid_request("path contains a symbolic link"))
}
