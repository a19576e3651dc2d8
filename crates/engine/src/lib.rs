//! Processes, terminals and files: the one engine. It knows no protocol.

pub mod audit;
pub mod error;
pub mod files;
pub mod limits;
pub mod policy;
pub mod process;

pub use error::Error;
pub use limits::Limits;
pub use policy::Policy;
