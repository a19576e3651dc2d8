//! Handles: files read and written block by block. They end with their connection.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;

use engine::RootedPath;
use engine::files::{self, Durability};
use wire::codex::v1::{self, Done, FsHandle, FsOpenMode};
use wire::codex::{ErrorObject, code};

use super::answer::Answer;
use super::errors::failed;
use super::files::blocking;
use super::session::Session;

/// Handles that may be open at the same time.
const MOST_OPEN: usize = 128;
/// Bytes of a handle's name.
const LONGEST_ID: usize = 32;
/// The largest block.
const LARGEST: u64 = 1024 * 1024;
/// The largest file that is written block by block.
const MOST_WRITTEN: u64 = 16 * 1024 * 1024 * 1024;

/// The open files of one connection.
#[derive(Debug, Default)]
pub(super) struct Handles {
    open: HashMap<String, Arc<Handle>>,
}

#[derive(Debug)]
struct Handle {
    file: File,
    /// What the content is to become when the handle is closed.
    replaces: Option<RootedPath>,
}

impl Session {
    /// `fs/open`.
    pub(super) fn open(&mut self, params: v1::FsOpenParams, answer: Answer) {
        let opened = self.opened(&params);
        let handle_id = params.handle_id;
        let result = opened.map(|handle| {
            self.handles.open.insert(handle_id.clone(), Arc::new(handle));
            FsHandle { handle_id }
        });
        self.reply(answer, result);
    }

    fn opened(&mut self, params: &v1::FsOpenParams) -> Result<Handle, ErrorObject> {
        let refuse = |message: String| Err(ErrorObject::invalid_request(message));
        if params.handle_id.len() > LONGEST_ID {
            return refuse(format!("handleId must have at most {LONGEST_ID} bytes"));
        }
        if self.handles.open.contains_key(&params.handle_id) {
            return refuse(format!("handle {:?} is open already", params.handle_id));
        }
        if self.handles.open.len() >= MOST_OPEN {
            return refuse(format!("more than {MOST_OPEN} handles cannot be open"));
        }
        let path = self.path(&params.path, params.sandbox.as_ref())?;
        match params.mode {
            FsOpenMode::Read => {
                let file = path.open_file().map_err(failed)?;
                Ok(Handle { file, replaces: None })
            }
            FsOpenMode::Replace => {
                let is_there = |parent: &Path| {
                    matches!(
                        path.roots().admit(parent, parent).map(|parent| files::stat(&parent)),
                        Ok(Ok(Some(_)))
                    )
                };
                if !path.as_path().parent().is_some_and(is_there) {
                    let message = format!("{}: no such file or directory", path.as_path().display());
                    return Err(ErrorObject::new(code::NOT_FOUND, message));
                }
                path.may_write().map_err(failed)?;
                let file = engine::files::unnamed_file().map_err(failed)?;
                Ok(Handle { file, replaces: Some(path) })
            }
        }
    }

    /// `fs/readBlock`.
    pub(super) fn read_block(&mut self, params: &v1::FsReadBlockParams, answer: Answer) {
        if !(1..=LARGEST).contains(&params.len) {
            let error = ErrorObject::invalid_request(format!("len must be 1 to {LARGEST}"));
            return self.reply(answer, Err::<(), _>(error));
        }
        let handle = match self.handle(&params.handle_id) {
            Ok(handle) => handle,
            Err(error) => return self.reply(answer, Err::<(), _>(error)),
        };
        if handle.replaces.is_some() {
            let message = format!("handle {:?} only writes", params.handle_id);
            return self.reply(answer, Err::<(), _>(ErrorObject::internal(message)));
        }
        let (id, offset, len) = (answer.id().clone(), params.offset, params.len);
        self.spawn(async move {
            let read = move || {
                let mut block = vec![0; usize::try_from(len).unwrap_or(0)];
                let read = read_full(&handle.file, &mut block, offset)
                    .map_err(|error| ErrorObject::internal(error.to_string()))?;
                Ok(v1::encode_block(&id, &block[..read], read < block.len()))
            };
            match blocking(read).await {
                Ok(response) => answer.send_raw(response).await,
                Err(error) => answer.send(Err::<(), _>(error)).await,
            }
        });
    }

    /// `fs/writeBlock`.
    pub(super) fn write_block(&mut self, params: v1::FsWriteBlockParams, answer: Answer) {
        let handle = match self.handle(&params.handle_id) {
            Ok(handle) => handle,
            Err(error) => return self.reply(answer, Err::<(), _>(error)),
        };
        let end = params.offset.saturating_add(params.chunk.0.len() as u64);
        let refuse = |message: String| Err::<(), _>(ErrorObject::invalid_request(message));
        if handle.replaces.is_none() {
            let message = format!("handle {:?} only reads", params.handle_id);
            return self.reply(answer, Err::<(), _>(ErrorObject::internal(message)));
        }
        if params.chunk.0.len() as u64 > LARGEST || end > MOST_WRITTEN {
            return self.reply(answer, refuse(format!("a block has at most {LARGEST} bytes")));
        }
        self.change(answer, move || {
            let written = handle.file.write_all_at(&params.chunk.0, params.offset);
            written.map(|()| Done {}).map_err(|error| ErrorObject::internal(error.to_string()))
        });
    }

    /// `fs/close`: what was written takes the place of what was there. Closing what is closed is fine.
    pub(super) fn close_handle(&mut self, params: &FsHandle, answer: Answer) {
        let Some(handle) = self.handles.open.remove(&params.handle_id) else {
            return self.reply(answer, Ok(Done {}));
        };
        self.change(answer, move || match &handle.replaces {
            Some(path) => {
                let written = files::write_from(path, &handle.file, Durability::Relaxed);
                written.map(|_written| Done {}).map_err(failed)
            }
            None => Ok(Done {}),
        });
    }

    fn handle(&self, id: &str) -> Result<Arc<Handle>, ErrorObject> {
        let found = self.handles.open.get(id).cloned();
        found.ok_or_else(|| ErrorObject::new(code::NOT_FOUND, format!("there is no handle {id:?}")))
    }
}

/// Reads until the block is full or the file ends.
fn read_full(file: &File, block: &mut [u8], offset: u64) -> std::io::Result<usize> {
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
