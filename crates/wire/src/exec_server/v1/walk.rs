//! Directory trees: walks, and watches for missing paths.

use serde::{Deserialize, Serialize};

use super::FileSystemSandboxContext;

/// Lists a directory tree.
pub const FS_WALK: &str = "fs/walk";
/// Requests a notification when a missing path appears.
pub const FS_WATCH_MISSING: &str = "fs/watchMissing";
/// Reports that a missing path appeared.
pub const FS_MISSING_CHANGED: &str = "fs/missingChanged";

/// The params of `fs/walk`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct FsWalkParams {
    /// The directory to start at.
    pub path: String,
    /// The limits of the walk.
    pub options: FsWalkOptions,
    /// The sandbox of the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<FileSystemSandboxContext>,
}

/// The limits of a walk.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FsWalkOptions {
    /// The largest depth.
    pub max_depth: u64,
    /// The largest number of directories.
    pub max_directories: u64,
    /// The largest number of entries.
    pub max_entries: u64,
    /// Whether to follow links to directories.
    pub follow_directory_symlinks: bool,
    /// Whether to skip directories whose name starts with a dot.
    #[serde(default)]
    pub prune_hidden_directories: bool,
}

/// The result of `fs/walk`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct FsWalkResponse {
    /// The entries of the tree.
    pub entries: Vec<FsWalkEntry>,
    /// The paths that could not be read.
    pub errors: Vec<FsWalkError>,
    /// Whether the list is incomplete.
    pub truncated: bool,
}

/// An entry of a walk.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FsWalkEntry {
    /// A `file:` URI.
    pub path: String,
    /// The kind of the entry.
    pub kind: FsWalkKind,
}

/// The kinds of entries of a walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FsWalkKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
}

/// A path that a walk could not read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FsWalkError {
    /// A `file:` URI.
    pub path: String,
    /// The reason.
    pub message: String,
}

/// The params of `fs/watchMissing`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FsWatchMissingParams {
    /// The id that the client chooses.
    pub watch_id: i64,
    /// Missing paths that may appear.
    pub missing: Vec<String>,
    /// An existing path that may be removed.
    #[serde(default)]
    pub present: Option<String>,
}

/// The result of `fs/watchMissing`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FsWatchMissingResponse {
    /// Whether the watch is active.
    pub watching: bool,
}

/// The params of `fs/missingChanged`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FsMissingChangedNotification {
    /// The id of the watch.
    pub watch_id: i64,
}
