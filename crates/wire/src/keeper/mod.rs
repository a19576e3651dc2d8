//! The keeper's socket protocol: between a daemon and the program that owns a detached process.
//!
//! Lines of JSON in both directions. The client's first line is a hello with the highest version it supports; the keeper
//! responds with the version of the connection. In version 1 an `output` line contains its bytes as base64; from version 2 on
//! it has their number and the raw bytes follow the line. Version 3 adds `terminal` and the `key` of an input.
//!
//! | request | response |
//! |---|---|
//! | `hello {version}` | `hello {version}` |
//! | `attach {cursor}` | `attached {cursor}`, then `output`, `lost`, `exited`, and `closed` as the last line |
//! | `input {data, eof, key}` | `accepted {bytes, repeated}` |
//! | `resize {cols, rows}` | `resized` |
//! | `kill {signal}` | `killed {killed, left, complete}` |
//! | `status` | `status {pid, end, exit, closed}` |
//! | `terminal` | `terminal {cols, rows, echo, canonical, wait}` |
//!
//! Every request has an `id`, which its response repeats; a request that fails gets `error {kind, message}`. Requests of
//! one connection are handled one after the other, and `attach` is the last of its connection.
//!
//! An input with a `key` takes effect once: the keeper remembers the last [`MAX_INPUT_KEYS`] keys of accepted inputs, and
//! a repetition gets `accepted {bytes: 0, repeated: true}`. A failed input leaves its key unused.

mod codec;
mod messages;

pub use codec::{Decoder, KeeperFrame, KeeperWireError, encode_frame, encode_request, read_request};
pub use messages::{
    CloseCause, CloseReport, DenialReport, DeniedAccess, FailureKind, KeeperMessage, KeeperRequest,
    LeaderExit, OutputStream, TerminalWait, TreeMember,
};

/// Bytes of one line without its newline. Longer lines end the connection.
pub const MAX_LINE_BYTES: usize = 1024 * 1024;

/// Bytes of one `output`, before any encoding.
pub const MAX_OUTPUT_BYTES: usize = 256 * 1024;

/// Bytes of one `input`, before any encoding. More is sent in several requests.
pub const MAX_INPUT_BYTES: usize = 256 * 1024;

/// Bytes of the key of an input. A longer one is refused.
pub const MAX_KEY_BYTES: usize = 256;

/// Keys of inputs that a keeper remembers. Beyond it the oldest is forgotten, and its input could take effect again.
pub const MAX_INPUT_KEYS: usize = 1024;

/// A version of the keeper protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// Output as base64 within its line.
    V1,
    /// Output as raw bytes after its line.
    V2,
    /// As version 2, with keys of inputs and the state of the terminal.
    V3,
}

impl Version {
    /// The newest version.
    pub const NEWEST: Version = Version::V3;

    /// The version number on the wire.
    pub fn number(self) -> u32 {
        match self {
            Version::V1 => 1,
            Version::V2 => 2,
            Version::V3 => 3,
        }
    }

    /// The newest version that this side and a peer with this highest number support; `None` for 0.
    pub fn common(self, highest: u32) -> Option<Version> {
        let versions = [Version::V3, Version::V2, Version::V1];
        versions.into_iter().find(|version| *version <= self && version.number() <= highest)
    }
}
