//! CopyPlan: the contents of a tree, and the files that exist at the target.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::task::JoinSet;

use super::endpoint::{CopyEndpoint, FileKind, FileMeta, ListedEntry};
use super::error::{CopyError, ErrorScope};
use super::local_end;
use super::names;
use super::stats::CopyStats;

/// Directories listed concurrently.
const MAX_CONCURRENT_LISTS: usize = 32;
/// The maximum nesting of directories; beyond it, a cycle is assumed.
const MAX_DEPTH: usize = 512;

/// One file of a plan.
#[derive(Debug, Clone)]
pub(super) struct PlannedFile {
    /// The source path, with a final symbolic link resolved.
    pub(super) from: String,
    /// The destination, relative to the root of the copy.
    pub(super) below: String,
    pub(super) size: u64,
    pub(super) mode: Option<u32>,
}

/// The files and directories to copy.
#[derive(Debug, Default)]
pub(super) struct CopyPlan {
    /// Directories relative to the root, parents before children.
    pub(super) directories: Vec<String>,
    pub(super) files: Vec<PlannedFile>,
}

/// The files at the target, by their path relative to the root.
pub(super) type ExistingFiles = HashMap<String, FileMeta>;

type Listed = Result<Vec<Result<ListedEntry, CopyError>>, CopyError>;

/// Walks a tree. Entries that cannot be copied are reported and counted.
#[derive(Debug)]
pub(super) struct TreeWalk<'a> {
    pub(super) end: &'a CopyEndpoint,
    /// Whether symbolic links are followed.
    pub(super) follow: bool,
    pub(super) stats: &'a Arc<CopyStats>,
}

impl TreeWalk<'_> {
    /// Collects everything below a directory.
    pub(super) async fn plan(&self, top: &str) -> Result<CopyPlan, CopyError> {
        let mut plan = CopyPlan::default();
        let mut lists = JoinSet::new();
        let mut waiting = vec![(top.to_owned(), String::new())];
        loop {
            while lists.len() < MAX_CONCURRENT_LISTS
                && let Some((path, below)) = waiting.pop()
            {
                lists.spawn(list(self.end.clone(), path, below));
            }
            let Some(listed) = lists.join_next().await else { break };
            let (path, below, listed) = listed?;
            match listed {
                Ok(entries) => {
                    for entry in entries {
                        self.take(entry, (&path, &below), (&mut plan, &mut waiting)).await?;
                    }
                }
                Err(error) if error.scope == ErrorScope::File && !below.is_empty() => {
                    self.stats.failed(&error)
                }
                Err(error) => return Err(error),
            }
        }
        plan.directories.sort();
        plan.files.sort_by(|one, other| one.below.cmp(&other.below));
        self.stats.expects(plan.files.iter().map(|file| file.size).sum());
        Ok(plan)
    }

    async fn take(
        &self,
        entry: Result<ListedEntry, CopyError>,
        (path, below): (&str, &str),
        (plan, waiting): (&mut CopyPlan, &mut Vec<(String, String)>),
    ) -> Result<(), CopyError> {
        let ListedEntry { name, mut meta } = match entry {
            Ok(found) => found,
            Err(error) => {
                self.stats.failed(&error);
                return Ok(());
            }
        };
        // The marker file of an earlier copy is not part of the tree.
        if name == names::UNFINISHED {
            return Ok(());
        }
        let (mut from, below) = (names::join(path, &name), names::join(below, &name));
        if meta.kind == FileKind::Link {
            match self.lead(&from).await {
                Ok(Some((leads, found))) => (from, meta) = (leads, found),
                Ok(None) => return Ok(()),
                Err(error) if error.scope == ErrorScope::File => {
                    self.stats.failed(&error);
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
        }
        match meta.kind {
            FileKind::File => plan.files.push(PlannedFile { from, below, size: meta.size, mode: meta.mode }),
            FileKind::Dir if below.split('/').count() < MAX_DEPTH => {
                plan.directories.push(below.clone());
                waiting.push((from, below));
            }
            FileKind::Dir => self.stats.left_out(&from, "nested too deeply (limit 512)"),
            FileKind::Link | FileKind::Other => self.stats.left_out(&from, "not a file or directory"),
        }
        Ok(())
    }

    /// The target of a symbolic link, if links are followed and it is not a cycle.
    async fn lead(&self, link: &str) -> Result<Option<(String, FileMeta)>, CopyError> {
        if !self.follow {
            self.stats.left_out(link, "symbolic link (--follow copies its target)");
            return Ok(None);
        }
        let Some((leads, found)) = self.end.follow(link).await? else {
            self.stats.left_out(link, "dangling symbolic link");
            return Ok(None);
        };
        let is_cyclic = match self.end {
            CopyEndpoint::Local => local_end::is_cyclic_link(link),
            CopyEndpoint::Remote(_) => names::is_within(names::parent(link), &leads),
        };
        if found.kind == FileKind::Dir && is_cyclic {
            self.stats.left_out(link, "symbolic link to a parent directory");
            return Ok(None);
        }
        Ok(Some((leads, found)))
    }
}

/// Lists the directories of a plan at the target.
pub(super) async fn existing(
    end: &CopyEndpoint,
    top: &str,
    directories: &[String],
) -> Result<ExistingFiles, CopyError> {
    let mut existing = ExistingFiles::new();
    let mut lists = JoinSet::new();
    let mut waiting = std::iter::once("").chain(directories.iter().map(String::as_str));
    loop {
        while lists.len() < MAX_CONCURRENT_LISTS
            && let Some(below) = waiting.next()
        {
            lists.spawn(list(end.clone(), names::join(top, below), below.to_owned()));
        }
        let Some(listed) = lists.join_next().await else { return Ok(existing) };
        match listed? {
            (_, below, Ok(entries)) => {
                let named = |found: ListedEntry| (names::join(&below, &found.name), found.meta);
                existing.extend(entries.into_iter().flatten().map(named));
            }
            // The directory does not exist, or writing to it will report the same error.
            (_, _, Err(error)) if error.scope == ErrorScope::File => {}
            (_, _, Err(error)) => return Err(error),
        }
    }
}

async fn list(end: CopyEndpoint, path: String, below: String) -> (String, String, Listed) {
    let listed = end.list(&path).await;
    (path, below, listed)
}
