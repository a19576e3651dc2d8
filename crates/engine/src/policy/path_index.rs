//! An index of path rules, so that a decision looks at the few that can match and not at all of them.

use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::path_glob::{GlobKey, PathGlob};

/// Path rules by what every path they match has.
#[derive(Debug, Clone, Default)]
pub(super) struct PathIndex {
    by_directory: HashMap<Vec<u8>, Vec<usize>>,
    by_name: HashMap<Vec<u8>, Vec<usize>>,
    rest: Vec<usize>,
    all: Vec<usize>,
}

impl PathIndex {
    /// Adds a rule by one of its globs.
    pub(super) fn add(&mut self, glob: &PathGlob, rule: usize) {
        match glob.key() {
            GlobKey::Directory(directory) => self.by_directory.entry(directory).or_default().push(rule),
            GlobKey::Name(name) => self.by_name.entry(name).or_default().push(rule),
            GlobKey::None => self.rest.push(rule),
        }
        if self.all.last() != Some(&rule) {
            self.all.push(rule);
        }
    }

    /// The rules that could match a clean path, in their order. Every rule could match something in a tree.
    pub(super) fn candidates(&self, path: &Path, tree: bool) -> Vec<usize> {
        if tree {
            return self.all.clone();
        }
        let mut found = self.rest.clone();
        for directory in path.ancestors() {
            found.extend(self.by_directory.get(directory.as_os_str().as_bytes()).into_iter().flatten());
        }
        let name = path.file_name().unwrap_or_default();
        found.extend(self.by_name.get(name.as_bytes()).into_iter().flatten());
        found.sort_unstable();
        found.dedup();
        found
    }
}
