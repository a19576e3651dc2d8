//! REXD: commands, terminals and files over JSON-RPC. One module per version.

pub mod v1;
