//! Files: whole files, directories, and handles for blocks.

use serde::{Deserialize, Serialize};

use super::FileSystemSandboxContext;
use crate::exec_server::ByteChunk;

/// Reads a file.
pub const FS_READ_FILE: &str = "fs/readFile";
/// Writes a file.
pub const FS_WRITE_FILE: &str = "fs/writeFile";
/// Creates a directory.
pub const FS_CREATE_DIRECTORY: &str = "fs/createDirectory";
/// Returns the metadata of a path.
pub const FS_GET_METADATA: &str = "fs/getMetadata";
/// Lists a directory.
pub const FS_READ_DIRECTORY: &str = "fs/readDirectory";
/// Removes a file or directory.
pub const FS_REMOVE: &str = "fs/remove";
/// Copies a file or directory.
pub const FS_COPY: &str = "fs/copy";
/// Returns a path without links.
pub const FS_CANONICALIZE: &str = "fs/canonicalize";
/// Opens a file handle.
pub const FS_OPEN: &str = "fs/open";
/// Reads a block through a handle.
pub const FS_READ_BLOCK: &str = "fs/readBlock";
/// Writes a block through a handle.
pub const FS_WRITE_BLOCK: &str = "fs/writeBlock";
/// Closes a handle.
pub const FS_CLOSE: &str = "fs/close";

/// Declares params with a path, further members and a sandbox.
macro_rules! path_params {
    ($($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty,)* })*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
        #[serde(rename_all = "camelCase")]
        pub struct $name {
            /// A native path or a `file:` URI.
            pub path: String,
            $($(#[$field_doc])* pub $field: $type,)*
            /// The sandbox of the call.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub sandbox: Option<FileSystemSandboxContext>,
        }
    )*};
}

path_params! {
    /// The params of `fs/readFile`.
    FsReadFileParams {
        /// Whether to follow links; true if absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        follow_symlinks: Option<bool>,
    }
    /// The params of `fs/writeFile`.
    FsWriteFileParams {
        /// The whole content.
        data_base64: String,
        /// Whether to follow links; true if absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        follow_symlinks: Option<bool>,
    }
    /// The params of `fs/createDirectory`.
    FsCreateDirectoryParams {
        /// Whether to create parent directories and accept an existing directory; true if absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        recursive: Option<bool>,
        /// Whether to follow links; true if absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        follow_symlinks: Option<bool>,
    }
    /// The params of `fs/getMetadata`.
    FsGetMetadataParams {
        /// Whether to follow links; true if absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        follow_symlinks: Option<bool>,
    }
    /// The params of `fs/readDirectory`.
    FsReadDirectoryParams {}
    /// The params of `fs/remove`.
    FsRemoveParams {
        /// Whether to remove the content of a directory; true if absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        recursive: Option<bool>,
        /// Whether to accept a missing path; true if absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        force: Option<bool>,
        /// Whether to follow links; true if absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        follow_symlinks: Option<bool>,
    }
    /// The params of `fs/canonicalize`.
    FsCanonicalizeParams {}
    /// The params of `fs/open`.
    FsOpenParams {
        /// The id that the client chooses.
        handle_id: String,
        /// The purpose.
        #[serde(default)]
        mode: FsOpenMode,
    }
}

/// The empty result of a method.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Done {}

/// The result of `fs/readFile`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FsReadFileResponse {
    /// The whole content.
    pub data_base64: String,
}

/// The result of `fs/getMetadata`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FsGetMetadataResponse {
    /// Whether it is a directory, links followed.
    pub is_directory: bool,
    /// Whether it is a regular file, links followed.
    pub is_file: bool,
    /// Whether the path itself is a link.
    pub is_symlink: bool,
    /// Its size; absent from older servers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// The creation time in milliseconds; 0 if unknown.
    pub created_at_ms: i64,
    /// The modification time in milliseconds; 0 if unknown.
    pub modified_at_ms: i64,
}

/// The result of `fs/readDirectory`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct FsReadDirectoryResponse {
    /// The entries, in no particular order.
    pub entries: Vec<FsReadDirectoryEntry>,
}

/// An entry of a directory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FsReadDirectoryEntry {
    /// Its name.
    pub file_name: String,
    /// Whether it is a directory, links followed.
    pub is_directory: bool,
    /// Whether it is a regular file, links followed.
    pub is_file: bool,
}

/// The params of `fs/copy`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FsCopyParams {
    /// The path to copy.
    pub source_path: String,
    /// The path of the copy.
    pub destination_path: String,
    /// Whether to copy directories with their content.
    pub recursive: bool,
    /// The sandbox of the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<FileSystemSandboxContext>,
}

/// The result of `fs/canonicalize`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FsCanonicalizeResponse {
    /// A `file:` URI.
    pub path: String,
}

/// The mode of a handle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FsOpenMode {
    /// Read access.
    #[default]
    Read,
    /// Write new content, which replaces the old when the handle is closed.
    Replace,
}

/// The result of `fs/open`, and params of `fs/close`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FsHandle {
    /// The id that the client chooses.
    pub handle_id: String,
}

/// The params of `fs/readBlock`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FsReadBlockParams {
    /// The id of the handle.
    pub handle_id: String,
    /// The first byte.
    pub offset: u64,
    /// The number of bytes.
    pub len: u64,
}

/// The result of `fs/readBlock`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FsReadBlockResponse {
    /// The bytes of the block.
    pub chunk: ByteChunk,
    /// Whether this is the end.
    pub eof: bool,
}

/// The params of `fs/writeBlock`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FsWriteBlockParams {
    /// The id of the handle.
    pub handle_id: String,
    /// The position to write at.
    pub offset: u64,
    /// The bytes to write.
    pub chunk: ByteChunk,
}
