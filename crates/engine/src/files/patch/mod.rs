//! Patches: several files changed by one `*** Begin Patch` envelope, whole or not at all.

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

/// What a patch did, by absolute paths.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PatchResult {
    /// Files that are new.
    pub added: Vec<PathBuf>,
    /// Files whose content changed in place.
    pub updated: Vec<PathBuf>,
    /// Files that were removed.
    pub deleted: Vec<PathBuf>,
    /// Files that have a new name, from and to, perhaps with new content.
    pub moved: Vec<(PathBuf, PathBuf)>,
}

/// Applies a patch whose relative paths are taken from `base`. Everything is worked out before anything
/// is touched, and what was touched is put back if a later file fails.
pub fn patch(roots: &Roots, base: &Path, text: &str, durability: Durability) -> Result<PatchResult, Error> {
    plan(roots, base, text)?.apply(durability)
}
