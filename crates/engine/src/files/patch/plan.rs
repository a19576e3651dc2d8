//! Plans a patch: computes the new content of every file before any file is changed.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::Stat;
use rustix::io::Errno;

use super::PatchResult;
use super::apply::apply;
use super::parse::{Hunk, parse};
use crate::Error;
use crate::error::PatchError;
use crate::files::edit::read_present;
use crate::files::guard::Access;
use crate::files::path::{RootedPath, Roots};
use crate::files::refused;

/// A patch that is computed but not applied, as an approver sees it.
#[derive(Debug, Default)]
pub struct PatchPlan {
    pub(super) changes: Vec<FileChange>,
    pub(super) patched: PatchResult,
}

/// The change of one file.
#[derive(Debug)]
pub struct FileChange {
    /// The file.
    pub path: RootedPath,
    /// Its current content; `None` if it does not exist.
    pub before: Option<Arc<[u8]>>,
    /// Its new content; `None` if it is removed.
    pub after: Option<Arc<[u8]>>,
    /// The file whose permissions it gets, if it is moved.
    pub(super) mode: Option<u32>,
    pub(super) seen: Option<Stat>,
}

impl PatchPlan {
    /// The change of each file, in the order of the patch.
    pub fn changes(&self) -> &[FileChange] {
        &self.changes
    }

    /// The result of the patch after it is applied.
    pub fn outcome(&self) -> &PatchResult {
        &self.patched
    }
}

/// Computes a patch. Later parts see the results of earlier ones.
pub fn plan(roots: &Roots, base: &Path, text: &str) -> Result<PatchPlan, Error> {
    let hunks = parse(text)?;
    let mut planner =
        Planner { roots, base, plan: PatchPlan::default(), known: HashMap::new(), inodes: HashMap::new() };
    for hunk in &hunks {
        planner.hunk(hunk)?;
    }
    let mut plan = planner.plan;
    // A file that the same patch creates and removes never exists.
    plan.changes.retain(|change| change.before.is_some() || change.after.is_some());
    Ok(plan)
}

struct Planner<'a> {
    roots: &'a Roots,
    base: &'a Path,
    plan: PatchPlan,
    known: HashMap<PathBuf, usize>,
    inodes: HashMap<(u64, u64), PathBuf>,
}

impl Planner<'_> {
    fn hunk(&mut self, hunk: &Hunk) -> Result<(), Error> {
        match hunk {
            Hunk::Add { path, lines } => {
                let (index, path) = self.file(path)?;
                if self.plan.changes[index].after.is_some() {
                    return Err(Error::Exists { path });
                }
                let content: String = lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect();
                self.plan.changes[index].after = Some(content.into_bytes().into());
                self.plan.patched.added.push(path);
            }
            Hunk::Delete { path } => {
                let (index, path) = self.file(path)?;
                if self.plan.changes[index].after.take().is_none() {
                    return Err(missing(path));
                }
                // A unified diff that deletes a file first removes its lines.
                self.plan.patched.updated.retain(|updated| *updated != path);
                self.plan.patched.deleted.push(path);
            }
            Hunk::Update { path, move_to, chunks } => {
                let (index, path) = self.file(path)?;
                let Some(content) = self.plan.changes[index].after.clone() else { return Err(missing(path)) };
                let after: Arc<[u8]> = apply(&content, chunks, &path)?.into();
                self.updated(index, path, move_to.as_deref(), after)?;
            }
        }
        Ok(())
    }

    fn updated(
        &mut self,
        index: usize,
        path: PathBuf,
        move_to: Option<&str>,
        after: Arc<[u8]>,
    ) -> Result<(), Error> {
        let target = match move_to {
            Some(to) => Some(self.file(to)?).filter(|(to, _)| *to != index),
            None => None,
        };
        let Some((to_index, to)) = target else {
            self.plan.changes[index].after = Some(after);
            if !self.plan.patched.updated.contains(&path) {
                self.plan.patched.updated.push(path);
            }
            return Ok(());
        };
        let source = &mut self.plan.changes[index];
        source.after = None;
        let mode = source.seen.as_ref().map(|seen| seen.st_mode).or(source.mode);
        let target = &mut self.plan.changes[to_index];
        target.after = Some(after);
        target.mode = mode;
        self.plan.patched.moved.push((path, to));
        Ok(())
    }

    /// The change of a file, which is read when the patch first names it.
    fn file(&mut self, written: &str) -> Result<(usize, PathBuf), Error> {
        let path = self.roots.admit(self.base, Path::new(written))?;
        let spelled = path.as_path().to_owned();
        if let Some(index) = self.known.get(&spelled) {
            return Ok((*index, spelled));
        }
        path.check_ahead(Access::Write)?;
        let (seen, before) = match read_present(&path)? {
            Some((stat, bytes)) => (Some(stat), Some(Arc::from(bytes))),
            None => (None, None),
        };
        if let Some(stat) = &seen
            && self.inodes.insert((stat.st_dev, stat.st_ino), spelled.clone()).is_some()
        {
            return Err(PatchError::Twice { path: spelled }.into());
        }
        let after = before.clone();
        self.plan.changes.push(FileChange { path, before, after, mode: None, seen });
        let index = self.plan.changes.len() - 1;
        self.known.insert(spelled.clone(), index);
        Ok((index, spelled))
    }
}

fn missing(path: PathBuf) -> Error {
    refused("open", &path)(Errno::NOENT)
}
