//! Writes files: replace, create, append, permissions and hash.

use bytes::Bytes;
use sha2::{Digest as _, Sha256};
use wire::exec_server::v1::{FsHandle, FsOpenMode, FsOpenParams, FsWriteBlockParams, FsWriteFileParams};
use wire::exec_server::{ByteChunk, code};
use wire::rexd::v1::{self, RpcError};

use super::read::wants_hash;
use super::{Bridge, errors};
use crate::exec_server::error::ExecServerError;

/// Bytes that are written in one message: released servers close a connection with a frame above 16 MiB.
const MAX_MESSAGE_BYTES: usize = 8 * 1024 * 1024;
/// Bytes of one block; the limit of the protocol.
const BLOCK_BYTES: usize = 1024 * 1024;
/// Appends `$1` bytes of its input to `$2`; the input cannot be closed.
const APPEND: &str = r#"exec head -c "$1" >> "$2""#;

impl Bridge {
    pub(super) async fn fs_write(&self, params: v1::FsWrite) -> Result<v1::FsWriteResult, RpcError> {
        let path = self.path(&params.path);
        let bytes = decode_content(params.content, params.encoding.as_deref())?;
        let is_hashed = wants_hash(params.hash.as_deref())?;
        let before = self.metadata(&path).await?;
        if let Some(expected) = params.expected_mtime {
            let found = before.as_ref().map(|found| found.modified_at_ms);
            if found != Some(expected) {
                return Err(errors::mtime_conflict(&path, Some(expected), found));
            }
        }
        let hash = is_hashed.then(|| hex::encode(Sha256::digest(&bytes)));
        let bytes_written = bytes.len() as u64;
        match params.mode.as_deref() {
            None | Some("replace") => self.replace(&path, bytes, params.mkdir_parents).await?,
            Some("create") if before.is_some() => return Err(errors::already_exists(&path)),
            Some("create") => self.replace(&path, bytes, params.mkdir_parents).await?,
            Some("append") if before.is_none() => self.replace(&path, bytes, params.mkdir_parents).await?,
            Some("append") => self.append(&path, bytes).await?,
            Some(_) => return Err(errors::invalid_field("mode", "expected create, replace or append")),
        }
        if let Some(permissions) = &params.permissions {
            if permissions.is_empty() || !permissions.bytes().all(|digit| (b'0'..b'8').contains(&digit)) {
                return Err(errors::invalid_field("permissions", "expected octal digits, like 0755"));
            }
            self.run_command(&["chmod", permissions, "--", &path], None).await?;
        }
        let mtime = self.metadata(&path).await?.map_or(0, |found| found.modified_at_ms);
        Ok(v1::FsWriteResult { path, bytes_written, mtime, created: before.is_none(), hash })
    }

    /// Replaces the whole content; with `parents` creates missing directories.
    pub(super) async fn replace(&self, path: &str, bytes: Bytes, parents: bool) -> Result<(), RpcError> {
        let written = self.replace_once(path, &bytes).await;
        let is_missing = written.as_ref().is_err_and(|error| error.code() == Some(code::NOT_FOUND));
        let Some((directory, _)) = path.rsplit_once('/').filter(|_| is_missing && parents) else {
            return written.map_err(|error| self.translate_file(error, path));
        };
        self.create_directory(if directory.is_empty() { "/" } else { directory }, true).await?;
        self.replace_once(path, &bytes).await.map_err(|error| self.translate_file(error, path))
    }

    async fn replace_once(&self, path: &str, bytes: &Bytes) -> Result<(), ExecServerError> {
        if bytes.len() > MAX_MESSAGE_BYTES {
            return self.replace_by_blocks(path, bytes).await;
        }
        let params = FsWriteFileParams {
            path: self.remote_path(path),
            data_base64: wire::base64::encode(bytes),
            ..FsWriteFileParams::default()
        };
        self.client.fs_write_file(params).await
    }

    async fn replace_by_blocks(&self, path: &str, bytes: &Bytes) -> Result<(), ExecServerError> {
        let handle_id = self.client.unique_name();
        let open = FsOpenParams {
            path: self.remote_path(path),
            handle_id: handle_id.clone(),
            mode: FsOpenMode::Replace,
            sandbox: None,
        };
        self.client.fs_open(open).await?;
        for (number, block) in bytes.chunks(BLOCK_BYTES).enumerate() {
            let params = FsWriteBlockParams {
                handle_id: handle_id.clone(),
                offset: (number * BLOCK_BYTES) as u64,
                chunk: ByteChunk(bytes.slice_ref(block)),
            };
            self.client.fs_write_block(params).await?;
        }
        self.client.fs_close(FsHandle { handle_id }).await
    }

    /// exec-server has no method for it: a command appends exactly these bytes.
    async fn append(&self, path: &str, bytes: Bytes) -> Result<(), RpcError> {
        if bytes.is_empty() {
            return Ok(());
        }
        let length = bytes.len().to_string();
        self.run_command(&["sh", "-c", APPEND, "sh", &length, path], Some(bytes)).await.map(drop)
    }
}

fn decode_content(content: String, encoding: Option<&str>) -> Result<Bytes, RpcError> {
    match encoding {
        None | Some("utf8") => Ok(content.into_bytes().into()),
        Some("base64") => wire::base64::decode(&content)
            .map(Bytes::from)
            .map_err(|_| errors::invalid_field("content", "invalid base64")),
        Some(_) => Err(errors::invalid_field("encoding", "expected utf8 or base64")),
    }
}
