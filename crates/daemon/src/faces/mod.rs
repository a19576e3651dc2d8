//! The faces of the daemon: one module per protocol, each over [`crate::core`] and none over another.

pub mod exec_server;
pub mod host;
pub mod rexd;
pub mod stringd;
