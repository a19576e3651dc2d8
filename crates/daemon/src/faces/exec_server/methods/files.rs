//! Whole files read and written, directories created, files copied and removed.

use std::path::PathBuf;
use std::sync::Arc;

use engine::files::{self, CopyOptions, Durability, FileContent, ReadRange, ScanBudget, WriteOptions};
use engine::{Error, RootedPath};
use wire::exec_server::code;
use wire::exec_server::v1::{self, Done};
use wire::jsonrpc::RpcError;

use super::{ExecServerPrepared, PrepareResult, off_thread, path, run};
use crate::core::request::{AuthorizedRequest, RequestContext};
use crate::faces::exec_server::errors::rpc_error;
use crate::faces::exec_server::session::Session;

/// The largest file that is read as a whole.
const MAX_READ: u64 = 512 * 1024 * 1024;

/// Checks and converts a `fs/readFile` request.
pub(crate) fn read_file(
    params: &Arc<v1::FsReadFileParams>,
    session: &Session,
    context: &RequestContext,
) -> PrepareResult {
    let path = path(session, context, &params.path, params.sandbox.as_ref())?;
    let follows = params.follow_symlinks.unwrap_or(true);
    Ok(ExecServerPrepared::new(move |session, request| {
        let memory = session.state.response_memory();
        session.spawn(async move {
            let AuthorizedRequest { mut responder, turn, .. } = request;
            let cached = if follows { files::read_cached(&path, ReadRange::whole(MAX_READ)) } else { None };
            let id = responder.id();
            let encode = move |read: Result<FileContent, Error>| {
                let content = read.map_err(rpc_error)?;
                if content.more {
                    return Err(RpcError::invalid_request(format!(
                        "the file is larger than {MAX_READ} bytes"
                    )));
                }
                Ok(id.map(|id| v1::encode_file(&id, &content.bytes)).unwrap_or_default())
            };
            let response = match cached {
                Some(read) => encode(read),
                None => {
                    let sized = path.clone();
                    let size = off_thread(move || Ok(files::stat_followed(&sized).ok().flatten())).await;
                    // Once as bytes, once as base64. A file that cannot be examined fails when it is read.
                    let bytes = size.ok().flatten().map_or(0, |(found, _)| found.size.saturating_mul(3));
                    memory.reserve(bytes).await.into_iter().for_each(|permit| responder.hold(permit));
                    off_thread(move || {
                        check_links(&path, follows)?;
                        encode(files::read(&path, ReadRange::whole(MAX_READ)))
                    })
                    .await
                }
            };
            drop(turn);
            match response {
                Ok(response) => responder.send_raw(response).await,
                Err(error) => responder.send(Err::<(), _>(error)).await,
            }
        });
    }))
}

/// `fs/writeFile`: readers see the old content or the new. It is not forced to disk; the protocol does not promise it.
pub(crate) fn write_file(
    params: &Arc<v1::FsWriteFileParams>,
    session: &Session,
    context: &RequestContext,
) -> PrepareResult {
    let path = path(session, context, &params.path, params.sandbox.as_ref())?;
    let params = params.clone();
    Ok(ExecServerPrepared::new(move |session, request| {
        run(session, request, move || {
            let bytes = wire::base64::decode(&params.data_base64)
                .map_err(|error| RpcError::invalid_request(format!("dataBase64: {error}")))?;
            check_links(&path, params.follow_symlinks.unwrap_or(true))?;
            let options = WriteOptions { durability: Durability::Relaxed, ..WriteOptions::default() };
            files::write(&path, &bytes, &options).map(|_written| Done {}).map_err(rpc_error)
        });
    }))
}

/// Checks and converts a `fs/createDirectory` request.
pub(crate) fn create_directory(
    params: &Arc<v1::FsCreateDirectoryParams>,
    session: &Session,
    context: &RequestContext,
) -> PrepareResult {
    let path = path(session, context, &params.path, params.sandbox.as_ref())?;
    let (follows, recursive) = (params.follow_symlinks.unwrap_or(true), params.recursive.unwrap_or(true));
    Ok(ExecServerPrepared::new(move |session, request| {
        run(session, request, move || {
            check_links(&path, follows)?;
            files::make_directory(&path, recursive).map(|()| Done {}).map_err(rpc_error)
        });
    }))
}

/// `fs/remove`: removes a link, never its target.
pub(crate) fn remove(
    params: &Arc<v1::FsRemoveParams>,
    session: &Session,
    context: &RequestContext,
) -> PrepareResult {
    let path = path(session, context, &params.path, params.sandbox.as_ref())?;
    let params = params.clone();
    Ok(ExecServerPrepared::new(move |session, request| {
        run(session, request, move || {
            check_parents(&path, params.follow_symlinks.unwrap_or(true))?;
            let recursive = params.recursive.unwrap_or(true);
            match files::remove(&path, recursive, &ScanBudget::unbounded()).map_err(rpc_error) {
                Err(error) if error.code == code::NOT_FOUND && params.force.unwrap_or(true) => Ok(Done {}),
                removed => removed.map(|()| Done {}),
            }
        });
    }))
}

/// `fs/copy`: copies links as links, merges into existing directories, and follows a link at the destination.
pub(crate) fn copy(
    params: &Arc<v1::FsCopyParams>,
    session: &Session,
    context: &RequestContext,
) -> PrepareResult {
    let sandbox = params.sandbox.as_ref();
    let from = path(session, context, &params.source_path, sandbox)?;
    let to = path(session, context, &params.destination_path, sandbox)?;
    let options =
        CopyOptions { recursive: params.recursive, overwrite: true, skip_special: true, follows: true };
    Ok(ExecServerPrepared::new(move |session, request| {
        run(session, request, move || {
            files::copy(&from, &to, options, &ScanBudget::unbounded()).map(|()| Done {}).map_err(rpc_error)
        });
    }))
}

/// Refuses a path that contains a link, for requests that follow none.
pub(super) fn check_links(path: &RootedPath, follows: bool) -> Result<(), RpcError> {
    check(path, follows, RootedPath::real)
}

/// The same for a request on the name itself.
fn check_parents(path: &RootedPath, follows: bool) -> Result<(), RpcError> {
    check(path, follows, RootedPath::entry)
}

fn check(
    path: &RootedPath,
    follows: bool,
    resolve: impl Fn(&RootedPath) -> Result<PathBuf, Error>,
) -> Result<(), RpcError> {
    if follows || resolve(path).map_err(rpc_error)? == path.as_path() {
        return Ok(());
    }
    Err(RpcError::invalid_request(format!("{} contains a symbolic link", path.as_path().display())))
}
