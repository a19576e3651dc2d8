//! The tools for agents, defined once for MCP, `rex call` and other agent loops.
//!
//! [`catalog`] describes the tools for models, [`toolbox`] runs calls, [`outcome`] formats their results.

pub mod approval_queue;
pub mod arguments;
mod browse;
pub mod catalog;
mod collapse;
mod files;
pub mod formats;
mod grep;
mod host_run;
pub mod image;
pub mod limits;
pub mod lines;
pub mod outcome;
mod process;
pub mod process_owner;
mod process_report;
pub mod processes;
mod run;
mod search;
pub mod spool;
pub mod target_info;
pub mod toolbox;
pub mod tracked;
pub mod truncate;
mod unified_diff;
mod until;
pub mod uri;

pub use outcome::{ContentPart, ToolOutcome};
pub use toolbox::{ToolCall, Toolbox, ToolboxOptions};
