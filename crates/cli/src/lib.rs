//! `rex`: commands, terminals and files on any machine, from a shell or through MCP.
//!
//! [`args`] says what can be asked, [`route`] where it is done, [`commands`] what is done, one file each.

pub mod app;
pub mod args;
pub mod asking;
pub mod bounds;
pub mod commands;
pub mod copy;
pub mod failure;
mod install;
mod interrupt;
pub mod mcp;
pub mod output;
pub mod relay;
pub mod route;
pub mod table;
pub mod terminal;
pub mod tools;
pub mod up;
