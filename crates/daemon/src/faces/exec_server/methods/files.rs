//! Whole files read and written, directories created, files copied and removed.

use std::path::PathBuf;
use std::sync::Arc;

use engine::files::{self, CopyOptions, Durability, FileContent, ReadRange, ScanBudget, WriteOptions};
use engine::{Error, RootedPath};
use wire::exec_server::code;
use wire::exec_server::v1::{self, Done};
use wire::jsonrpc::RpcError;

use super::{Context, ExecServerPrepared, PrepareResult, blocking, path, rpc_error};
use crate::core::request::{AuthorizedRequest, off_thread};
use crate::core::response_memory::file_size;

/// The largest file that is read as a whole.
const MAX_READ: u64 = 512 * 1024 * 1024;

/// Checks and converts a `fs/readFile` request.
pub(crate) fn read_file(params: &Arc<v1::FsReadFileParams>, context: &Context<'_>) -> PrepareResult {
    let path = path(context, &params.path, params.sandbox.as_ref())?;
    let follows = params.follow_symlinks.unwrap_or(true);
    let memory = context.session.response_memory.clone();
    Ok(ExecServerPrepared::new(move |session, request| {
        session.spawn(async move {
            let AuthorizedRequest { mut responder, guard, .. } = request;
            let id = responder.id();
            let encode = move |read: Result<FileContent, Error>| {
                let content = read.map_err(rpc_error)?;
                if content.more {
                    let message = format!("the file is larger than {MAX_READ} bytes");
                    return Err(RpcError::invalid_request(message));
                }
                Ok(id.map(|id| v1::encode_file(&id, &content.bytes)))
            };
            let cached = if follows { files::read_cached(&path, ReadRange::whole(MAX_READ)) } else { None };
            let response = match cached {
                Some(read) => encode(read),
                None => {
                    // Once as bytes, once as base64.
                    let bytes = file_size(path.clone()).await.saturating_mul(3);
                    let Some(reserved) = memory.reserve_for(responder, bytes).await else { return };
                    responder = reserved;
                    off_thread(move || {
                        check_links(&path, follows, RootedPath::real)?;
                        encode(files::read(&path, ReadRange::whole(MAX_READ)))
                    })
                    .await
                }
            };
            drop(guard);
            responder.send_encoded(response).await;
        });
    }))
}

/// `fs/writeFile`: readers see the old content or the new. It is not forced to disk; the protocol does not promise it.
pub(crate) fn write_file(params: &Arc<v1::FsWriteFileParams>, context: &Context<'_>) -> PrepareResult {
    let path = path(context, &params.path, params.sandbox.as_ref())?;
    let params = params.clone();
    blocking(move || {
        let bytes = wire::base64::decode(&params.data_base64)
            .map_err(|error| RpcError::invalid_request(format!("dataBase64: {error}")))?;
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
        files::make_directory(&path, recursive).map(|()| Done {}).map_err(rpc_error)
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
        files::copy(&from, &to, options, &ScanBudget::unbounded()).map(|()| Done {}).map_err(rpc_error)
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
    Err(RpcError::invalid_request(format!("{} contains a symbolic link", path.as_path().display())))
}
