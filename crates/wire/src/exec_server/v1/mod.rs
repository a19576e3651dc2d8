//! exec-server v1: sessions that outlive their connection, processes whose output is numbered, files.

mod environment;
mod files;
mod output;
mod process;
mod sandbox;
mod session;
mod walk;

pub use environment::*;
pub use files::*;
pub use output::*;
pub use process::*;
pub use sandbox::*;
pub use session::*;
pub use walk::*;
