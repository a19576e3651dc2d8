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

/// Whether a character may be part of the name of a token or an executor: only ASCII, so that no two names look alike.
pub(crate) fn is_name_character(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':' | '@')
}
