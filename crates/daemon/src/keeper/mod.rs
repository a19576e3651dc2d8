//! Keepers: the programs that own detached processes, and the daemon's interface to them.
//!
//! A keeper is this binary, executed again as a session leader. It runs one engine with one process, writes the output
//! into segments on disk, and listens on a unix socket in a private directory. A daemon starts, lists and attaches
//! through [`Keepers`]; all state is in the directories, so every daemon of the user sees the same processes.

mod client;
mod client_connection;
mod connection;
mod convert;
mod dir;
mod dir_writer;
mod input_keys;
mod job;
mod keepers;
mod listing;
mod log_times;
mod log_writer;
mod name_lock;
mod profiles;
mod program;
mod quota;
mod record;
mod segment_reader;
mod segments;
mod settings;
mod start;
mod stored_output;
mod viewer;

pub use client_connection::InputOutcome;
pub use keepers::{Keepers, StartedProcess};
pub use listing::ListedProcess;
pub use name_lock::NameLock;
pub use program::main;
pub(crate) use record::boot_id;
pub use settings::{KeeperSettings, OWN_PROGRAM};
pub use stored_output::StoredOutput;
