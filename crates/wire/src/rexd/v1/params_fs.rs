//! Params of `fs.*`.

use serde::{Deserialize, Serialize};

use super::decode::{mtime, or_default};

/// `fs.read`.
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
    /// `utf8` or `base64`; absent lets the content decide.
    #[serde(default)]
    pub encoding: Option<String>,
    /// `sha256`: hash the bytes that are given, and tell the mode.
    #[serde(default)]
    pub hash: Option<String>,
}

/// `fs.write`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FsWrite {
    /// The session.
    pub session_id: String,
    /// The file.
    pub path: String,
    /// What it holds afterwards, or gains.
    #[serde(default, deserialize_with = "or_default")]
    pub content: String,
    /// `utf8` or `base64`.
    #[serde(default)]
    pub encoding: Option<String>,
    /// `create`, `replace` or `append`; `replace` if absent.
    #[serde(default)]
    pub mode: Option<String>,
    /// Make the directories it needs.
    #[serde(default, deserialize_with = "or_default")]
    pub mkdir_parents: bool,
    /// Replace in one step; yes if absent.
    #[serde(default)]
    pub atomic: Option<bool>,
    /// Only if the file is still this old. Nothing, `null` and 0 ask for no check.
    #[serde(default, deserialize_with = "mtime")]
    pub expected_mtime: Option<i64>,
    /// Two writes with one key are one write.
    #[serde(default)]
    pub idempotency_key: Option<String>,
    /// The permission bits it has afterwards, as octal digits: `0755`.
    #[serde(default)]
    pub permissions: Option<String>,
    /// Whether it is on disk before the answer; the server's configuration decides if absent.
    #[serde(default)]
    pub durable: Option<bool>,
    /// `sha256`: hash the bytes that were taken.
    #[serde(default)]
    pub hash: Option<String>,
}

/// `fs.edit`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FsEdit {
    /// The session.
    pub session_id: String,
    /// The file.
    #[serde(default, deserialize_with = "or_default")]
    pub path: String,
    /// What to replace; empty replaces or creates the whole file.
    #[serde(default, deserialize_with = "or_default")]
    pub old_string: String,
    /// With what.
    #[serde(default, deserialize_with = "or_default")]
    pub new_string: String,
    /// Every occurrence, not the only one.
    #[serde(default, deserialize_with = "or_default")]
    pub replace_all: bool,
    /// Only if the file is still this old.
    #[serde(default, deserialize_with = "mtime")]
    pub expected_mtime: Option<i64>,
    /// Two edits with one key are one edit.
    #[serde(default)]
    pub idempotency_key: Option<String>,
}

/// `fs.patch`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FsPatch {
    /// The session.
    pub session_id: String,
    /// The envelope.
    #[serde(default, deserialize_with = "or_default")]
    pub patch_text: String,
    /// Where its relative paths start.
    #[serde(default)]
    pub cwd: Option<String>,
    /// Two patches with one key are one patch.
    #[serde(default)]
    pub idempotency_key: Option<String>,
}

/// `fs.list`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FsList {
    /// The session.
    pub session_id: String,
    /// The directory; empty is the session's.
    #[serde(default, deserialize_with = "or_default")]
    pub path: String,
    /// With everything below.
    #[serde(default, deserialize_with = "or_default")]
    pub recursive: bool,
    /// How many at most.
    #[serde(default)]
    pub max_entries: Option<i64>,
    /// Leave out size and mtime.
    #[serde(default, deserialize_with = "or_default")]
    pub names_only: bool,
}

/// `fs.glob`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FsGlob {
    /// The session.
    pub session_id: String,
    /// What to match.
    pub pattern: String,
    /// Where it starts; the session's directory if absent.
    #[serde(default)]
    pub cwd: Option<String>,
    /// How many at most.
    #[serde(default)]
    pub max_matches: Option<i64>,
}

/// `fs.grep`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FsGrep {
    /// The session.
    pub session_id: String,
    /// A regular expression, or plain text with `literal`.
    pub pattern: String,
    /// File or directory; the session's directory if absent.
    #[serde(default)]
    pub path: Option<String>,
    /// Take the pattern as it is written.
    #[serde(default, deserialize_with = "or_default")]
    pub literal: bool,
    /// `smart`, `sensitive` or `insensitive`.
    #[serde(default)]
    pub case: Option<String>,
    /// Only files that match one of these globs.
    #[serde(default, deserialize_with = "or_default")]
    pub include: Vec<String>,
    /// No files that match one of these globs.
    #[serde(default, deserialize_with = "or_default")]
    pub exclude: Vec<String>,
    /// Lines shown before a match.
    #[serde(default)]
    pub before: Option<i64>,
    /// Lines shown after a match.
    #[serde(default)]
    pub after: Option<i64>,
    /// Dot files too.
    #[serde(default, deserialize_with = "or_default")]
    pub hidden: bool,
    /// Ignored files too.
    #[serde(default, deserialize_with = "or_default")]
    pub no_ignore: bool,
    /// How many at most.
    #[serde(default)]
    pub max_matches: Option<i64>,
}

/// `fs.stat`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FsStat {
    /// The session.
    pub session_id: String,
    /// What to look at; empty is the session's directory.
    #[serde(default, deserialize_with = "or_default")]
    pub path: String,
    /// `sha256`: hash what the file holds.
    #[serde(default)]
    pub hash: Option<String>,
    /// Hash only so many bytes from its beginning; 0 or absent means all.
    #[serde(default)]
    pub hash_bytes: Option<i64>,
}

/// `fs.mkdir`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FsMkdir {
    /// The session.
    pub session_id: String,
    /// The directory.
    pub path: String,
    /// Make the directories above it too.
    #[serde(default, deserialize_with = "or_default")]
    pub parents: bool,
    /// Two calls with one key are one call.
    #[serde(default)]
    pub idempotency_key: Option<String>,
}

/// `fs.remove`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FsRemove {
    /// The session.
    pub session_id: String,
    /// What goes.
    pub path: String,
    /// With everything below.
    #[serde(default, deserialize_with = "or_default")]
    pub recursive: bool,
    /// Two calls with one key are one call.
    #[serde(default)]
    pub idempotency_key: Option<String>,
}

/// `fs.rename`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FsRename {
    /// The session.
    pub session_id: String,
    /// What moves.
    pub from: String,
    /// Its new path.
    pub to: String,
    /// Replace what is there.
    #[serde(default, deserialize_with = "or_default")]
    pub overwrite: bool,
    /// Two calls with one key are one call.
    #[serde(default)]
    pub idempotency_key: Option<String>,
}

/// `fs.copy`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FsCopy {
    /// The session.
    pub session_id: String,
    /// What is copied.
    pub from: String,
    /// Where to.
    pub to: String,
    /// With everything below.
    #[serde(default, deserialize_with = "or_default")]
    pub recursive: bool,
    /// Replace what is there.
    #[serde(default, deserialize_with = "or_default")]
    pub overwrite: bool,
    /// Two calls with one key are one call.
    #[serde(default)]
    pub idempotency_key: Option<String>,
}

/// `fs.watch`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FsWatch {
    /// The session.
    pub session_id: String,
    /// File or directory.
    pub path: String,
    /// With everything below; yes if absent.
    #[serde(default)]
    pub recursive: Option<bool>,
}

/// `fs.unwatch`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FsUnwatch {
    /// The session.
    pub session_id: String,
    /// The watch.
    pub watch_id: String,
}
