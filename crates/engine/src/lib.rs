//! Processes, terminals and files: the one engine. It knows no protocol.

pub mod approval;
pub mod audit;
pub mod engine;
pub mod error;
pub mod files;
pub mod limits;
pub mod policy;
pub mod process;
mod registry;
pub mod sandbox;
pub mod session;

pub use engine::{Engine, EngineSettings};
pub use error::Error;
pub use files::{RootedPath, Roots};
pub use limits::Limits;
pub use policy::Policy;
pub use session::Session;
