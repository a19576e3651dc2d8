//! CopyPlan: the contents of a tree, and the files that exist at the target.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tokio::task::JoinSet;

use super::endpoint::{CopyEndpoint, FileAttributes, FileKind, FileMeta, ListedEntry};
use super::error::{CopyError, ErrorScope};
use super::filter::CopyFilter;
use super::local_end;
use super::names;
use super::stats::CopyStats;

/// Directories listed concurrently.
const MAX_CONCURRENT_LISTS: usize = 32;
/// The maximum nesting of directories; beyond it, a cycle is assumed.
const MAX_DEPTH: usize = 512;
/// The file whose patterns exclude others, with `--gitignore`.
const IGNORE_FILE: &str = ".gitignore";
/// A larger one is not read.
const MAX_IGNORE_BYTES: u64 = 1024 * 1024;

/// One directory of a plan.
#[derive(Debug, Clone)]
pub(super) struct PlannedDirectory {
    /// The directory at the source, with a final symbolic link resolved.
    pub(super) from: String,
    /// The destination, relative to the root of the copy.
    pub(super) below: String,
    /// Permission bits, as far as they are known.
    pub(super) mode: Option<u32>,
}

impl PlannedDirectory {
    /// The root of the copy.
    pub(super) fn top(from: &str) -> PlannedDirectory {
        PlannedDirectory { from: from.to_owned(), below: String::new(), mode: None }
    }
}

/// One file of a plan.
#[derive(Debug, Clone)]
pub(super) struct PlannedFile {
    /// The source path, with a final symbolic link resolved.
    pub(super) from: String,
    /// The destination, relative to the root of the copy.
    pub(super) below: String,
    pub(super) size: u64,
    pub(super) attributes: FileAttributes,
}

/// One symbolic link of a plan.
#[derive(Debug, Clone)]
pub(super) struct PlannedLink {
    /// The link at the source.
    pub(super) from: String,
    /// The destination, relative to the root of the copy.
    pub(super) below: String,
}

/// The files and directories to copy.
#[derive(Debug, Default)]
pub(super) struct CopyPlan {
    /// Directories relative to the root, parents before children.
    pub(super) directories: Vec<PlannedDirectory>,
    pub(super) files: Vec<PlannedFile>,
    pub(super) links: Vec<PlannedLink>,
    /// Everything at the source, also what is not copied.
    pub(super) names: HashSet<String>,
}

/// What happens to the symbolic links of a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LinkMode {
    /// They are copied as links.
    Keep,
    /// The files they lead to are copied.
    Follow,
    /// They are left out: the target cannot create them.
    Skip,
}

/// The files at the target, by their path relative to the root.
pub(super) type ExistingFiles = HashMap<String, FileMeta>;

type Listed = Result<Vec<Result<ListedEntry, CopyError>>, CopyError>;

/// Walks a tree. Entries that cannot be copied are reported and counted.
#[derive(Debug)]
pub(super) struct TreeWalk<'a> {
    pub(super) end: &'a CopyEndpoint,
    /// What happens to symbolic links.
    pub(super) links: LinkMode,
    pub(super) filter: &'a CopyFilter,
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
                    self.read_ignore_file(&entries, (&path, &below)).await?;
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
        plan.directories.sort_by(|one, other| one.below.cmp(&other.below));
        plan.files.sort_by(|one, other| one.below.cmp(&other.below));
        plan.links.sort_by(|one, other| one.below.cmp(&other.below));
        self.stats.expects(plan.files.iter().map(|file| file.size).sum());
        Ok(plan)
    }

    /// Reads the `.gitignore` of a directory, if it has one and they are used. The directory is listed after its parents.
    async fn read_ignore_file(
        &self,
        entries: &[Result<ListedEntry, CopyError>],
        (path, below): (&str, &str),
    ) -> Result<(), CopyError> {
        let is_ignore_file =
            |entry: &&ListedEntry| entry.name == IGNORE_FILE && entry.meta.kind == FileKind::File;
        let Some(found) = entries.iter().flatten().find(is_ignore_file) else { return Ok(()) };
        if self.filter.uses_ignore_files() && found.meta.size <= MAX_IGNORE_BYTES {
            let file = names::join(path, IGNORE_FILE);
            let (text, _) = self.end.read_whole(&file, found.meta.size).await?;
            for invalid in self.filter.add(below, &file, &String::from_utf8_lossy(&text))? {
                self.stats.note(format!("skipped {}", invalid.failure.message));
            }
        }
        Ok(())
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
        let (mut from, below) = (names::join(path, &name), names::join(below, &name));
        if self.filter.excludes(&below, meta.kind == FileKind::Dir) {
            return Ok(());
        }
        plan.names.insert(below.clone());
        if meta.kind == FileKind::Link && self.links == LinkMode::Keep {
            plan.links.push(PlannedLink { from, below });
            return Ok(());
        }
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
            FileKind::File => {
                plan.files.push(PlannedFile { from, below, size: meta.size, attributes: meta.attributes });
            }
            FileKind::Dir if below.split('/').count() < MAX_DEPTH => {
                let mode = meta.attributes.mode;
                plan.directories.push(PlannedDirectory { from: from.clone(), below: below.clone(), mode });
                waiting.push((from, below));
            }
            FileKind::Dir => self.stats.left_out(&from, "nested too deeply (limit 512)"),
            FileKind::Link | FileKind::Other => self.stats.left_out(&from, "not a file or directory"),
        }
        Ok(())
    }

    /// The target of a symbolic link, if links are followed and it is not a cycle.
    async fn lead(&self, link: &str) -> Result<Option<(String, FileMeta)>, CopyError> {
        if self.links == LinkMode::Skip {
            self.stats.left_out(link, "the target cannot create symbolic links (--follow copies the file)");
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
    directories: &[PlannedDirectory],
) -> Result<ExistingFiles, CopyError> {
    let mut existing = ExistingFiles::new();
    let mut lists = JoinSet::new();
    let mut waiting = std::iter::once("").chain(directories.iter().map(|directory| directory.below.as_str()));
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
