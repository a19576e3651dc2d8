//! Writing files.

use bytes::Bytes;
use sha2::{Digest as _, Sha256};
use wire::exec_server::v1::{FsHandle, FsOpenMode, FsOpenParams, FsWriteBlockParams, FsWriteFileParams};
use wire::exec_server::{ByteChunk, code};
use wire::rexd::v1::{self, RpcError, codes};

use super::{Bridge, look, refusal};
use crate::exec_server::error::ExecServerError;

/// What is written in one message: released servers drop a connection whose frame is above 16 MiB.
const AT_ONCE: usize = 8 * 1024 * 1024;
/// What one block may hold, by the protocol.
const BLOCK: usize = 1024 * 1024;
/// Takes so many bytes of its input and ends, though the input does not.
const APPEND: &str = r#"exec head -c "$1" >> "$2""#;

impl Bridge {
    pub(super) async fn fs_write(&self, ask: v1::FsWrite) -> Result<v1::FsWriteResult, RpcError> {
        let path = self.path(&ask.path);
        let bytes = decoded(ask.content, ask.encoding.as_deref())?;
        let before = self.metadata(&path).await?;
        if let Some(expected) = ask.expected_mtime {
            let found = before.as_ref().map(|found| found.modified_at_ms);
            if found != Some(expected) {
                let data = serde_json::json!({ "path": path, "expected_mtime": expected, "mtime": found });
                let error = RpcError::new(codes::CONCURRENCY_CONFLICT, "expected mtime does not match");
                return Err(error.with_data(data));
            }
        }
        let hash = ask.hash.as_ref().map(|_| look::hex(&Sha256::digest(&bytes)));
        let bytes_written = bytes.len() as u64;
        match ask.mode.as_deref() {
            None | Some("replace") => self.replace(&path, bytes, ask.mkdir_parents).await?,
            Some("create") if before.is_some() => return Err(refusal::exists(&path)),
            Some("create") => self.replace(&path, bytes, ask.mkdir_parents).await?,
            Some("append") if before.is_none() => self.replace(&path, bytes, ask.mkdir_parents).await?,
            Some("append") => self.append(&path, bytes).await?,
            Some(_) => return Err(refusal::invalid("mode", "it is create, replace or append")),
        }
        if let Some(permissions) = &ask.permissions {
            if permissions.is_empty() || !permissions.bytes().all(|digit| (b'0'..b'8').contains(&digit)) {
                return Err(refusal::invalid("permissions", "they are octal digits"));
            }
            self.tool(&["chmod", permissions, "--", &path], None).await?;
        }
        let mtime = self.metadata(&path).await?.map_or(0, |found| found.modified_at_ms);
        Ok(v1::FsWriteResult { path, bytes_written, mtime, created: before.is_none(), hash })
    }

    /// The whole content, and with `parents` the directories it needs.
    pub(super) async fn replace(&self, path: &str, bytes: Bytes, parents: bool) -> Result<(), RpcError> {
        let written = self.replace_once(path, &bytes).await;
        let is_missing = written.as_ref().is_err_and(|error| error.code() == Some(code::NOT_FOUND));
        let Some((folder, _)) = path.rsplit_once('/').filter(|_| is_missing && parents) else {
            return written.map_err(|error| self.wrong_file(error, path));
        };
        self.make_directory(if folder.is_empty() { "/" } else { folder }, true).await?;
        self.replace_once(path, &bytes).await.map_err(|error| self.wrong_file(error, path))
    }

    async fn replace_once(&self, path: &str, bytes: &Bytes) -> Result<(), ExecServerError> {
        if bytes.len() > AT_ONCE {
            return self.replace_by_blocks(path, bytes).await;
        }
        let params = FsWriteFileParams {
            path: self.there(path),
            data_base64: wire::base64::encode(bytes),
            ..FsWriteFileParams::default()
        };
        self.client.fs_write_file(params).await
    }

    async fn replace_by_blocks(&self, path: &str, bytes: &Bytes) -> Result<(), ExecServerError> {
        let handle_id = self.client.fresh_name();
        let open = FsOpenParams {
            path: self.there(path),
            handle_id: handle_id.clone(),
            mode: FsOpenMode::Replace,
            sandbox: None,
        };
        self.client.fs_open(open).await?;
        for (number, block) in bytes.chunks(BLOCK).enumerate() {
            let params = FsWriteBlockParams {
                handle_id: handle_id.clone(),
                offset: (number * BLOCK) as u64,
                chunk: ByteChunk(bytes.slice_ref(block)),
            };
            self.client.fs_write_block(params).await?;
        }
        self.client.fs_close(FsHandle { handle_id }).await
    }

    /// Exec-server has no word for it: a command there takes exactly these bytes.
    async fn append(&self, path: &str, bytes: Bytes) -> Result<(), RpcError> {
        if bytes.is_empty() {
            return Ok(());
        }
        let length = bytes.len().to_string();
        self.tool(&["sh", "-c", APPEND, "sh", &length, path], Some(bytes)).await.map(drop)
    }
}

fn decoded(content: String, encoding: Option<&str>) -> Result<Bytes, RpcError> {
    match encoding {
        None | Some("utf8") => Ok(content.into_bytes().into()),
        Some("base64") => wire::base64::decode(&content)
            .map(Bytes::from)
            .map_err(|_| refusal::invalid("content", "it is not base64")),
        Some(_) => Err(refusal::invalid("encoding", "it is utf8 or base64")),
    }
}
