//! `rexhub`: connects clients to machines behind NAT. It implements tokens and the executor registry with its rendezvous.

mod api_error;
pub mod args;
pub mod auth;
pub mod commands;
pub mod config;
pub mod log;
mod rendezvous;
mod routes;
pub mod serve;
pub mod store;

pub use link::listen::TlsError;
