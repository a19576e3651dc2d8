//! The sandbox object: the restrictions that a client requests for a process or file call.

use serde::{Deserialize, Serialize};

/// The sandbox of a process or file call. Paths are native paths or `file:` URIs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FileSystemSandboxContext {
    /// The permissions.
    pub permissions: PermissionProfile,
    /// The directory that project roots are relative to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// The project directories, if the client sends them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_roots: Option<Vec<String>>,
    /// A setting for Windows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub windows_sandbox_level: Option<String>,
    /// Whether to use an older mechanism; this server uses the same for both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub use_legacy_landlock: Option<bool>,
}

/// The permissions of a process or file call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum PermissionProfile {
    /// The given restrictions.
    Managed {
        /// The access to files.
        file_system: FileSystemPolicy,
        /// The access to the network.
        network: NetworkPolicy,
    },
    /// Everything is allowed.
    Disabled,
    /// Everything is allowed: another program enforces the sandbox.
    External {
        /// The access to the network.
        network: NetworkPolicy,
    },
}

/// The access to the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NetworkPolicy {
    /// No access to the network.
    Restricted,
    /// The network of the machine.
    Enabled,
}

/// The access to files.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum FileSystemPolicy {
    /// All files.
    Unrestricted,
    /// The files of the entries.
    Restricted {
        /// The entries; later and more specific ones take precedence.
        entries: Vec<FileSystemEntry>,
        /// The depth to which a client expands patterns.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        glob_scan_max_depth: Option<u64>,
    },
}

/// A location and the access to it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FileSystemEntry {
    /// The location.
    pub path: FileSystemPlace,
    /// The permissions.
    pub access: FileSystemAccess,
}

/// The access to a location.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileSystemAccess {
    /// Read access.
    Read,
    /// Read and write access.
    Write,
    /// No access.
    #[serde(alias = "deny")]
    None,
}

/// A location of files.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum FileSystemPlace {
    /// One path.
    Path {
        /// The absolute path.
        path: String,
    },
    /// All paths that match a pattern.
    GlobPattern {
        /// The glob pattern.
        pattern: String,
    },
    /// A location by its purpose.
    Special {
        /// The purpose.
        value: SpecialPlace,
    },
}

/// A location by its purpose.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum SpecialPlace {
    /// Everything is allowed.
    Root,
    /// The files that programs need to run.
    Minimal,
    /// The project directories.
    #[serde(alias = "current_working_directory")]
    ProjectRoots {
        /// A path below it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        subpath: Option<String>,
    },
    /// What `TMPDIR` names.
    Tmpdir,
    /// `/tmp`.
    SlashTmp,
    /// A location that the client does not know.
    Unknown {
        /// Its name.
        path: String,
        /// A path below it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        subpath: Option<String>,
    },
}
