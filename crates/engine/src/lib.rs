//! Processes, terminals and files: the one engine. It knows no protocol.

pub mod error;
pub mod files;
pub mod policy;
pub mod process;

pub use error::Error;
pub use files::{RootedPath, Roots};
