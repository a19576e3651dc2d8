//! Results of `fs.*`. Times are integer milliseconds since the epoch.

use serde::{Deserialize, Serialize};

/// `fs.read`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FsReadResult {
    /// The file, absolute and cleaned.
    pub path: String,
    /// Its full size.
    pub size: u64,
    /// When it was last changed.
    pub mtime: i64,
    /// `utf8` or `base64`.
    pub encoding: String,
    /// The bytes, in that encoding.
    pub content: String,
    /// Whether there is more after them.
    pub truncated: bool,
    /// The hash of the bytes, if it was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    /// The file's mode as `ls` shows it, if the hash was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
}

/// `fs.write`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FsWriteResult {
    /// The file, absolute and cleaned.
    pub path: String,
    /// Bytes written, after decoding.
    pub bytes_written: u64,
    /// When it was last changed.
    pub mtime: i64,
    /// Whether it is new.
    pub created: bool,
    /// The hash of the bytes written, if it was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
}

/// `fs.edit`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FsEditResult {
    /// The file, absolute and cleaned.
    pub path: String,
    /// Its size now.
    pub bytes_written: u64,
    /// When it was last changed.
    pub mtime: i64,
    /// Whether it is new.
    pub created: bool,
    /// How many places were changed.
    pub replacements: u64,
}

/// `fs.patch`: absolute paths.
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

/// One renamed file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Move {
    /// Its path before.
    pub from: String,
    /// Its path now.
    pub to: String,
}

/// `fs.list`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FsListResult {
    /// The directory, absolute and cleaned.
    pub path: String,
    /// What is in it.
    pub entries: Vec<ListEntry>,
    /// Whether there is more; left out when there is not.
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

/// `fs.glob`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FsGlobResult {
    /// Absolute paths, sorted.
    pub matches: Vec<String>,
    /// Whether there is more; left out when there is not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
}

/// `fs.grep`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FsGrepResult {
    /// The lines that match.
    pub matches: Vec<GrepMatch>,
    /// Whether there is more.
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
    /// The path, absolute and cleaned.
    pub path: String,
    /// Whether anything is there.
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
    /// The hash that was asked for, in lower-case hexadecimal digits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    /// How many bytes it was made from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hash_bytes: Option<u64>,
}

/// `fs.watch`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FsWatchResult {
    /// The watch.
    pub watch_id: String,
}
