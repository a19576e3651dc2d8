//! The parameters and results of internal requests: what a command does to files, programs and web servers.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The names of internal requests, in the audit and in metrics.
pub(in crate::faces::stringd) mod name {
    pub(in crate::faces::stringd) const FILE_READ: &str = "file.read";
    pub(in crate::faces::stringd) const FILE_STAT: &str = "file.stat";
    pub(in crate::faces::stringd) const FILE_LIST: &str = "file.list";
    pub(in crate::faces::stringd) const FILE_WRITE: &str = "file.write";
    pub(in crate::faces::stringd) const FILE_REMOVE: &str = "file.remove";
    pub(in crate::faces::stringd) const COMMAND_RUN: &str = "command.run";
    pub(in crate::faces::stringd) const SHELL_INPUT: &str = "shell.input";
    pub(in crate::faces::stringd) const HTTP_REQUEST: &str = "http.request";
}

/// A file or directory.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct FilePath {
    /// Absolute.
    pub path: PathBuf,
    /// A directory that it must lie in, links followed.
    pub inside: Option<PathBuf>,
}

/// A file to write.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct FileWrite {
    /// Absolute.
    pub path: PathBuf,
    /// Base64.
    pub content: String,
    /// Whether missing directories are created.
    pub creates_parents: bool,
    /// Whether its mode is 0600.
    pub is_private: bool,
    /// Directories above it that are created with the mode 0700, the uppermost first.
    pub private_directories: Vec<PathBuf>,
}

/// A file or directory to remove.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct FileRemove {
    /// Absolute.
    pub path: PathBuf,
    /// Whether everything below it is removed too.
    pub recursive: bool,
}

/// What is at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum EntryKind {
    /// A directory.
    Dir,
    /// A regular file.
    File,
    /// Something else, such as a socket.
    Other,
}

/// An entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirEntry {
    /// Its name.
    pub name: String,
    /// Whether it is a directory, links followed.
    pub is_dir: bool,
}

/// The entries of a directory.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirListing {
    /// Without order.
    pub entries: Vec<DirEntry>,
    /// Whether entries were left out, because there are too many.
    pub is_truncated: bool,
}

/// A command line for bash.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ShellCommand {
    /// The text.
    pub text: String,
    /// The directory it starts in, absolute.
    pub cwd: PathBuf,
    /// Variables beside the inherited ones.
    pub env: Vec<(String, String)>,
}

/// How a command line ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShellOutput {
    /// Its exit status; 128 plus the signal, or 124 after the timeout.
    pub status: i32,
    /// Standard output and error in the order in which they were written, without trailing blanks.
    pub output: String,
}

/// A request to a web server.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct HttpCall {
    /// The method.
    pub method: String,
    /// The whole URL.
    pub url: String,
    /// The headers.
    pub headers: Vec<(String, String)>,
    /// The body, if there is one.
    pub body: Option<String>,
}

/// The reply of a web server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HttpReply {
    /// The status.
    pub status: u16,
    /// The content type, in lower case; empty if there is none.
    pub content_type: String,
    /// The body as text; bytes that are not UTF-8 become U+FFFD.
    pub body: String,
}
