//! The keeper's socket protocol: between a daemon and the program that owns a detached process.
//!
//! Lines of JSON in both directions. The client's first line is a hello with the highest version it supports; the keeper
//! responds with the version of the connection. The versions differ in one thing: in version 1 an `output` line contains
//! its bytes as base64, in version 2 it has their number and the raw bytes follow the line.
//!
//! | request | response |
//! |---|---|
//! | `hello {version}` | `hello {version}` |
//! | `attach {cursor}` | `attached {cursor}`, then `output`, `lost`, `exited`, and `closed` as the last line |
//! | `input {data, eof}` | `accepted {bytes}` |
//! | `resize {cols, rows}` | `resized` |
//! | `kill {signal}` | `killed {killed, left, complete}` |
//! | `status` | `status {pid, end, exit, closed}` |
//!
//! Every request has an `id`, which its response repeats; a request that fails gets `error {kind, message}`. Requests of
//! one connection are handled one after the other, and `attach` is the last of its connection.

mod codec;
mod messages;

pub use codec::{Decoder, KeeperFrame, KeeperWireError, encode_frame, encode_request, read_request};
pub use messages::{
    CloseCause, CloseReport, DenialReport, DeniedAccess, FailureKind, KeeperMessage, KeeperRequest,
    LeaderExit, OutputStream, TreeMember,
};

/// Bytes of one line without its newline. Longer lines end the connection.
pub const MAX_LINE_BYTES: usize = 1024 * 1024;

/// Bytes of one `output`, before any encoding.
pub const MAX_OUTPUT_BYTES: usize = 256 * 1024;

/// Bytes of one `input`, before any encoding. More is sent in several requests.
pub const MAX_INPUT_BYTES: usize = 256 * 1024;

/// A version of the keeper protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// Output as base64 within its line.
    V1,
    /// Output as raw bytes after its line.
    V2,
}

impl Version {
    /// The newest version.
    pub const NEWEST: Version = Version::V2;

    /// The version number on the wire.
    pub fn number(self) -> u32 {
        match self {
            Version::V1 => 1,
            Version::V2 => 2,
        }
    }

    /// The newest version that this side and a peer with this highest number support; `None` for 0.
    pub fn common(self, highest: u32) -> Option<Version> {
        [Version::V2, Version::V1].into_iter().find(|version| *version <= self && version.number() <= highest)
    }
}
