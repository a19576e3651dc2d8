//! File handles: files read and written block by block. They are closed with their connection.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use engine::files::{self, Durability, FileKind};
use engine::{Error, RootedPath};
use rustix::io::Errno;
use tokio::sync::SetOnce;
use wire::exec_server::code;
use wire::exec_server::v1::{self, Done, FsHandle, FsOpenMode};
use wire::jsonrpc::RpcError;

use super::metadata::not_found;
use super::missing::has_parent;
use super::{Context, ExecServerPrepared, PrepareResult, blocking, path, rpc_error};
use crate::core::request::{AuthorizedRequest, off_thread};
use crate::faces::exec_server::errors::{read_error, system_text};

/// Handles that may be open at the same time.
const MAX_OPEN: usize = 128;
/// Bytes of a handle's id.
const MAX_ID_BYTES: usize = 32;
/// The largest block.
const MAX_BLOCK: u64 = 1024 * 1024;
/// The largest file that is written block by block.
const MAX_WRITTEN: u64 = 16 * 1024 * 1024 * 1024;

/// The open files of one connection.
#[derive(Debug, Default)]
pub(crate) struct FileHandles {
    open: HashMap<String, HandleSlot>,
}

/// A handle while it is opened and after; `None` in it if that failed.
type HandleSlot = Arc<SetOnce<Option<Arc<FileHandle>>>>;

#[derive(Debug)]
struct FileHandle {
    file: File,
    /// The path that the content replaces when the handle is closed; `None` for a handle that reads.
    replaces: Option<RootedPath>,
}

impl FileHandles {
    fn reserve(&mut self, id: &str) -> Result<HandleSlot, RpcError> {
        self.open.retain(|_, slot| !matches!(slot.get(), Some(None)));
        if self.open.contains_key(id) {
            return Err(RpcError::invalid_request(format!("file handle `{id}` already exists")));
        }
        if self.open.len() >= MAX_OPEN {
            return Err(RpcError::invalid_request(format!("too many open handles (limit {MAX_OPEN})")));
        }
        Ok(self.open.entry(id.to_owned()).or_default().clone())
    }

    fn slot(&self, id: &str) -> Result<HandleSlot, RpcError> {
        self.open.get(id).cloned().ok_or_else(|| unknown(id))
    }
}

/// `fs/open`. Requests on the handle wait until it is open.
pub(crate) fn open(params: &Arc<v1::FsOpenParams>, context: &Context<'_>) -> PrepareResult {
    if params.handle_id.len() > MAX_ID_BYTES {
        return Err(RpcError::invalid_request(format!(
            "file handle ID must not exceed {MAX_ID_BYTES} bytes"
        )));
    }
    let path = path(context, &params.path, params.sandbox.as_ref())?;
    let params = params.clone();
    Ok(ExecServerPrepared::new(move |session, request| {
        match session.state.handles.reserve(&params.handle_id) {
            Ok(slot) => session.spawn(request.run_blocking(move || {
                let opened = open_file(path, params.mode).map(Arc::new);
                slot.set(opened.as_ref().ok().cloned()).ok();
                opened.map(|_handle| FsHandle { handle_id: params.handle_id.clone() })
            })),
            Err(error) => session.spawn(request.reject(error)),
        }
    }))
}

/// Checks and converts a `fs/readBlock` request.
pub(crate) fn read_block(params: &Arc<v1::FsReadBlockParams>, context: &Context<'_>) -> PrepareResult {
    let slot = context.session.state.handles.slot(&params.handle_id)?;
    if !(1..=MAX_BLOCK).contains(&params.len) {
        return Err(RpcError::invalid_request(format!(
            "file read block length must be between 1 and {MAX_BLOCK}"
        )));
    }
    let params = params.clone();
    Ok(ExecServerPrepared::new(move |session, request| {
        let AuthorizedRequest { responder, guard, .. } = request;
        let id = responder.id();
        session.spawn(async move {
            let opened = slot.wait().await.clone();
            let read = off_thread(move || {
                let handle = opened.ok_or_else(|| unknown(&params.handle_id))?;
                if handle.replaces.is_some() {
                    return Err(RpcError::internal(system_text(Errno::BADF)));
                }
                let mut block = vec![0; usize::try_from(params.len).unwrap_or(0)];
                let read = read_full(&handle.file, &mut block, params.offset).map_err(failed)?;
                let is_end = read < block.len();
                Ok(id.map(|id| v1::encode_block(&id, &block[..read], is_end)))
            });
            let response = read.await;
            drop(guard);
            responder.send_encoded(response).await;
        });
    }))
}

/// Checks and converts a `fs/writeBlock` request.
pub(crate) fn write_block(params: &Arc<v1::FsWriteBlockParams>, context: &Context<'_>) -> PrepareResult {
    let slot = context.session.state.handles.slot(&params.handle_id)?;
    let params = params.clone();
    blocking(move || {
        // In its turn the handle is open, if it could be opened.
        let handle = slot.get().and_then(Option::as_ref).ok_or_else(|| unknown(&params.handle_id))?;
        if handle.replaces.is_none() {
            return Err(RpcError::internal(system_text(Errno::BADF)));
        }
        let end = params.offset.saturating_add(params.chunk.0.len() as u64);
        if params.chunk.0.len() as u64 > MAX_BLOCK {
            let message = format!("file write block length must not exceed {MAX_BLOCK}");
            return Err(RpcError::invalid_request(message));
        }
        if end > i64::MAX as u64 {
            let message = "file write range exceeds the signed 64-bit file offset limit";
            return Err(RpcError::invalid_request(message));
        }
        if end > MAX_WRITTEN {
            let message = format!("a file written in blocks has at most {MAX_WRITTEN} bytes");
            return Err(RpcError::invalid_request(message));
        }
        handle.file.write_all_at(&params.chunk.0, params.offset).map(|()| Done {}).map_err(failed)
    })
}

/// `fs/close`: the written content replaces the file. Closing a closed handle is not an error.
pub(crate) fn close(params: &Arc<FsHandle>, _: &Context<'_>) -> PrepareResult {
    let id = params.handle_id.clone();
    Ok(ExecServerPrepared::new(move |session, request| {
        let slot = session.state.handles.open.remove(&id);
        session.spawn(request.run_blocking(move || {
            let handle = slot.as_ref().and_then(|slot| slot.get()).and_then(Option::as_deref);
            match handle.and_then(|handle| Some((handle.replaces.as_ref()?, &handle.file))) {
                Some((path, file)) => {
                    let written = files::write_from(path, file, Durability::Relaxed);
                    written.map(|_written| Done {}).map_err(rpc_error)
                }
                None => Ok(Done {}),
            }
        }));
    }))
}

fn unknown(id: &str) -> RpcError {
    RpcError::new(code::NOT_FOUND, format!("unknown file handle `{id}`"))
}

fn failed(error: std::io::Error) -> RpcError {
    RpcError::internal(error.to_string())
}

fn open_file(path: RootedPath, mode: FsOpenMode) -> Result<FileHandle, RpcError> {
    match mode {
        FsOpenMode::Read => Ok(FileHandle { file: path.open_file().map_err(read_error)?, replaces: None }),
        FsOpenMode::Replace if !has_parent(&path) => Err(not_found()),
        FsOpenMode::Replace => {
            path.may_write().map_err(rpc_error)?;
            match files::stat_followed(&path).map_err(rpc_error)?.map(|(found, _)| found.kind) {
                Some(FileKind::Dir) => return Err(RpcError::internal(system_text(Errno::ISDIR))),
                Some(FileKind::File) | None => {}
                Some(_) => return Err(rpc_error(Error::NotRegular { path: path.as_path().to_owned() })),
            }
            Ok(FileHandle { file: files::unnamed_file().map_err(rpc_error)?, replaces: Some(path) })
        }
    }
}

/// Reads until the block is full or the file ends.
pub(super) fn read_full(file: &impl FileExt, block: &mut [u8], offset: u64) -> std::io::Result<usize> {
    let mut read = 0;
    while read < block.len() {
        match file.read_at(&mut block[read..], offset.saturating_add(read as u64)) {
            Ok(0) => break,
            Ok(more) => read += more,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(read)
}
