//! Trees of files: walking through them, and hearing when something that was missing appears.

use serde::{Deserialize, Serialize};

use super::FileSystemSandboxContext;

/// Lists a tree.
pub const FS_WALK: &str = "fs/walk";
/// Asks to be told when something appears.
pub const FS_WATCH_MISSING: &str = "fs/watchMissing";
/// Tells that it did.
pub const FS_MISSING_CHANGED: &str = "fs/missingChanged";

/// Params of `fs/walk`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct FsWalkParams {
    /// Where to begin.
    pub path: String,
    /// How far to go.
    pub options: FsWalkOptions,
    /// What confines the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<FileSystemSandboxContext>,
}

/// How far a walk goes.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FsWalkOptions {
    /// Levels.
    pub max_depth: u64,
    /// Directories that are opened.
    pub max_directories: u64,
    /// Entries that are told.
    pub max_entries: u64,
    /// Whether links to directories are entered.
    pub follow_directory_symlinks: bool,
    /// Whether directories whose name begins with a dot are left out.
    #[serde(default)]
    pub prune_hidden_directories: bool,
}

/// Result of `fs/walk`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct FsWalkResponse {
    /// What was found.
    pub entries: Vec<FsWalkEntry>,
    /// What could not be looked at.
    pub errors: Vec<FsWalkError>,
    /// Whether there is more.
    pub truncated: bool,
}

/// Something a walk found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FsWalkEntry {
    /// A `file:` URI.
    pub path: String,
    /// What it is.
    pub kind: FsWalkKind,
}

/// What a walk found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FsWalkKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
}

/// What a walk could not look at.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FsWalkError {
    /// A `file:` URI.
    pub path: String,
    /// Why.
    pub message: String,
}

/// Params of `fs/watchMissing`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FsWatchMissingParams {
    /// What the caller calls the watch.
    pub watch_id: i64,
    /// What is missing and may appear.
    pub missing: Vec<String>,
    /// What is there and may vanish.
    #[serde(default)]
    pub present: Option<String>,
}

/// Result of `fs/watchMissing`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FsWatchMissingResponse {
    /// Whether it is watched.
    pub watching: bool,
}

/// Params of `fs/missingChanged`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FsMissingChangedNotification {
    /// Which watch.
    pub watch_id: i64,
}
