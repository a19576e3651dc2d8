//! The copy of a tree: directories, files, then links, and the removal of what the source does not have.

use std::collections::HashSet;

use super::CopyRun;
use super::endpoint::FileKind;
use super::error::{CopyError, ErrorScope};
use super::filter::CopyFilter;
use super::names;
use super::overlap;
use super::plan::{self, CopyPlan, ExistingFiles, LinkMode, PlannedDirectory, PlannedLink, TreeWalk};

/// Links created and entries removed concurrently.
pub(super) const MAX_CONCURRENT_CHANGES: usize = 32;

impl CopyRun<'_> {
    /// The path to copy a tree to, and whether it exists.
    pub(super) async fn tree_target(&self) -> Result<(String, bool), CopyError> {
        let target = &self.job.target;
        let found = target.follow(&self.to).await?.map(|(_, found)| found.kind);
        if found.is_some_and(|kind| kind != FileKind::Dir) {
            return Err(CopyError::file(format!("cannot copy a directory to {}: it is a file", self.to)));
        }
        let name = names::last(&self.from).filter(|_| !self.from.ends_with("/."));
        match name.filter(|_| self.goes_into()) {
            Some(name) => {
                let path = names::join(&self.to, name);
                let is_there = target.stat(&path).await?.is_some();
                Ok((path, is_there))
            }
            None => {
                let path = self.to.trim_end_matches('/');
                let path = if path.is_empty() { &self.to } else { path };
                Ok((path.to_owned(), found.is_some()))
            }
        }
    }

    pub(super) async fn tree(&self, from: &str, filter: &CopyFilter) -> Result<(), CopyError> {
        let job = &self.job;
        let (to, is_there) = self.tree_target().await?;
        // The removal could delete the source, or the source could contain the earlier copy.
        if self.options.delete && overlap::overlaps((&job.source, from), (&job.target, &to)).await? {
            let message = format!("cannot copy {from} to {to} with --delete: one contains the other");
            return Err(CopyError::file(message).hint("copy to another directory, or without --delete"));
        }
        let links = match (self.options.follow, job.target.has_links()) {
            (true, _) => LinkMode::Follow,
            (false, true) => LinkMode::Keep,
            (false, false) => LinkMode::Skip,
        };
        let walk = TreeWalk { end: &job.source, links, filter, stats: &job.stats };
        let mut plan = walk.plan(from).await?;
        let to = job.target.make_destination(&to).await?;
        let existing = match is_there {
            true => plan::existing(&job.target, &to, &plan.directories).await?,
            false => ExistingFiles::new(),
        };
        let mut directories = std::mem::take(&mut plan.directories);
        if !is_there {
            directories.insert(0, PlannedDirectory::top(from));
        }
        self.find_modes(&mut directories, &existing).await?;
        self.make_directories(&directories, &to, &existing).await?;
        job.files(std::mem::take(&mut plan.files), &to, &existing).await?;
        // After all files: nothing is written through a link of the source.
        self.links(std::mem::take(&mut plan.links), &to, &existing).await?;
        if self.options.delete {
            self.delete(&plan, (&to, &existing), filter).await?;
        }
        self.finish_directories(&directories, &to, &existing).await
    }

    async fn links(
        &self,
        links: Vec<PlannedLink>,
        to: &str,
        existing: &ExistingFiles,
    ) -> Result<(), CopyError> {
        let mut making = tokio::task::JoinSet::new();
        for link in links {
            while making.len() >= MAX_CONCURRENT_CHANGES
                && let Some(made) = making.join_next().await
            {
                self.count(made?)?;
            }
            let (job, path) = (self.job.clone(), names::join(to, &link.below));
            let found = existing.get(&link.below).copied();
            making.spawn(async move { job.link(&link, &path, found).await });
        }
        while let Some(made) = making.join_next().await {
            self.count(made?)?;
        }
        Ok(())
    }

    /// Removes the entries that the source does not have. After a failure nothing is removed: an entry may be missing from
    /// the plan because its directory could not be read.
    async fn delete(
        &self,
        plan: &CopyPlan,
        (to, existing): (&str, &ExistingFiles),
        filter: &CopyFilter,
    ) -> Result<(), CopyError> {
        if self.job.stats.summary().failed > 0 {
            self.job.stats.note("nothing was deleted, because some files could not be copied");
            return Ok(());
        }
        for (below, found) in existing {
            // An entry behind a link of the destination is not part of it.
            let is_inside = has_real_parents(below, existing);
            let is_excluded = filter.excludes(below, found.kind == FileKind::Dir);
            if !is_inside || is_excluded || plan.names.contains(below) {
                continue;
            }
            for (below, kind) in self.removable(to, (below, found.kind), filter).await? {
                let path = names::join(to, &below);
                let removed = match kind {
                    FileKind::Dir => self.job.target.remove_tree(&path).await,
                    FileKind::File | FileKind::Link | FileKind::Other => self.job.target.remove(&path).await,
                };
                if removed.is_ok() {
                    self.job.stats.deleted();
                }
                self.count(removed)?;
            }
        }
        Ok(())
    }

    /// The entries to remove in the place of one that the source does not have: the entry itself, or, if it is a
    /// directory with excluded files, everything else in it.
    async fn removable(
        &self,
        to: &str,
        (top, kind): (&str, FileKind),
        filter: &CopyFilter,
    ) -> Result<Vec<(String, FileKind)>, CopyError> {
        let mut found = vec![(top.to_owned(), kind)];
        if filter.is_empty() {
            return Ok(found);
        }
        let mut kept = HashSet::new();
        let mut next = 0;
        while let Some((directory, kind)) = found.get(next).cloned() {
            next += 1;
            if kind != FileKind::Dir {
                continue;
            }
            let listed = match self.job.target.list(&names::join(to, &directory)).await {
                Err(error) if error.scope != ErrorScope::Copy => vec![Err(error)],
                listed => listed?,
            };
            for entry in listed {
                let entry = entry.map(|entry| (names::join(&directory, &entry.name), entry.meta.kind));
                match entry {
                    Ok((below, kind)) if !filter.excludes(&below, kind == FileKind::Dir) => {
                        found.push((below, kind));
                        continue;
                    }
                    Ok(_) => {}
                    // An entry whose name is not known may be an excluded one.
                    Err(error) => self.job.stats.failed(&error),
                }
                kept.extend(with_parents(&directory).map(str::to_owned));
            }
        }
        // The others are removed with their directory.
        found.retain(|(below, _)| {
            !kept.contains(below) && (below == top || kept.contains(names::parent(below)))
        });
        Ok(found)
    }

    /// Reports and counts the error of one file; any other ends the copy.
    pub(super) fn count(&self, done: Result<(), CopyError>) -> Result<(), CopyError> {
        match done {
            Err(error) if error.scope != ErrorScope::Copy => {
                self.job.stats.failed(&error);
                Ok(())
            }
            done => done,
        }
    }
}

/// Whether every directory above an entry is a directory at the target, not a link to one.
fn has_real_parents(below: &str, existing: &ExistingFiles) -> bool {
    with_parents(names::parent(below))
        .all(|parent| existing.get(parent).is_some_and(|found| found.kind == FileKind::Dir))
}

/// A relative path and the directories above it, except the root.
fn with_parents(below: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(below), |at| Some(names::parent(at))).take_while(|at| !at.is_empty())
}
