//! The tools that agents call: defined once, for MCP, for `rex call` and for agent loops of one's own.

pub mod catalog;
pub mod formats;
