//! Operations of a command on files, programs and web servers. Each is a request to the topic's session, so that roots,
//! rules, approvals, sandbox and audit apply to it.

use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::super::errors::{OperationError, operation_error};
use super::super::methods::command;
use super::super::methods::params::{self, name};
pub use super::super::methods::params::{
    DirEntry, DirListing, EntryKind, HttpCall, HttpReply, ShellCommand, ShellOutput,
};
use super::CommandContext;
use crate::core::session::Face as _;

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
            private_directories: private_directories(self.home(), file.path),
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

    /// Decides about a text for the shell of the topic.
    pub(super) async fn decide(&self, command: &ShellCommand) -> Result<(), OperationError> {
        let handle = self.session.handle(&self.face).map_err(operation_error)?;
        let roots = self.session.roots(&self.face);
        let home = (&roots, self.home());
        match command::decide_here(self.face.core(), &handle.requester, home, command).await {
            Some(decided) => decided.map_err(operation_error),
            None => self.call(name::SHELL_INPUT, command).await,
        }
    }

    async fn call<R: DeserializeOwned>(
        &self,
        method: &'static str,
        params: &(impl Serialize + Sync),
    ) -> Result<R, OperationError> {
        self.session.call(&self.face, method, params).await.map_err(operation_error)
    }
}

/// The directories of variables and packages that a path of a home goes through, the uppermost first.
fn private_directories(home: &Path, path: &Path) -> Vec<PathBuf> {
    let is_store = ["apps", "packages"].iter().any(|name| path.starts_with(home.join(name)));
    let inside = |directory: &&Path| is_store && directory.starts_with(home) && *directory != home;
    let mut directories: Vec<PathBuf> =
        path.ancestors().skip(1).take_while(inside).map(Path::to_owned).collect();
    directories.reverse();
    directories
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_of_variables_and_packages_are_private() {
        let of = |path: &str| private_directories(Path::new("/h"), Path::new(path));
        let expected: Vec<PathBuf> = ["/h/apps", "/h/apps/a", "/h/apps/a/c"].map(PathBuf::from).to_vec();
        assert_eq!(of("/h/apps/a/c/env.json"), expected);
        for path in ["/h/config.json", "/h/notes/x.md", "/other/apps/x"] {
            assert_eq!(of(path), Vec::<PathBuf>::new(), "{path}");
        }
    }
}
