//! Patches: several files changed by one `*** Begin Patch` envelope, completely or not at all.

mod apply;
mod commit;
mod parse;
mod plan;

pub use parse::{Chunk, Hunk, Line, parse};
pub use plan::{FileChange, PatchPlan, plan};

use std::path::{Path, PathBuf};

use super::path::Roots;
use super::write::Durability;
use crate::Error;

/// The result of a patch, as absolute paths.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PatchResult {
    /// Files that are new.
    pub added: Vec<PathBuf>,
    /// Files whose content changed in place.
    pub updated: Vec<PathBuf>,
    /// Files that were removed.
    pub deleted: Vec<PathBuf>,
    /// Files that were renamed, from and to, perhaps with new content.
    pub moved: Vec<(PathBuf, PathBuf)>,
}

/// Applies a patch whose relative paths are resolved in `base`. All changes are computed before any file is changed,
/// and rolled back if a later file fails.
pub fn patch(roots: &Roots, base: &Path, text: &str, durability: Durability) -> Result<PatchResult, Error> {
    plan(roots, base, text)?.apply(durability)
}
