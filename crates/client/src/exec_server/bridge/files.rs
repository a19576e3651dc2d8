//! Creates directories; removes, renames and copies files and directories.

use wire::exec_server::v1::{FsCopyParams, FsCreateDirectoryParams, FsRemoveParams};
use wire::rexd::v1::{self, OkResult, RpcError};

use super::{Bridge, errors};

impl Bridge {
    pub(super) async fn fs_mkdir(&self, params: v1::FsMkdir) -> Result<OkResult, RpcError> {
        self.create_directory(&self.path(&params.path), params.parents).await?;
        Ok(OkResult::DONE)
    }

    pub(super) async fn create_directory(&self, path: &str, parents: bool) -> Result<(), RpcError> {
        let params = FsCreateDirectoryParams {
            path: self.remote_path(path),
            recursive: Some(parents),
            ..FsCreateDirectoryParams::default()
        };
        self.client.fs_create_directory(params).await.map_err(|error| self.translate_file(error, path))
    }

    pub(super) async fn fs_remove(&self, params: v1::FsRemove) -> Result<OkResult, RpcError> {
        let path = self.path(&params.path);
        let params = FsRemoveParams {
            path: self.remote_path(&path),
            recursive: Some(params.recursive),
            force: Some(false),
            ..FsRemoveParams::default()
        };
        self.client.fs_remove(params).await.map_err(|error| self.translate_file(error, &path))?;
        Ok(OkResult::DONE)
    }

    /// exec-server has no method for it; `mv` renames atomically.
    pub(super) async fn fs_rename(&self, params: v1::FsRename) -> Result<OkResult, RpcError> {
        let (from, to) = (self.path(&params.from), self.path(&params.to));
        if self.metadata(&from).await?.is_none() {
            return Err(errors::not_found(&from));
        }
        if !params.overwrite {
            self.ensure_absent(&to).await?;
        }
        self.run_command(&["mv", "-fT", "--", &from, &to], None).await?;
        Ok(OkResult::DONE)
    }

    pub(super) async fn fs_copy(&self, params: v1::FsCopy) -> Result<OkResult, RpcError> {
        let (from, to) = (self.path(&params.from), self.path(&params.to));
        if !params.overwrite {
            self.ensure_absent(&to).await?;
        }
        let params = FsCopyParams {
            source_path: self.remote_path(&from),
            destination_path: self.remote_path(&to),
            recursive: params.recursive,
            sandbox: None,
        };
        self.client.fs_copy(params).await.map_err(|error| self.translate_file(error, &from))?;
        Ok(OkResult::DONE)
    }
}
