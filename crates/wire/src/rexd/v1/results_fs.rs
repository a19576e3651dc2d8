//! Results of `fs.*`. Times are integer milliseconds since the epoch.

use serde::{Deserialize, Serialize};

/// The result of `fs.read`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FsReadResult {
    /// The absolute, normalized path.
    pub path: String,
    /// Its full size.
    pub size: u64,
    /// When it was last changed.
    pub mtime: i64,
    /// `utf8` or `base64`.
    pub encoding: String,
    /// The bytes, in that encoding.
    pub content: String,
    /// Whether the file continues after them.
    pub truncated: bool,
    /// The hash of the bytes, if it was requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    /// The mode as `ls` shows it, if the hash was requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
}

/// The result of `fs.write`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FsWriteResult {
    /// The absolute, normalized path.
    pub path: String,
    /// Bytes written, after decoding.
    pub bytes_written: u64,
    /// When it was last changed.
    pub mtime: i64,
    /// Whether it is new.
    pub created: bool,
    /// The hash of the written bytes, if it was requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
}

/// The result of `fs.edit`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FsEditResult {
    /// The absolute, normalized path.
    pub path: String,
    /// Its size now.
    pub bytes_written: u64,
    /// When it was last changed.
    pub mtime: i64,
    /// Whether it is new.
    pub created: bool,
    /// The number of replacements.
    pub replacements: u64,
}

/// The result of `fs.patch`, with absolute paths.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FsPatchResult {
    /// New files.
    pub added: Vec<String>,
    /// Changed files.
    pub updated: Vec<String>,
    /// Removed files.
    pub deleted: Vec<String>,
    /// Renamed files; left out when there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub moved: Vec<Move>,
}

/// One file that was renamed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Move {
    /// Its path before.
    pub from: String,
    /// Its path now.
    pub to: String,
}

/// The result of `fs.list`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FsListResult {
    /// The absolute, normalized path.
    pub path: String,
    /// The entries of the directory.
    pub entries: Vec<ListEntry>,
    /// Whether the list is incomplete; left out when false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
}

/// One entry of a directory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ListEntry {
    /// Its name.
    pub name: String,
    /// Its path.
    pub path: String,
    /// `file`, `dir`, `symlink` or `other`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Bytes, for files.
    pub size: Option<u64>,
    /// When it was last changed.
    pub mtime: Option<i64>,
}

/// The result of `fs.glob`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FsGlobResult {
    /// Absolute paths, sorted.
    pub matches: Vec<String>,
    /// Whether the list is incomplete; left out when false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
}

/// The result of `fs.grep`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FsGrepResult {
    /// The lines that match.
    pub matches: Vec<GrepMatch>,
    /// Whether the list is incomplete.
    pub truncated: bool,
}

/// One line that matches.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GrepMatch {
    /// The file.
    pub path: String,
    /// The line, from 1.
    pub line: u64,
    /// The byte within the line, from 1.
    pub column: u64,
    /// The line without its end.
    pub text: String,
    /// Lines before it.
    #[serde(default)]
    pub before: Vec<String>,
    /// Lines after it.
    #[serde(default)]
    pub after: Vec<String>,
}

/// `fs.stat`; of a missing file only `path` and `exists`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FsStatResult {
    /// The absolute, normalized path.
    pub path: String,
    /// Whether the path exists.
    pub exists: bool,
    /// `file`, `dir`, `symlink` or `other`.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// When it was last changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mtime: Option<i64>,
    /// As `ls` shows it: `-rw-r--r--`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// Its owner.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// Its group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gid: Option<u32>,
    /// The text of the link, if it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub symlink_target: Option<String>,
    /// The requested hash, in lower-case hexadecimal digits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    /// The number of hashed bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hash_bytes: Option<u64>,
}

/// The result of `fs.watch`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FsWatchResult {
    /// The watch.
    pub watch_id: String,
}
