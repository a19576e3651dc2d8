//! Index of path rules: finds the few rules that can match a path.

use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::path_glob::{GlobKey, PathGlob};

/// Path rules by a property that all their paths have.
#[derive(Debug, Clone, Default)]
pub(super) struct PathIndex {
    by_directory: HashMap<Vec<u8>, Vec<usize>>,
    by_name: HashMap<Vec<u8>, Vec<usize>>,
    rest: Vec<usize>,
    all: Vec<usize>,
}

impl PathIndex {
    /// Adds one glob of a rule.
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

    /// Rules that could match a cleaned path, in order; all rules if the access is recursive.
    pub(super) fn candidates(&self, path: &Path, is_recursive: bool) -> Vec<usize> {
        if is_recursive {
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
