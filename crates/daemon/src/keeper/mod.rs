//! Keepers: the programs that own detached processes, and how every daemon of the user reaches them.
//!
//! A keeper is this binary, executed again as a session leader of its own. It runs one engine with one process,
//! writes what the process says into segments on disk, and listens on a unix socket in a private directory. A daemon
//! that starts, lists or attaches holds a [`Keepers`]; it needs no memory of its own, the directory is all there is.

mod client;
mod client_connection;
mod connection;
mod convert;
mod dir;
mod dir_writer;
mod job;
mod keepers;
mod listing;
mod log_writer;
mod profiles;
mod program;
mod quota;
mod record;
mod segment_reader;
mod segments;
mod settings;
mod start;
mod viewer;

pub use keepers::{AttachedReader, Keepers, StartedProcess};
pub use listing::ListedProcess;
pub use program::main;
pub use settings::{KeeperSettings, OWN_PROGRAM};
