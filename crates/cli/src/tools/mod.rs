//! The tools that agents call: defined once, for MCP, for `rex call` and for agent loops of one's own.
//!
//! [`catalog`] says what models are told, [`toolbox`] runs calls, [`outcome`] is what comes of them.

mod answer;
pub mod arguments;
pub mod catalog;
pub mod cut;
mod files;
pub mod follow;
pub mod formats;
pub mod image;
pub mod limits;
pub mod lines;
mod look;
pub mod outcome;
mod process;
pub mod processes;
pub mod questions;
mod run;
mod search;
pub mod spool;
pub mod toolbox;
pub mod uri;

pub use outcome::{Outcome, Part};
pub use toolbox::{Call, Setting, Toolbox};
