//! The MCP server: the tools for MCP clients, on stdin and stdout or over HTTP.
//!
//! [`server`] handles requests, `call` runs one tool with progress, cancellation and approvals, [`http`] serves many
//! clients, [`install`] edits the configuration of agents.

mod call;
mod convert;
mod elicit;
pub mod http;
pub mod install;
pub mod server;
pub mod stdio;
mod token;
