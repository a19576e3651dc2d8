//! CopyFilter: what is left out of a copied tree, by patterns and by the `.gitignore` files of the source.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use super::error::CopyError;
use super::names;

/// Decides by paths relative to the root of the copy.
#[derive(Debug)]
pub(super) struct CopyFilter {
    patterns: Gitignore,
    /// The rules of each directory with an ignore file; `None` if they are not used.
    ignore_files: Option<Mutex<BTreeMap<String, Gitignore>>>,
}

impl CopyFilter {
    /// A filter with these patterns, which are written as in a `.gitignore`.
    pub(super) fn new(patterns: &[String], uses_ignore_files: bool) -> Result<CopyFilter, CopyError> {
        let (patterns, invalid) = build("--exclude", patterns.iter().map(String::as_str))?;
        if let Some(error) = invalid.into_iter().next() {
            return Err(error);
        }
        Ok(CopyFilter { patterns, ignore_files: uses_ignore_files.then(Mutex::default) })
    }

    /// Whether nothing can be left out.
    pub(super) fn is_empty(&self) -> bool {
        self.patterns.is_empty() && self.ignore_files.is_none()
    }

    /// Whether the ignore files of the source are to be added.
    pub(super) fn uses_ignore_files(&self) -> bool {
        self.ignore_files.is_some()
    }

    /// Adds the ignore file of a directory. As in git, invalid lines have no effect; returns their errors.
    pub(super) fn add(&self, below: &str, file: &str, text: &str) -> Result<Vec<CopyError>, CopyError> {
        let Some(ignore_files) = &self.ignore_files else { return Ok(Vec::new()) };
        let (rules, invalid) = build(file, text.lines())?;
        let mut ignore_files = ignore_files.lock().unwrap_or_else(PoisonError::into_inner);
        ignore_files.insert(below.to_owned(), rules);
        Ok(invalid)
    }

    /// Whether a path is left out. Its parents are not.
    pub(super) fn excludes(&self, below: &str, is_dir: bool) -> bool {
        if self.patterns.matched(below, is_dir).is_ignore() {
            return true;
        }
        let Some(ignore_files) = &self.ignore_files else { return false };
        let ignore_files = ignore_files.lock().unwrap_or_else(PoisonError::into_inner);
        // The rules of the nearest directory decide.
        let mut directory = names::parent(below);
        loop {
            let inside = below.strip_prefix(directory).unwrap_or(below).trim_start_matches('/');
            match ignore_files.get(directory).map(|rules| rules.matched(inside, is_dir)) {
                Some(Match::Ignore(_)) => return true,
                Some(Match::Whitelist(_)) => return false,
                Some(Match::None) | None if directory.is_empty() => return false,
                Some(Match::None) | None => directory = names::parent(directory),
            }
        }
    }
}

/// The rules of the valid lines, and the errors of the others.
fn build<'a>(
    origin: &str,
    lines: impl Iterator<Item = &'a str>,
) -> Result<(Gitignore, Vec<CopyError>), CopyError> {
    let error = |error: ignore::Error| CopyError::file(format!("invalid pattern of {origin}: {error}"));
    let mut builder = GitignoreBuilder::new(".");
    let mut invalid = Vec::new();
    for line in lines {
        invalid.extend(builder.add_line(None, line).err().map(error));
    }
    Ok((builder.build().map_err(error)?, invalid))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_in_an_ignore_file() {
        let patterns = ["*.o", "/top", "build/", "a/*.txt"].map(str::to_owned);
        let filter = CopyFilter::new(&patterns, false).unwrap();
        for (below, is_dir, excluded) in [
            ("x.o", false, true),
            ("deep/er/x.o", false, true),
            ("top", false, true),
            ("deep/top", false, false),
            ("build", true, true),
            ("deep/build", true, true),
            ("build", false, false),
            ("a/x.txt", false, true),
            ("b/a/x.txt", false, false),
        ] {
            assert_eq!(filter.excludes(below, is_dir), excluded, "{below}");
        }
        assert!(CopyFilter::new(&["a{".to_owned()], false).is_err());
    }

    #[test]
    fn the_nearest_ignore_file_decides() {
        let filter = CopyFilter::new(&[], true).unwrap();
        filter.add("", ".gitignore", "*.log\n/target\n# a comment\n").unwrap();
        let invalid = filter.add("keep", "keep/.gitignore", "!important.log\na{\nlocal\n").unwrap();
        assert_eq!(invalid.len(), 1, "an invalid line does not affect the others: {invalid:?}");
        for (below, excluded) in [
            ("a.log", true),
            ("keep/a.log", true),
            ("keep/important.log", false),
            ("keep/deep/important.log", false),
            ("target", true),
            ("keep/target", false),
            ("keep/local", true),
            ("local", false),
        ] {
            assert_eq!(filter.excludes(below, false), excluded, "{below}");
        }
    }
}
