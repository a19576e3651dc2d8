//! What the tests share: a running daemon, transcripts, sandboxes.
//!
//! Everything here but the replay of transcripts fails by panicking with what was seen so far: a test that cannot go
//! on has nothing to handle.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on says so and ends")]

pub mod daemon;
pub mod invariants;
pub mod pattern;
pub mod proc;
pub mod prometheus;
pub mod sandbox;
pub mod sshd;
pub mod transcript;
