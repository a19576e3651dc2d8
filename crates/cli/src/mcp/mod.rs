//! The MCP server: the tools for MCP clients, on stdin and stdout or over HTTP.
//!
//! `server` handles requests, `call` runs one tool with progress, cancellation and approvals, `stateless` runs it for
//! clients without a session, with `questions` and `tasks`. `caller` keeps the state of a client, [`http`] serves many
//! clients, [`install`] edits the configuration of agents.

mod call;
mod caller;
mod convert;
mod elicit;
pub mod http;
pub mod install;
mod progress;
mod questions;
mod server;
mod stateless;
pub mod stdio;
mod tasks;
mod token;
