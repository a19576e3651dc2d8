//! `rex`: commands, terminals and files on any machine, from a shell or through MCP.
//!
//! [`args`] defines the command line, [`route`] chooses the target, [`commands`] has one file per command.

pub mod app;
pub mod approval_description;
pub mod approval_prompt;
pub mod args;
pub mod command_limits;
pub mod commands;
pub mod complete;
pub mod copy;
pub mod escape;
pub mod failure;
pub mod hub;
mod install;
mod interrupt;
pub mod mcp;
pub mod output;
mod reconnect_notes;
mod relative_path;
pub mod relay;
pub mod route;
pub mod table;
pub mod terminal;
pub mod tools;
pub mod up;
