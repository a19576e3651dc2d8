//! What the tests share: a running daemon, transcripts, sandboxes.

pub mod pattern;
pub mod transcript;
