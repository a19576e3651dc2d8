//! The MCP server: the tools for every agent that speaks MCP, on stdin and stdout or over HTTP.
//!
//! [`server`] answers requests, `call` runs one tool with progress, cancellation and approval_queue to the person, [`http`]
//! lets many clients in, [`install`] writes the configuration of agents' programs.

mod call;
mod convert;
mod elicit;
pub mod http;
pub mod install;
pub mod server;
pub mod stdio;
mod token;
