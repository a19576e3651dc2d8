//! Files: whole ones, directories, and handles that read and write block by block.

use serde::{Deserialize, Serialize};

use super::FileSystemSandboxContext;
use crate::exec_server::ByteChunk;

/// Reads a file.
pub const FS_READ_FILE: &str = "fs/readFile";
/// Writes one.
pub const FS_WRITE_FILE: &str = "fs/writeFile";
/// Makes a directory.
pub const FS_CREATE_DIRECTORY: &str = "fs/createDirectory";
/// Tells what a path is.
pub const FS_GET_METADATA: &str = "fs/getMetadata";
/// Lists a directory.
pub const FS_READ_DIRECTORY: &str = "fs/readDirectory";
/// Removes a file or directory.
pub const FS_REMOVE: &str = "fs/remove";
/// Copies one.
pub const FS_COPY: &str = "fs/copy";
/// Tells where a path really is.
pub const FS_CANONICALIZE: &str = "fs/canonicalize";
/// Opens a handle.
pub const FS_OPEN: &str = "fs/open";
/// Reads through one.
pub const FS_READ_BLOCK: &str = "fs/readBlock";
/// Writes through one.
pub const FS_WRITE_BLOCK: &str = "fs/writeBlock";
/// Closes one.
pub const FS_CLOSE: &str = "fs/close";

/// Declares params that name a path, with what else they take.
macro_rules! path_params {
    ($($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty,)* })*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
        #[serde(rename_all = "camelCase")]
        pub struct $name {
            /// A native path or a `file:` URI.
            pub path: String,
            $($(#[$field_doc])* pub $field: $type,)*
            /// What confines the call.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub sandbox: Option<FileSystemSandboxContext>,
        }
    )*};
}

path_params! {
    /// Params of `fs/readFile`.
    FsReadFileParams {
        /// Whether links may be passed; they may unless this says no.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        follow_symlinks: Option<bool>,
    }
    /// Params of `fs/writeFile`.
    FsWriteFileParams {
        /// The whole content.
        data_base64: String,
        /// As for reading.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        follow_symlinks: Option<bool>,
    }
    /// Params of `fs/createDirectory`.
    FsCreateDirectoryParams {
        /// Whether directories on the way are made too, and one that is there is fine; so unless this says no.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        recursive: Option<bool>,
        /// As for reading.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        follow_symlinks: Option<bool>,
    }
    /// Params of `fs/getMetadata`.
    FsGetMetadataParams {
        /// As for reading.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        follow_symlinks: Option<bool>,
    }
    /// Params of `fs/readDirectory`.
    FsReadDirectoryParams {}
    /// Params of `fs/remove`.
    FsRemoveParams {
        /// Whether what is beneath goes too; it does unless this says no.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        recursive: Option<bool>,
        /// Whether it is fine if there is nothing; it is unless this says no.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        force: Option<bool>,
        /// As for reading.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        follow_symlinks: Option<bool>,
    }
    /// Params of `fs/canonicalize`.
    FsCanonicalizeParams {}
    /// Params of `fs/open`.
    FsOpenParams {
        /// What the caller calls the handle.
        handle_id: String,
        /// What for.
        #[serde(default)]
        mode: FsOpenMode,
    }
}

/// Result of methods that have nothing to tell.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Done {}

/// Result of `fs/readFile`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FsReadFileResponse {
    /// The whole content.
    pub data_base64: String,
}

/// Result of `fs/getMetadata`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FsGetMetadataResponse {
    /// Whether it is a directory, links followed.
    pub is_directory: bool,
    /// Whether it is a regular file, links followed.
    pub is_file: bool,
    /// Whether the path itself is a link.
    pub is_symlink: bool,
    /// Its size; servers before this member say nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// When it was made, in milliseconds; 0 when unknown.
    pub created_at_ms: i64,
    /// When it last changed, in milliseconds; 0 when unknown.
    pub modified_at_ms: i64,
}

/// Result of `fs/readDirectory`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct FsReadDirectoryResponse {
    /// In no particular order.
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

/// Params of `fs/copy`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FsCopyParams {
    /// From.
    pub source_path: String,
    /// To.
    pub destination_path: String,
    /// Whether directories are copied, with what is beneath.
    pub recursive: bool,
    /// What confines the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<FileSystemSandboxContext>,
}

/// Result of `fs/canonicalize`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FsCanonicalizeResponse {
    /// A `file:` URI.
    pub path: String,
}

/// What a handle is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FsOpenMode {
    /// Reading.
    #[default]
    Read,
    /// Writing a new content, which takes the place of the old when the handle is closed.
    Replace,
}

/// Result of `fs/open`, and params of `fs/close`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FsHandle {
    /// What the caller calls the handle.
    pub handle_id: String,
}

/// Params of `fs/readBlock`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FsReadBlockParams {
    /// Which handle.
    pub handle_id: String,
    /// From where.
    pub offset: u64,
    /// How much.
    pub len: u64,
}

/// Result of `fs/readBlock`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FsReadBlockResponse {
    /// What is there.
    pub chunk: ByteChunk,
    /// Whether nothing follows.
    pub eof: bool,
}

/// Params of `fs/writeBlock`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FsWriteBlockParams {
    /// Which handle.
    pub handle_id: String,
    /// To where.
    pub offset: u64,
    /// What.
    pub chunk: ByteChunk,
}
