//! The faces of the daemon over one engine.

pub mod approvals;
pub mod args;
pub mod audit;
pub mod auth;
pub mod codex;
pub mod config;
pub mod doctor;
pub mod guard;
pub mod http;
pub mod keeper;
pub mod linger;
pub mod listen;
pub mod log;
pub mod metrics;
pub mod notify;
mod permission;
pub mod policy_cli;
pub mod rexd;
pub mod sandbox;
pub mod serve;
mod state;
pub mod traces;
