//! Reads files: metadata, ranges of content and hashes.

use bytes::Bytes;
use sha2::{Digest as _, Sha256};
use wire::exec_server::code;
use wire::exec_server::v1::{
    FsGetMetadataParams, FsGetMetadataResponse, FsHandle, FsOpenMode, FsOpenParams, FsReadBlockParams,
};
use wire::rexd::v1::{self, RpcError};

use super::{Bridge, errors};
use crate::exec_server::error::ExecServerError;

/// Bytes of one block; the limit of the protocol.
const BLOCK_BYTES: u64 = 1024 * 1024;
/// Attempts to read through a handle; a lost connection ends handles.
const MAX_ATTEMPTS: usize = 5;

impl Bridge {
    /// The metadata of a path; `None` if it does not exist.
    pub(super) async fn metadata(&self, path: &str) -> Result<Option<FsGetMetadataResponse>, RpcError> {
        let params = FsGetMetadataParams { path: self.remote_path(path), ..FsGetMetadataParams::default() };
        match self.client.fs_get_metadata(params).await {
            Ok(found) => Ok(Some(found)),
            Err(error) if error.code() == Some(code::NOT_FOUND) => Ok(None),
            Err(error) => Err(self.translate_file(error, path)),
        }
    }

    /// Translates an error about a file.
    pub(super) fn translate_file(&self, error: ExecServerError, path: &str) -> RpcError {
        match error.code() {
            Some(_) => errors::file_error(&error, path),
            None => self.translate(error),
        }
    }

    pub(super) async fn fs_stat(&self, params: v1::FsStat) -> Result<v1::FsStatResult, RpcError> {
        let path = self.path(&params.path);
        let is_hashed = wants_hash(params.hash.as_deref())?;
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
            let target = self.run_command(&["readlink", "-n", "--", &path], None).await?;
            result.symlink_target = Some(target);
        }
        if is_hashed && found.is_file {
            let max = params.hash_bytes.and_then(|max| u64::try_from(max).ok()).filter(|max| *max > 0);
            let file = (path.as_str(), found.modified_at_ms);
            let (hash, bytes) = self.hash(file, max.unwrap_or(u64::MAX)).await?;
            (result.hash, result.hash_bytes) = (Some(hash), Some(bytes));
            result.mode = self.mode(&path).await;
        }
        Ok(v1::FsStatResult { path, ..result })
    }

    /// The size of a file. Older servers do not send it: then from `stat`, if the machine has it.
    pub(super) async fn size(&self, path: &str, found: &FsGetMetadataResponse) -> Option<u64> {
        match found.size {
            Some(size) => Some(size),
            None => self
                .run_command(&["stat", "-L", "-c", "%s", "--", path], None)
                .await
                .ok()?
                .trim()
                .parse()
                .ok(),
        }
    }

    /// The mode as `ls` shows it, if the machine has `stat`.
    async fn mode(&self, path: &str) -> Option<String> {
        let mode = self.run_command(&["stat", "-L", "-c", "%A", "--", path], None).await.ok()?;
        Some(mode.trim().to_owned())
    }

    /// The hash of a file's first bytes, and their number.
    async fn hash(&self, file: (&str, i64), max: u64) -> Result<(String, u64), RpcError> {
        let (mut hash, mut at) = (Sha256::new(), 0);
        loop {
            let chunk = self.read_range(file, at, BLOCK_BYTES.min(max - at)).await?;
            hash.update(&chunk.bytes);
            at += chunk.bytes.len() as u64;
            if chunk.bytes.is_empty() || chunk.is_end || at >= max {
                return Ok((hex::encode(hash.finalize()), at));
            }
        }
    }

    pub(super) async fn fs_read(&self, params: v1::FsRead) -> Result<v1::FsReadResult, RpcError> {
        let path = self.path(&params.path);
        let is_hashed = wants_hash(params.hash.as_deref())?;
        let found = self.metadata(&path).await?.ok_or_else(|| errors::not_found(&path))?;
        if !found.is_file {
            return Err(RpcError::invalid_params(format!("{path}: not a regular file")));
        }
        let number = |param: Option<i64>| param.and_then(|param| u64::try_from(param).ok());
        let offset = number(params.offset).unwrap_or(0);
        let length =
            number(params.length).filter(|length| *length > 0).unwrap_or(crate::files::READ_CHUNK_BYTES);
        let length = length.min(crate::files::READ_CHUNK_BYTES);
        let mut bytes = Vec::new();
        let (mut is_end, mut file_size) = (false, None);
        while (bytes.len() as u64) < length && !is_end {
            let at = offset + bytes.len() as u64;
            let file = (path.as_str(), found.modified_at_ms);
            let chunk = self.read_range(file, at, length - bytes.len() as u64).await?;
            (is_end, file_size) = (chunk.is_end || chunk.bytes.is_empty(), chunk.file_size);
            bytes.extend_from_slice(&chunk.bytes);
        }
        let end = offset + bytes.len() as u64;
        let (hash, mode) = match is_hashed {
            true => (Some(hex::encode(Sha256::digest(&bytes))), self.mode(&path).await),
            false => (None, None),
        };
        let size = found.size.or(file_size).unwrap_or(end).max(end);
        let (encoding, content) = match (params.encoding.as_deref(), String::from_utf8(bytes)) {
            (None | Some("utf8"), Ok(text)) => ("utf8", text),
            (_, Ok(text)) => ("base64", wire::base64::encode(text.as_bytes())),
            (_, Err(error)) => ("base64", wire::base64::encode(error.as_bytes())),
        };
        let (encoding, mtime) = (encoding.to_owned(), found.modified_at_ms);
        Ok(v1::FsReadResult { path, size, mtime, encoding, content, truncated: end < size, hash, mode })
    }

    /// A range of a file: through a handle if the server has those, else from the cached file.
    async fn read_range(&self, file: (&str, i64), offset: u64, len: u64) -> Result<FileChunk, RpcError> {
        let (path, _) = file;
        for _ in 0..MAX_ATTEMPTS {
            let handle_id = self.client.unique_name();
            let open = FsOpenParams {
                path: self.remote_path(path),
                handle_id: handle_id.clone(),
                mode: FsOpenMode::Read,
                sandbox: None,
            };
            match self.client.fs_open(open).await {
                Ok(_) => {}
                Err(error) if error.code() == Some(code::METHOD_NOT_FOUND) => {
                    return self.read_cached(file, offset, len).await;
                }
                Err(error) => return Err(self.translate_file(error, path)),
            }
            let block =
                FsReadBlockParams { handle_id: handle_id.clone(), offset, len: len.clamp(1, BLOCK_BYTES) };
            let read = self.client.fs_read_block(block).await;
            self.client.fs_close(FsHandle { handle_id }).await.ok();
            match read {
                Ok(read) => {
                    return Ok(FileChunk {
                        bytes: read.chunk.into_inner(),
                        is_end: read.eof,
                        file_size: None,
                    });
                }
                // The connection was lost after the handle was opened, and handles end with it.
                Err(error) if error.code() == Some(code::NOT_FOUND) => {}
                Err(error) => return Err(self.translate_file(error, path)),
            }
        }
        Err(RpcError::internal(format!(
            "{path}: the connection was lost {MAX_ATTEMPTS} times during the read"
        )))
    }
}

/// Whether a request wants a hash. The only one that the bridge computes is `sha256`, so the session announces no other.
pub(super) fn wants_hash(hash: Option<&str>) -> Result<bool, RpcError> {
    match hash {
        None => Ok(false),
        Some("sha256") => Ok(true),
        Some(_) => Err(errors::invalid_field("hash", "expected sha256")),
    }
}

/// A range of a file's content.
pub(super) struct FileChunk {
    pub(super) bytes: Bytes,
    pub(super) is_end: bool,
    /// The size of the file, if it is known.
    pub(super) file_size: Option<u64>,
}

/// The kind of a path in REXD's terms.
pub(super) fn kind(found: &FsGetMetadataResponse) -> &'static str {
    match (found.is_symlink, found.is_directory, found.is_file) {
        (true, ..) => "symlink",
        (_, true, _) => "dir",
        (_, _, true) => "file",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use wire::rexd::v1::codes;

    use super::wants_hash;

    #[test]
    fn only_a_sha256_is_computed() {
        assert_eq!(wants_hash(None).ok(), Some(false));
        assert_eq!(wants_hash(Some("sha256")).ok(), Some(true));
        for other in ["xxh128", "md5", "SHA256", ""] {
            let error = wants_hash(Some(other)).expect_err(other);
            assert_eq!(
                (error.code, &error.data["field"]),
                (codes::INVALID_PARAMS, &"hash".into()),
                "{other}"
            );
        }
    }
}
