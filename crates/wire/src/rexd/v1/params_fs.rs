//! Params of `fs.*`.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::decode::{mtime, or_default};
use crate::binary::as_base64;

/// The params of `fs.read`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FsRead {
    /// The session.
    pub session_id: String,
    /// The file.
    pub path: String,
    /// First byte.
    #[serde(default)]
    pub offset: Option<i64>,
    /// How many bytes; 0 or absent means up to the limit.
    #[serde(default)]
    pub length: Option<i64>,
    /// `utf8` or `base64`, or `binary` in a session with binary frames; absent lets the content decide.
    #[serde(default)]
    pub encoding: Option<String>,
    /// `sha256` or `xxh128` requests the hash of the returned bytes and the mode.
    #[serde(default)]
    pub hash: Option<String>,
}

/// The params of `fs.write`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FsWrite {
    /// The session.
    pub session_id: String,
    /// The file.
    pub path: String,
    /// The new content, or the content to append.
    #[serde(default, deserialize_with = "or_default")]
    pub content: String,
    /// `utf8`, `base64`, or `binary` for the payload of a binary message.
    #[serde(default)]
    pub encoding: Option<String>,
    /// `create`, `replace` or `append`; `replace` if absent.
    #[serde(default)]
    pub mode: Option<String>,
    /// Whether to create missing parent directories.
    #[serde(default, deserialize_with = "or_default")]
    pub mkdir_parents: bool,
    /// Whether to replace atomically, and to append in one write; true if absent.
    #[serde(default)]
    pub atomic: Option<bool>,
    /// Fail if the file has another modification time. Absent, `null` and 0 request no check.
    #[serde(default, deserialize_with = "mtime")]
    pub expected_mtime: Option<i64>,
    /// A second write with this key is not performed.
    #[serde(default)]
    pub idempotency_key: Option<String>,
    /// The permission bits to set, as octal digits: `0755`.
    #[serde(default)]
    pub permissions: Option<String>,
    /// Whether to sync to disk before the response; the server's configuration decides if absent.
    #[serde(default)]
    pub durable: Option<bool>,
    /// `sha256` or `xxh128` requests the hash of the written bytes.
    #[serde(default)]
    pub hash: Option<String>,
    /// The modification time of the file, in milliseconds since the epoch; the time of the write if absent.
    #[serde(default)]
    pub mtime: Option<i64>,
    /// The payload of a binary message; it takes the place of `content`.
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none", serialize_with = "as_base64")]
    pub payload: Option<Bytes>,
}

/// The params of `fs.edit`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FsEdit {
    /// The session.
    pub session_id: String,
    /// The file.
    #[serde(default, deserialize_with = "or_default")]
    pub path: String,
    /// The text to replace; empty replaces or creates the whole file.
    #[serde(default, deserialize_with = "or_default")]
    pub old_string: String,
    /// The new text.
    #[serde(default, deserialize_with = "or_default")]
    pub new_string: String,
    /// Whether to replace every occurrence.
    #[serde(default, deserialize_with = "or_default")]
    pub replace_all: bool,
    /// Fail if the file has another modification time.
    #[serde(default, deserialize_with = "mtime")]
    pub expected_mtime: Option<i64>,
    /// A second edit with this key is not performed.
    #[serde(default)]
    pub idempotency_key: Option<String>,
}

/// The params of `fs.patch`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FsPatch {
    /// The session.
    pub session_id: String,
    /// The text of the patch.
    #[serde(default, deserialize_with = "or_default")]
    pub patch_text: String,
    /// The directory that its relative paths start at.
    #[serde(default)]
    pub cwd: Option<String>,
    /// A second patch with this key is not performed.
    #[serde(default)]
    pub idempotency_key: Option<String>,
}

/// The params of `fs.list`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FsList {
    /// The session.
    pub session_id: String,
    /// The directory; empty is the session's.
    #[serde(default, deserialize_with = "or_default")]
    pub path: String,
    /// Whether to include everything below.
    #[serde(default, deserialize_with = "or_default")]
    pub recursive: bool,
    /// The largest number of entries.
    #[serde(default)]
    pub max_entries: Option<i64>,
    /// Whether to leave out size and mtime.
    #[serde(default, deserialize_with = "or_default")]
    pub names_only: bool,
}

/// The params of `fs.glob`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FsGlob {
    /// The session.
    pub session_id: String,
    /// The glob pattern.
    pub pattern: String,
    /// The directory to start at; the session's directory if absent.
    #[serde(default)]
    pub cwd: Option<String>,
    /// The largest number of entries.
    #[serde(default)]
    pub max_matches: Option<i64>,
}

/// The params of `fs.grep`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FsGrep {
    /// The session.
    pub session_id: String,
    /// A regular expression, or plain text with `literal`.
    pub pattern: String,
    /// File or directory; the session's directory if absent.
    #[serde(default)]
    pub path: Option<String>,
    /// Whether the pattern is plain text.
    #[serde(default, deserialize_with = "or_default")]
    pub literal: bool,
    /// `smart`, `sensitive` or `insensitive`.
    #[serde(default)]
    pub case: Option<String>,
    /// Globs of the files to search.
    #[serde(default, deserialize_with = "or_default")]
    pub include: Vec<String>,
    /// Globs of the files to skip.
    #[serde(default, deserialize_with = "or_default")]
    pub exclude: Vec<String>,
    /// Whether a match may span lines.
    #[serde(default, deserialize_with = "or_default")]
    pub multiline: bool,
    /// Lines shown before a match.
    #[serde(default)]
    pub before: Option<i64>,
    /// Lines shown after a match.
    #[serde(default)]
    pub after: Option<i64>,
    /// Whether to search hidden files.
    #[serde(default, deserialize_with = "or_default")]
    pub hidden: bool,
    /// Whether to search ignored files.
    #[serde(default, deserialize_with = "or_default")]
    pub no_ignore: bool,
    /// The largest number of entries.
    #[serde(default)]
    pub max_matches: Option<i64>,
}

/// The params of `fs.stat`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FsStat {
    /// The session.
    pub session_id: String,
    /// The path; empty is the session's directory.
    #[serde(default, deserialize_with = "or_default")]
    pub path: String,
    /// `sha256` or `xxh128` requests the hash of the content.
    #[serde(default)]
    pub hash: Option<String>,
    /// The number of bytes to hash from the beginning; 0 or absent means all.
    #[serde(default)]
    pub hash_bytes: Option<i64>,
}

/// The params of `fs.mkdir`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FsMkdir {
    /// The session.
    pub session_id: String,
    /// The directory.
    pub path: String,
    /// Whether to create missing parent directories.
    #[serde(default, deserialize_with = "or_default")]
    pub parents: bool,
    /// The mode of the directory in octal digits, also if it exists already; that of created parents is the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permissions: Option<String>,
    /// A second call with this key is not performed.
    #[serde(default)]
    pub idempotency_key: Option<String>,
}

/// The params of `fs.remove`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FsRemove {
    /// The session.
    pub session_id: String,
    /// The file or directory to remove.
    pub path: String,
    /// Whether to include everything below.
    #[serde(default, deserialize_with = "or_default")]
    pub recursive: bool,
    /// A second call with this key is not performed.
    #[serde(default)]
    pub idempotency_key: Option<String>,
}

/// The params of `fs.rename`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FsRename {
    /// The session.
    pub session_id: String,
    /// The path to rename.
    pub from: String,
    /// Its new path.
    pub to: String,
    /// Whether to replace an existing target.
    #[serde(default, deserialize_with = "or_default")]
    pub overwrite: bool,
    /// A second call with this key is not performed.
    #[serde(default)]
    pub idempotency_key: Option<String>,
}

/// The params of `fs.copy`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FsCopy {
    /// The session.
    pub session_id: String,
    /// The path to copy.
    pub from: String,
    /// The path of the copy.
    pub to: String,
    /// Whether to include everything below.
    #[serde(default, deserialize_with = "or_default")]
    pub recursive: bool,
    /// Whether to replace an existing target.
    #[serde(default, deserialize_with = "or_default")]
    pub overwrite: bool,
    /// A second call with this key is not performed.
    #[serde(default)]
    pub idempotency_key: Option<String>,
}

/// The params of `fs.symlink`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FsSymlink {
    /// The session.
    pub session_id: String,
    /// The path of the symlink.
    pub path: String,
    /// The text of the symlink.
    pub target: String,
    /// A second call with this key is not performed.
    #[serde(default)]
    pub idempotency_key: Option<String>,
}

/// The params of `fs.watch`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FsWatch {
    /// The session.
    pub session_id: String,
    /// File or directory.
    pub path: String,
    /// Whether to include everything below; true if absent.
    #[serde(default)]
    pub recursive: Option<bool>,
}

/// The params of `fs.unwatch`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FsUnwatch {
    /// The session.
    pub session_id: String,
    /// The watch.
    pub watch_id: String,
}
