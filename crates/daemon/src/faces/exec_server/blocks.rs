//! Handles: files read and written block by block. They end with their connection.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use engine::RootedPath;
use engine::files::{self, Durability};
use tokio::sync::SetOnce;
use wire::exec_server::v1::{self, Done, FsHandle, FsOpenMode};
use wire::exec_server::{ErrorObject, code};

use super::answer::Answer;
use super::errors::failed;
use super::files::blocking;
use super::look::missing;
use super::missing::lies_in_directory;
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
    open: HashMap<String, Slot>,
}

/// A handle, once it is open; nothing in it if it could not be opened.
type Slot = Arc<SetOnce<Option<Arc<Handle>>>>;

#[derive(Debug)]
struct Handle {
    file: File,
    /// What the content is to become when the handle is closed.
    replaces: Option<RootedPath>,
}

impl Session {
    /// `fs/open`. What is asked about the handle before this is answered waits for its turn.
    pub(super) fn open(&mut self, params: v1::FsOpenParams, answer: Answer) {
        let (path, slot) = match self.opens(&params) {
            Ok(opens) => opens,
            Err(error) => return self.reply(answer, Err::<(), _>(error)),
        };
        self.look(answer, move || {
            let opened = opened(path, params.mode).map(Arc::new);
            slot.set(opened.as_ref().ok().cloned()).ok();
            opened.map(|_handle| FsHandle { handle_id: params.handle_id })
        });
    }

    fn opens(&mut self, params: &v1::FsOpenParams) -> Result<(RootedPath, Slot), ErrorObject> {
        let refuse = |message: String| Err(ErrorObject::invalid_request(message));
        if params.handle_id.len() > LONGEST_ID {
            return refuse(format!("handleId must have at most {LONGEST_ID} bytes"));
        }
        self.handles.open.retain(|_, slot| !matches!(slot.get(), Some(None)));
        if self.handles.open.contains_key(&params.handle_id) {
            return refuse(format!("handle {:?} is open already", params.handle_id));
        }
        if self.handles.open.len() >= MOST_OPEN {
            return refuse(format!("more than {MOST_OPEN} handles cannot be open"));
        }
        let path = self.path(&params.path, params.sandbox.as_ref())?;
        let slot = Slot::default();
        self.handles.open.insert(params.handle_id.clone(), slot.clone());
        Ok((path, slot))
    }

    /// `fs/readBlock`.
    pub(super) fn read_block(&mut self, params: v1::FsReadBlockParams, answer: Answer) {
        let slot = match self.slot(&params.handle_id) {
            Ok(slot) if (1..=LARGEST).contains(&params.len) => slot,
            Ok(_) => {
                let error = ErrorObject::invalid_request(format!("len must be 1 to {LARGEST}"));
                return self.reply(answer, Err::<(), _>(error));
            }
            Err(error) => return self.reply(answer, Err::<(), _>(error)),
        };
        let id = answer.id().clone();
        self.spawn(async move {
            let opened = slot.wait().await.clone();
            let read = move || {
                let handle = opened.ok_or_else(|| unknown(&params.handle_id))?;
                if handle.replaces.is_some() {
                    return Err(ErrorObject::internal(format!("handle {:?} only writes", params.handle_id)));
                }
                let mut block = vec![0; usize::try_from(params.len).unwrap_or(0)];
                let read = read_full(&handle.file, &mut block, params.offset)
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
        let slot = match self.slot(&params.handle_id) {
            Ok(slot) => slot,
            Err(error) => return self.reply(answer, Err::<(), _>(error)),
        };
        // By its turn the handle is open, if it could be opened.
        self.change(answer, move || {
            let handle = slot.get().and_then(Option::as_ref).ok_or_else(|| unknown(&params.handle_id))?;
            if handle.replaces.is_none() {
                return Err(ErrorObject::internal(format!("handle {:?} only reads", params.handle_id)));
            }
            let end = params.offset.saturating_add(params.chunk.0.len() as u64);
            if params.chunk.0.len() as u64 > LARGEST || end > MOST_WRITTEN {
                return Err(ErrorObject::invalid_request(format!("a block has at most {LARGEST} bytes")));
            }
            let written = handle.file.write_all_at(&params.chunk.0, params.offset);
            written.map(|()| Done {}).map_err(|error| ErrorObject::internal(error.to_string()))
        });
    }

    /// `fs/close`: what was written takes the place of what was there. Closing what is closed is fine.
    pub(super) fn close_handle(&mut self, params: FsHandle, answer: Answer) {
        let Some(slot) = self.handles.open.remove(&params.handle_id) else {
            return self.reply(answer, Ok(Done {}));
        };
        self.change(answer, move || {
            let handle = slot.get().and_then(Option::as_deref);
            let written = handle.and_then(|handle| Some((handle.replaces.as_ref()?, &handle.file)));
            match written {
                Some((path, file)) => {
                    files::write_from(path, file, Durability::Relaxed).map(|_written| Done {}).map_err(failed)
                }
                None => Ok(Done {}),
            }
        });
    }

    fn slot(&self, id: &str) -> Result<Slot, ErrorObject> {
        self.handles.open.get(id).cloned().ok_or_else(|| unknown(id))
    }
}

fn unknown(id: &str) -> ErrorObject {
    ErrorObject::new(code::NOT_FOUND, format!("there is no handle {id:?}"))
}

fn opened(path: RootedPath, mode: FsOpenMode) -> Result<Handle, ErrorObject> {
    match mode {
        FsOpenMode::Read => {
            let file = path.open_file().map_err(failed)?;
            Ok(Handle { file, replaces: None })
        }
        FsOpenMode::Replace => {
            if !lies_in_directory(&path) {
                return Err(missing(&path));
            }
            path.may_write().map_err(failed)?;
            let file = engine::files::unnamed_file().map_err(failed)?;
            Ok(Handle { file, replaces: Some(path) })
        }
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
