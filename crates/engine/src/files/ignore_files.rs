//! The ignore files of a search: `.ignore`, `.gitignore` and `.git/info/exclude`, opened beneath the roots.
//!
//! The walker of the `ignore` crate reads such files by path, of any size, through links and above the roots. Here they
//! are opened like every other file, without following a link, and read up to [`MAX_BYTES`].

use std::collections::HashMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use super::path::RootedPath;
use super::stat::FileKind;

/// The part of an ignore file that is read.
const MAX_BYTES: u64 = 1024 * 1024;
/// Patterns of one file, and of all files of a search, that are used: compiled patterns take memory.
const MAX_PATTERNS_PER_FILE: usize = 4096;
const MAX_PATTERNS: usize = 65_536;

/// Ignore files by kind, the strongest first. All but the first count only inside of a git repository.
const KINDS: [&str; 3] = [".ignore", ".gitignore", ".git/info/exclude"];

/// The ignore files of one search.
#[derive(Debug)]
pub(super) struct IgnoreFiles {
    top: RootedPath,
    directories: RwLock<HashMap<PathBuf, Arc<IgnoreRules>>>,
    patterns: AtomicUsize,
}

/// The ignore files of one directory, and those of the directory above it.
#[derive(Debug)]
struct IgnoreRules {
    kinds: [Option<Gitignore>; KINDS.len()],
    /// Whether a repository starts here; git's ignore files above it do not count.
    is_repository: bool,
    parent: Option<Arc<IgnoreRules>>,
}

impl IgnoreFiles {
    /// The ignore files for a search below `top`.
    pub(super) fn new(top: &RootedPath) -> Self {
        Self { top: top.clone(), directories: RwLock::default(), patterns: AtomicUsize::new(0) }
    }

    /// Whether an entry is left out. Its directory must have been entered by the search.
    pub(super) fn ignores(&self, path: &Path, is_dir: bool) -> bool {
        let Some(parent) = path.parent().filter(|parent| parent.starts_with(self.top.as_path())) else {
            return false;
        };
        self.rules(parent).is_some_and(|rules| rules.ignores(path, is_dir))
    }

    /// The rules in a directory; they are read when they are first needed.
    fn rules(&self, directory: &Path) -> Option<Arc<IgnoreRules>> {
        let known =
            |path: &Path| self.directories.read().unwrap_or_else(PoisonError::into_inner).get(path).cloned();
        if let Some(rules) = known(directory) {
            return Some(rules);
        }
        let rooted = self.rooted(directory)?;
        let parent = match rooted.parent() {
            Some(above) => self.rules(above.as_path()),
            None => None,
        };
        let rules = Arc::new(IgnoreRules::read(&rooted, parent, &self.patterns));
        let mut directories = self.directories.write().unwrap_or_else(PoisonError::into_inner);
        Some(Arc::clone(directories.entry(directory.to_owned()).or_insert(rules)))
    }

    /// The directory as a path below the same roots.
    fn rooted(&self, directory: &Path) -> Option<RootedPath> {
        self.top.roots().admit(Path::new("/"), directory).ok()
    }
}

impl IgnoreRules {
    fn read(directory: &RootedPath, parent: Option<Arc<IgnoreRules>>, patterns: &AtomicUsize) -> Self {
        let is_repository =
            directory.join(Path::new(".git")).is_ok_and(|git| matches!(super::stat(&git), Ok(Some(_))));
        let kinds = KINDS.map(|name| match name {
            ".git/info/exclude" if !is_repository => None,
            name => read_file(directory, name, patterns),
        });
        Self { kinds, is_repository, parent }
    }

    fn ignores(&self, path: &Path, is_dir: bool) -> bool {
        let is_in_repository = self.levels().any(|level| level.is_repository);
        for kind in 0..KINDS.len() {
            if kind > 0 && !is_in_repository {
                return false;
            }
            for level in self.levels() {
                let matched =
                    level.kinds[kind].as_ref().map_or(Match::None, |file| file.matched(path, is_dir));
                match matched {
                    Match::Ignore(_) => return true,
                    Match::Whitelist(_) => return false,
                    Match::None if kind > 0 && level.is_repository => break,
                    Match::None => {}
                }
            }
        }
        false
    }

    fn levels(&self) -> impl Iterator<Item = &IgnoreRules> {
        std::iter::successors(Some(self), |level| level.parent.as_deref())
    }
}

/// The rules of a regular file that is no link; none if it cannot be read.
fn read_file(directory: &RootedPath, name: &str, patterns: &AtomicUsize) -> Option<Gitignore> {
    let path = directory.join(Path::new(name)).ok()?;
    if super::stat(&path).ok()??.kind != FileKind::File {
        return None;
    }
    let mut text = Vec::new();
    path.open_file().ok()?.take(MAX_BYTES).read_to_end(&mut text).ok()?;
    let mut builder = GitignoreBuilder::new(directory.as_path());
    for line in String::from_utf8_lossy(&text).lines().take(MAX_PATTERNS_PER_FILE) {
        if patterns.fetch_add(1, Ordering::Relaxed) >= MAX_PATTERNS {
            break;
        }
        // As in git, a line that is not a valid pattern has no effect.
        let _invalid = builder.add_line(None, line);
    }
    builder.build().ok()
}
