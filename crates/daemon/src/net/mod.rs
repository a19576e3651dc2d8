//! The daemon's own part of serving: callers, scopes, certificates and routes.

pub mod auth;
pub mod http;
pub mod listen;
