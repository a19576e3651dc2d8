//! The keeper's socket: how a daemon talks to the program that keeps a detached process.
//!
//! Lines of JSON both ways. The client's first line is a hello with the highest version it speaks; the keeper answers
//! with the one that is used from then on. The versions differ in one thing: in version 1 an `output` line carries
//! its bytes as base64, in version 2 it announces their number and they follow the line as they are.
//!
//! | request | answer |
//! |---|---|
//! | `hello {version}` | `hello {version}` |
//! | `attach {cursor}` | `attached {cursor}`, then `output`, `lost`, `exited`, and `closed` as the last line |
//! | `input {data, eof}` | `accepted {bytes}` |
//! | `resize {cols, rows}` | `resized` |
//! | `kill {signal}` | `killed {killed, left}` |
//! | `status` | `status {pid, end, exit, closed}` |
//!
//! Every request has an `id`, which its answer repeats; `error {kind, message}` answers what cannot be done. Requests
//! of one connection are answered one after the other, and `attach` is the last of its connection.

mod codec;
mod messages;

pub use codec::{Decoder, KeeperFrame, KeeperWireError, encode_frame, encode_request, read_request};
pub use messages::{
    CloseCause, CloseReport, DenialReport, DeniedAccess, FailureKind, KeeperMessage, KeeperRequest,
    LeaderExit, OutputStream, TreeMember,
};

/// One line, without its newline. Longer ones end the connection.
pub const MAX_LINE_BYTES: usize = 1024 * 1024;

/// Bytes of one `output`, before any encoding.
pub const MAX_OUTPUT_BYTES: usize = 256 * 1024;

/// Bytes of one `input`, before any encoding. More is sent in pieces.
pub const MAX_INPUT_BYTES: usize = 256 * 1024;

/// A version of this protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// Output as base64 within its line.
    V1,
    /// Output as it is, behind its line.
    V2,
}

impl Version {
    /// The newest.
    pub const NEWEST: Version = Version::V2;

    /// The number on the wire.
    pub fn number(self) -> u32 {
        match self {
            Version::V1 => 1,
            Version::V2 => 2,
        }
    }

    /// The newest version that both a peer with this highest number and we speak; none for 0.
    pub fn common(self, highest: u32) -> Option<Version> {
        [Version::V2, Version::V1].into_iter().find(|version| *version <= self && version.number() <= highest)
    }
}
