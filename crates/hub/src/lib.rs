//! `rexhub`: where hosts dial in and clients find them. So far: tokens, and the executor registry with its rendezvous.

pub mod args;
pub mod auth;
pub mod commands;
pub mod config;
pub mod log;
mod refusal;
mod rendezvous;
mod routes;
pub mod serve;
pub mod store;
mod upgrade;

pub use link::listen::TlsError;
