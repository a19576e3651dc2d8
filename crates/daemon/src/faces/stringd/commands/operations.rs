//! Operations of a command on files, programs and web servers. Each is a request to the topic's session, so that roots,
//! rules, approvals, sandbox and audit apply to it.

use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::super::errors::{OperationError, operation_error};
use super::super::methods::params::{self, name};
pub use super::super::methods::params::{
    DirEntry, DirListing, EntryKind, HttpCall, HttpReply, ShellCommand, ShellOutput,
};
use super::CommandContext;

/// A file to write.
#[derive(Debug, Clone)]
pub struct WriteFile<'a> {
    /// Where, absolute.
    pub path: &'a Path,
    /// Its new content.
    pub content: &'a [u8],
    /// Whether missing directories are created.
    pub creates_parents: bool,
    /// Whether only the OS user may read it (mode 0600).
    pub is_private: bool,
}

impl CommandContext {
    /// The text of a file; bytes that are not UTF-8 become U+FFFD.
    pub async fn read(&self, path: &Path) -> Result<String, OperationError> {
        self.read_bytes(path).await.map(text)
    }

    /// The text of a file that must lie in a directory, links followed.
    pub async fn read_inside(&self, directory: &Path, path: &Path) -> Result<String, OperationError> {
        let params = params::FilePath { path: path.to_owned(), inside: Some(directory.to_owned()) };
        self.read_file(&params).await.map(text)
    }

    /// The exact content of a file.
    pub async fn read_bytes(&self, path: &Path) -> Result<Vec<u8>, OperationError> {
        self.read_file(&params::FilePath { path: path.to_owned(), inside: None }).await
    }

    async fn read_file(&self, params: &params::FilePath) -> Result<Vec<u8>, OperationError> {
        let content: String = self.call(name::FILE_READ, params).await?;
        wire::base64::decode(&content).map_err(|error| OperationError::Failed(error.to_string()))
    }

    /// What is at a path, links followed; `None` if nothing is there.
    pub async fn kind(&self, path: &Path) -> Result<Option<EntryKind>, OperationError> {
        self.call(name::FILE_STAT, &params::FilePath { path: path.to_owned(), inside: None }).await
    }

    /// The entries of a directory.
    pub async fn list(&self, path: &Path) -> Result<DirListing, OperationError> {
        self.call(name::FILE_LIST, &params::FilePath { path: path.to_owned(), inside: None }).await
    }

    /// Replaces or creates a file atomically.
    pub async fn write(&self, file: WriteFile<'_>) -> Result<(), OperationError> {
        let params = params::FileWrite {
            path: file.path.to_owned(),
            content: wire::base64::encode(file.content),
            creates_parents: file.creates_parents,
            is_private: file.is_private,
        };
        self.call(name::FILE_WRITE, &params).await
    }

    /// Removes a file, or a directory with everything below it.
    pub async fn remove(&self, path: &Path, recursive: bool) -> Result<(), OperationError> {
        let params = params::FileRemove { path: PathBuf::from(path), recursive };
        self.call(name::FILE_REMOVE, &params).await
    }

    /// Runs a command line in `/bin/bash -c` to its end; after the command timeout its whole tree is ended and the
    /// status is 124.
    pub async fn run(&self, command: ShellCommand) -> Result<ShellOutput, OperationError> {
        self.call(name::COMMAND_RUN, &command).await
    }

    /// Sends an HTTP request and reads the whole reply.
    pub async fn http(&self, call: HttpCall) -> Result<HttpReply, OperationError> {
        self.call(name::HTTP_REQUEST, &call).await
    }

    pub(super) async fn call<R: DeserializeOwned>(
        &self,
        method: &'static str,
        params: &(impl Serialize + Sync),
    ) -> Result<R, OperationError> {
        self.session.call(&self.face, method, params).await.map_err(operation_error)
    }
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}
