//! What the tests share: a running daemon, transcripts, sandboxes.
//!
//! Everything here but the replay of transcripts fails by panicking with what was seen so far: a test that cannot go
//! on has nothing to handle.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on says so and ends")]

pub mod carrier;
pub mod client;
pub mod daemon;
pub mod exec_server;
pub mod http;
pub mod invariants;
pub mod lines;
pub mod log;
pub mod model;
mod pass;
pub mod pattern;
pub mod posts;
pub mod proc;
pub mod programs;
pub mod prometheus;
pub mod proxy;
pub mod replay;
pub mod sandbox;
pub mod screen;
pub mod serve;
pub mod sse;
pub mod sshd;
pub mod transcript;
pub mod tries;
pub mod websocket;
