//! Looking at files: what a path is, and what it holds.

use bytes::Bytes;
use sha2::{Digest as _, Sha256};
use wire::exec_server::code;
use wire::exec_server::v1::{
    FsGetMetadataParams, FsGetMetadataResponse, FsHandle, FsOpenMode, FsOpenParams, FsReadBlockParams,
};
use wire::rexd::v1::{self, RpcError};

use super::{Bridge, refusal};
use crate::exec_server::error::ExecServerError;

/// What one block may hold, by the protocol.
const BLOCK: u64 = 1024 * 1024;
/// How often a handle is opened anew that a cut took away.
const TRIES: usize = 5;

impl Bridge {
    /// What a path is; nothing if there is nothing.
    pub(super) async fn metadata(&self, path: &str) -> Result<Option<FsGetMetadataResponse>, RpcError> {
        let params = FsGetMetadataParams { path: self.there(path), ..FsGetMetadataParams::default() };
        match self.client.fs_get_metadata(params).await {
            Ok(found) => Ok(Some(found)),
            Err(error) if error.code() == Some(code::NOT_FOUND) => Ok(None),
            Err(error) => Err(self.wrong_file(error, path)),
        }
    }

    pub(super) fn wrong_file(&self, error: ExecServerError, path: &str) -> RpcError {
        match error.code() {
            Some(_) => refusal::of_file(error, path),
            None => self.wrong(error),
        }
    }

    pub(super) async fn fs_stat(&self, ask: v1::FsStat) -> Result<v1::FsStatResult, RpcError> {
        let path = self.path(&ask.path);
        let Some(found) = self.metadata(&path).await? else {
            return Ok(v1::FsStatResult { path, exists: false, ..v1::FsStatResult::default() });
        };
        let mut result = v1::FsStatResult {
            exists: true,
            kind: Some(kind(&found).to_owned()),
            size: self.size(&path, &found).await,
            mtime: Some(found.modified_at_ms),
            ..v1::FsStatResult::default()
        };
        if found.is_symlink {
            let target = self.tool(&["readlink", "-n", "--", &path], None).await?;
            result.symlink_target = Some(target);
        }
        if ask.hash.is_some() && found.is_file {
            let most = ask.hash_bytes.and_then(|most| u64::try_from(most).ok()).filter(|most| *most > 0);
            let file = (path.as_str(), found.modified_at_ms);
            let (hash, bytes) = self.hash(file, most.unwrap_or(u64::MAX)).await?;
            (result.hash, result.hash_bytes) = (Some(hash), Some(bytes));
            result.mode = self.mode(&path).await;
        }
        Ok(v1::FsStatResult { path, ..result })
    }

    /// How large it is. Servers before that member do not tell: then where the machine has a `stat`.
    pub(super) async fn size(&self, path: &str, found: &FsGetMetadataResponse) -> Option<u64> {
        match found.size {
            Some(size) => Some(size),
            None => self.tool(&["stat", "-L", "-c", "%s", "--", path], None).await.ok()?.trim().parse().ok(),
        }
    }

    /// Permissions as `ls` shows them, where the machine has a `stat`.
    async fn mode(&self, path: &str) -> Option<String> {
        let mode = self.tool(&["stat", "-L", "-c", "%A", "--", path], None).await.ok()?;
        Some(mode.trim().to_owned())
    }

    /// The hash of a file's first bytes, and how many there were.
    async fn hash(&self, file: (&str, i64), most: u64) -> Result<(String, u64), RpcError> {
        let (mut hash, mut at) = (Sha256::new(), 0);
        loop {
            let piece = self.read_range(file, at, BLOCK.min(most - at)).await?;
            hash.update(&piece.bytes);
            at += piece.bytes.len() as u64;
            if piece.bytes.is_empty() || piece.is_end || at >= most {
                return Ok((hex(&hash.finalize()), at));
            }
        }
    }

    pub(super) async fn fs_read(&self, ask: v1::FsRead) -> Result<v1::FsReadResult, RpcError> {
        let path = self.path(&ask.path);
        let found = self.metadata(&path).await?.ok_or_else(|| refusal::missing(&path))?;
        if !found.is_file {
            return Err(RpcError::invalid_params(format!("{path}: not a regular file")));
        }
        let number = |asked: Option<i64>| asked.and_then(|asked| u64::try_from(asked).ok());
        let offset = number(ask.offset).unwrap_or(0);
        let length =
            number(ask.length).filter(|length| *length > 0).unwrap_or(crate::files::READ_CHUNK_BYTES);
        let length = length.min(crate::files::READ_CHUNK_BYTES);
        let mut bytes = Vec::new();
        let (mut is_end, mut seen) = (false, None);
        while (bytes.len() as u64) < length && !is_end {
            let at = offset + bytes.len() as u64;
            let file = (path.as_str(), found.modified_at_ms);
            let piece = self.read_range(file, at, length - bytes.len() as u64).await?;
            (is_end, seen) = (piece.is_end || piece.bytes.is_empty(), piece.size);
            bytes.extend_from_slice(&piece.bytes);
        }
        let end = offset + bytes.len() as u64;
        let (hash, mode) = match ask.hash {
            Some(_) => (Some(hex(&Sha256::digest(&bytes))), self.mode(&path).await),
            None => (None, None),
        };
        let size = found.size.or(seen).unwrap_or(end).max(end);
        let (encoding, content) = match (ask.encoding.as_deref(), String::from_utf8(bytes)) {
            (None | Some("utf8"), Ok(text)) => ("utf8", text),
            (_, Ok(text)) => ("base64", wire::base64::encode(text.as_bytes())),
            (_, Err(error)) => ("base64", wire::base64::encode(error.as_bytes())),
        };
        let (encoding, mtime) = (encoding.to_owned(), found.modified_at_ms);
        Ok(v1::FsReadResult { path, size, mtime, encoding, content, truncated: end < size, hash, mode })
    }

    /// A piece of a file: through a handle where the server has those, else cut out of the whole.
    async fn read_range(&self, file: (&str, i64), offset: u64, len: u64) -> Result<Piece, RpcError> {
        let (path, _) = file;
        for _ in 0..TRIES {
            let handle_id = self.client.fresh_name();
            let open = FsOpenParams {
                path: self.there(path),
                handle_id: handle_id.clone(),
                mode: FsOpenMode::Read,
                sandbox: None,
            };
            match self.client.fs_open(open).await {
                Ok(_) => {}
                Err(error) if error.code() == Some(code::METHOD_NOT_FOUND) => {
                    return self.cut_out(file, offset, len).await;
                }
                Err(error) => return Err(self.wrong_file(error, path)),
            }
            let block = FsReadBlockParams { handle_id: handle_id.clone(), offset, len: len.clamp(1, BLOCK) };
            let read = self.client.fs_read_block(block).await;
            self.client.fs_close(FsHandle { handle_id }).await.ok();
            match read {
                Ok(read) => {
                    return Ok(Piece { bytes: read.chunk.into_inner(), is_end: read.eof, size: None });
                }
                // The connection was cut between the two, and handles end with it.
                Err(error) if error.code() == Some(code::NOT_FOUND) => {}
                Err(error) => return Err(self.wrong_file(error, path)),
            }
        }
        Err(RpcError::internal(format!("{path}: the connection is cut too often to read it")))
    }
}

/// A piece of a file.
pub(super) struct Piece {
    pub(super) bytes: Bytes,
    pub(super) is_end: bool,
    /// How large the file is, where that was seen.
    pub(super) size: Option<u64>,
}

/// REXD's word for what a path is.
pub(super) fn kind(found: &FsGetMetadataResponse) -> &'static str {
    match (found.is_symlink, found.is_directory, found.is_file) {
        (true, ..) => "symlink",
        (_, true, _) => "dir",
        (_, _, true) => "file",
        _ => "other",
    }
}

/// Lower-case hexadecimal digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
