//! Caches one file, for servers that read only whole files: chunk by chunk, it is fetched once.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::OnceCell;
use wire::exec_server::v1::FsReadFileParams;
use wire::rexd::v1::RpcError;

use super::read::FileChunk;
use super::{Bridge, lock};

/// The content of a file at its modification time.
#[derive(Debug)]
pub(super) struct CachedFile {
    path: String,
    mtime: i64,
    bytes: OnceCell<Bytes>,
}

impl Bridge {
    /// A range of a file with this `mtime`. The cache is cleared when the end was read.
    pub(super) async fn read_cached(
        &self,
        (path, mtime): (&str, i64),
        offset: u64,
        len: u64,
    ) -> Result<FileChunk, RpcError> {
        let file = self.cached(path, mtime);
        let bytes = file.bytes.get_or_try_init(|| self.fetch(path)).await?;
        let position = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(bytes.len());
        let (start, end) = (position(offset), position(offset.saturating_add(len)));
        let chunk = FileChunk {
            bytes: bytes.slice(start..end),
            is_end: end == bytes.len(),
            file_size: Some(bytes.len() as u64),
        };
        if chunk.is_end {
            lock(&self.cached_file).take_if(|cached| Arc::ptr_eq(cached, &file));
        }
        Ok(chunk)
    }

    /// The cache entry of a file; replaces that of another file.
    fn cached(&self, path: &str, mtime: i64) -> Arc<CachedFile> {
        let mut cached = lock(&self.cached_file);
        match cached.as_ref().filter(|file| file.path == path && file.mtime == mtime) {
            Some(file) => file.clone(),
            None => {
                let file = CachedFile { path: path.to_owned(), mtime, bytes: OnceCell::new() };
                cached.insert(Arc::new(file)).clone()
            }
        }
    }

    /// Reads a whole file in one request.
    pub(super) async fn fetch(&self, path: &str) -> Result<Bytes, RpcError> {
        let params = FsReadFileParams { path: self.remote_path(path), ..FsReadFileParams::default() };
        let read =
            self.client.fs_read_file(params).await.map_err(|error| self.translate_file(error, path))?;
        wire::base64::decode(&read.data_base64)
            .map(Bytes::from)
            .map_err(|_| RpcError::internal("the exec-server sent invalid base64"))
    }
}
