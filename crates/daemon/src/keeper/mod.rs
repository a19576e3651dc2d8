//! Keepers: the programs that own detached processes, and how every daemon of the user reaches them.
//!
//! A keeper is this binary, executed again as a session leader of its own. It runs one engine with one process,
//! writes what the process says into segments on disk, and listens on a unix socket in a private folder. A daemon
//! that starts, lists or attaches holds a [`Keepers`]; it needs no memory of its own, the folder is all there is.

mod connection;
mod convert;
mod dial;
mod folder;
mod home;
mod job;
mod keepers;
mod layers;
mod listing;
mod program;
mod quota;
mod record;
mod remote;
mod scribe;
mod segments;
mod settings;
mod starting;
mod stored;
mod viewer;

pub use keepers::{Attached, Keepers, Started};
pub use listing::Listed;
pub use program::main;
pub use settings::{OWN_PROGRAM, Settings};
