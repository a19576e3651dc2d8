//! Directories and whole paths: making, removing, renaming, copying.

use wire::exec_server::v1::{FsCopyParams, FsCreateDirectoryParams, FsRemoveParams};
use wire::rexd::v1::{self, OkResult, RpcError};

use super::{Bridge, refusal};

impl Bridge {
    pub(super) async fn fs_mkdir(&self, ask: v1::FsMkdir) -> Result<OkResult, RpcError> {
        self.make_directory(&self.path(&ask.path), ask.parents).await?;
        Ok(OkResult::DONE)
    }

    pub(super) async fn make_directory(&self, path: &str, parents: bool) -> Result<(), RpcError> {
        let params = FsCreateDirectoryParams {
            path: self.there(path),
            recursive: Some(parents),
            ..FsCreateDirectoryParams::default()
        };
        self.client.fs_create_directory(params).await.map_err(|error| self.wrong_file(error, path))
    }

    pub(super) async fn fs_remove(&self, ask: v1::FsRemove) -> Result<OkResult, RpcError> {
        let path = self.path(&ask.path);
        let params = FsRemoveParams {
            path: self.there(&path),
            recursive: Some(ask.recursive),
            force: Some(false),
            ..FsRemoveParams::default()
        };
        self.client.fs_remove(params).await.map_err(|error| self.wrong_file(error, &path))?;
        Ok(OkResult::DONE)
    }

    /// Exec-server has no word for it; `mv` there does it in one step.
    pub(super) async fn fs_rename(&self, ask: v1::FsRename) -> Result<OkResult, RpcError> {
        let (from, to) = (self.path(&ask.from), self.path(&ask.to));
        if self.metadata(&from).await?.is_none() {
            return Err(refusal::missing(&from));
        }
        if !ask.overwrite {
            self.must_be_free(&to).await?;
        }
        self.tool(&["mv", "-fT", "--", &from, &to], None).await?;
        Ok(OkResult::DONE)
    }

    pub(super) async fn fs_copy(&self, ask: v1::FsCopy) -> Result<OkResult, RpcError> {
        let (from, to) = (self.path(&ask.from), self.path(&ask.to));
        if !ask.overwrite {
            self.must_be_free(&to).await?;
        }
        let params = FsCopyParams {
            source_path: self.there(&from),
            destination_path: self.there(&to),
            recursive: ask.recursive,
            sandbox: None,
        };
        self.client.fs_copy(params).await.map_err(|error| self.wrong_file(error, &from))?;
        Ok(OkResult::DONE)
    }
}
