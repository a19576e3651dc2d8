//! Shared test support: daemons under test, transcripts, sandboxes.
//!
//! Everything here except the replay of transcripts fails by a panic that shows the conversation: a test has no use for
//! an error value.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed expectation fails the test")]

pub mod carrier;
pub mod client;
pub mod cutter;
pub mod daemon;
pub mod exec_server;
mod forward;
pub mod http;
pub mod http_carrier;
pub mod invariants;
pub mod lines;
pub mod log;
pub mod model;
pub mod pattern;
pub mod postgres;
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
pub mod uninterrupted;
pub mod websocket;
