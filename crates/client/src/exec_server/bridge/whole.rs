//! Whole files, for servers that read no pieces: one that is read piece by piece is fetched once.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::OnceCell;
use wire::exec_server::v1::FsReadFileParams;
use wire::rexd::v1::RpcError;

use super::look::Piece;
use super::{Bridge, hold};

/// A file that was fetched, as it was at that time.
#[derive(Debug)]
pub(super) struct Whole {
    path: String,
    mtime: i64,
    bytes: OnceCell<Bytes>,
}

impl Bridge {
    /// A piece of a file that last changed at `mtime`. The file is forgotten when its end was read.
    pub(super) async fn cut_out(
        &self,
        (path, mtime): (&str, i64),
        offset: u64,
        len: u64,
    ) -> Result<Piece, RpcError> {
        let whole = self.kept(path, mtime);
        let bytes = whole.bytes.get_or_try_init(|| self.fetch(path)).await?;
        let place = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(bytes.len());
        let (start, end) = (place(offset), place(offset.saturating_add(len)));
        let piece = Piece {
            bytes: bytes.slice(start..end),
            is_end: end == bytes.len(),
            size: Some(bytes.len() as u64),
        };
        if piece.is_end {
            hold(&self.whole).take_if(|kept| Arc::ptr_eq(kept, &whole));
        }
        Ok(piece)
    }

    /// The file that is kept, or a place for this one.
    fn kept(&self, path: &str, mtime: i64) -> Arc<Whole> {
        let mut kept = hold(&self.whole);
        match kept.as_ref().filter(|kept| kept.path == path && kept.mtime == mtime) {
            Some(kept) => kept.clone(),
            None => {
                let whole = Whole { path: path.to_owned(), mtime, bytes: OnceCell::new() };
                kept.insert(Arc::new(whole)).clone()
            }
        }
    }

    /// The content of a file.
    pub(super) async fn fetch(&self, path: &str) -> Result<Bytes, RpcError> {
        let params = FsReadFileParams { path: self.there(path), ..FsReadFileParams::default() };
        let read = self.client.fs_read_file(params).await.map_err(|error| self.wrong_file(error, path))?;
        wire::base64::decode(&read.data_base64)
            .map(Bytes::from)
            .map_err(|_| RpcError::internal("the exec-server sent what is not base64"))
    }
}
