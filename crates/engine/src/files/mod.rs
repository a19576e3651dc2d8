//! Files within roots: every path becomes a [`RootedPath`] or an error, and every operation uses one.
//!
//! All functions block. Callers run them on blocking threads; only [`read_cached`] and [`stat_cached`] do not wait for
//! a disk and can be tried on an event loop first.
//!
//! ```
//! use std::path::Path;
//! use engine::files::{ReadRange, Roots, WriteOptions, read, write};
//!
//! # fn main() -> Result<(), engine::Error> {
//! let directory = tempfile::tempdir().map_err(|_| engine::Error::Gone)?;
//! let roots = Roots::new(vec![directory.path().to_owned()]);
//! let note = roots.admit(directory.path(), Path::new("note.txt"))?;
//! write(&note, b"hello", &WriteOptions::default())?;
//! assert_eq!(read(&note, ReadRange::whole(1024))?.bytes, b"hello");
//! assert!(roots.admit(directory.path(), Path::new("../elsewhere")).is_err());
//! # Ok(())
//! # }
//! ```

mod atomic;
mod change;
mod cleanup;
mod copy;
mod edit;
mod glob;
mod glob_pattern;
mod grep;
mod grep_sink;
mod guard;
mod guard_tree;
mod hash;
mod ignore_files;
mod list;
pub mod patch;
mod path;
mod read;
mod resolve;
mod scan;
mod stat;
mod text_pattern;
mod walk;
mod watch;
mod watch_batch;
mod write;

pub use atomic::{NoObserver, WriteObserver, WriteStep};
pub use change::{make_directory, make_symlink, remove, rename};
pub use copy::{CopyOptions, copy};
pub use edit::{Edit, EditResult, PlannedEdit, edit, plan_edit};
pub use glob::{GlobOptions, GlobResult, glob};
pub use grep::{Case, GrepOptions, GrepResult, grep, grep_sorted};
pub use grep_sink::Match;
pub use guard::{Access, PathGuard};
pub use hash::{FileHash, FileHasher, HashKind, hash};
pub use list::{DirEntry, ListOptions, Listing, list};
pub(crate) use path::clean;
pub use path::{ResolveStrategy, RootedPath, Roots};
pub use read::{FileContent, ReadRange, read, read_cached};
pub use scan::ScanBudget;
pub use stat::{FileKind, Metadata, stat, stat_cached, stat_followed};
pub use text_pattern::TextPattern;
pub use watch::{FileWatcher, WatchGroup};
pub use watch_batch::{FileEvent, FileEventBatch, FileEventKind};
pub(crate) use write::WRITE_CHUNK;
pub use write::{
    Durability, WriteMode, WriteOptions, WriteResult, unnamed_file, write, write_from, write_observed,
};

use std::io;
use std::path::Path;

use rustix::io::Errno;

use crate::Error;

/// The error of a failed file operation.
fn refused(action: &'static str, path: &Path) -> impl FnOnce(Errno) -> Error {
    move |errno| Error::File { action, path: path.to_owned(), source: io::Error::from(errno) }
}
