//! The sandbox object: what a client wants a process or a file call to be confined to.

use serde::{Deserialize, Serialize};

/// What confines a process or a file call. Paths are native ones or `file:` URIs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FileSystemSandboxContext {
    /// What may be done.
    pub permissions: PermissionProfile,
    /// The directory that project roots are relative to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// The directories that are the project, where the client names them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_roots: Option<Vec<String>>,
    /// For another system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub windows_sandbox_level: Option<String>,
    /// Whether an older mechanism is wanted; ours is the same for both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub use_legacy_landlock: Option<bool>,
}

/// What may be done.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum PermissionProfile {
    /// Everything.
    Disabled,
    /// Everything here: somebody else confines.
    External {
        /// The network.
        network: NetworkPolicy,
    },
    /// What is said.
    Managed {
        /// Files.
        file_system: FileSystemPolicy,
        /// The network.
        network: NetworkPolicy,
    },
}

/// The network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NetworkPolicy {
    /// None.
    Restricted,
    /// The machine's.
    Enabled,
}

/// Files.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum FileSystemPolicy {
    /// All of them.
    Unrestricted,
    /// What the entries say.
    Restricted {
        /// Later ones and narrower ones hold over others.
        entries: Vec<FileSystemEntry>,
        /// How deep a client would look for what a pattern means.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        glob_scan_max_depth: Option<u64>,
    },
}

/// A place and what may be done there.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FileSystemEntry {
    /// The place.
    pub path: FileSystemPlace,
    /// What may be done.
    pub access: FileSystemAccess,
}

/// What may be done at a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileSystemAccess {
    /// Reading.
    Read,
    /// Reading and writing.
    Write,
    /// Nothing.
    #[serde(alias = "deny")]
    None,
}

/// A place.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum FileSystemPlace {
    /// A path.
    Path {
        /// Absolute.
        path: String,
    },
    /// Every path that matches.
    GlobPattern {
        /// The pattern.
        pattern: String,
    },
    /// A path by what it is for.
    Special {
        /// What for.
        value: SpecialPlace,
    },
}

/// A path by what it is for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum SpecialPlace {
    /// Everything.
    Root,
    /// What programs need to run at all.
    Minimal,
    /// The project.
    #[serde(alias = "current_working_directory")]
    ProjectRoots {
        /// A place within.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        subpath: Option<String>,
    },
    /// What `TMPDIR` names.
    Tmpdir,
    /// `/tmp`.
    SlashTmp,
    /// Something that its sender did not know either.
    Unknown {
        /// What it was called.
        path: String,
        /// A place within.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        subpath: Option<String>,
    },
}
