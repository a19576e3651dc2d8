//! Finds names that match a pattern, and visits only directories that can contain one.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::glob_pattern::{Part, Pattern, bad, is_literal, parse};
use super::guard::EntryFilter;
use super::path::{RootedPath, Roots};
use super::refused;
use super::scan::ScanBudget;
use super::stat::FileKind;
use super::walk::{DirReader, MAX_DEPTH, open_child};
use crate::Error;
use std::os::fd::OwnedFd;

/// Limits of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GlobOptions {
    /// Limit on the number of matches.
    pub max_matches: Option<usize>,
}

/// The paths that matched a glob.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GlobResult {
    /// Absolute paths, sorted bytewise.
    pub paths: Vec<PathBuf>,
    /// Whether there are more matches.
    pub truncated: bool,
}

/// Finds files and directories by a pattern, absolute or relative to `base`: `*` and `?` within a name (also with a
/// leading dot), `[a-z]`, `{a,b}`, and `**` for any number of directories. `**` does not enter directories with a
/// leading dot or symlinks; explicit parts of the pattern do.
pub fn glob(
    roots: &Roots,
    base: &Path,
    pattern: &str,
    options: GlobOptions,
    scan: &ScanBudget,
) -> Result<GlobResult, Error> {
    let (top, rest) = fixed_part(pattern);
    let top = roots.admit(base, Path::new(top))?;
    let patterns = parse(rest)?;
    if patterns
        .iter()
        .flat_map(|pattern| &pattern.parts)
        .any(|part| matches!(part, Part::Literal(text) if text == ".."))
    {
        return Err(bad(pattern, "`..` cannot follow a wildcard"));
    }
    let mut search =
        Search { patterns: &patterns, options, scan, reader: DirReader::new(), found: GlobResult::default() };
    let states = patterns.iter().enumerate().map(|(index, _)| State { pattern: index, part: 0 }).collect();
    let states = search.settled(states);
    // A pattern without wildcards matches one path of any kind.
    if states.iter().any(|state| search.is_end(*state)) && super::stat(&top)?.is_some() {
        search.found.paths.push(top.as_path().to_owned());
    }
    match top.open_listing() {
        Ok(dir) => search.directory(&top, dir, top.as_path().as_os_str().as_bytes().to_vec(), &states, 0)?,
        // If the fixed part does not exist, nothing matches.
        Err(Error::File { source, .. }) if nowhere(&source) => {}
        Err(error) => return Err(error),
    }
    let mut found = search.found;
    found.paths.sort_unstable();
    found.paths.dedup();
    Ok(found)
}

/// Splits a pattern into the leading parts without wildcards and the rest.
fn fixed_part(pattern: &str) -> (&str, &str) {
    let mut end = 0;
    for part in pattern.split_inclusive('/') {
        if !is_literal(part) {
            break;
        }
        end += part.len();
    }
    pattern.split_at(end)
}

fn nowhere(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{NotADirectory, NotFound};
    matches!(error.kind(), NotFound | NotADirectory)
}

/// The state of the match of one pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct State {
    pattern: usize,
    part: usize,
}

struct Search<'a> {
    patterns: &'a [Pattern],
    options: GlobOptions,
    scan: &'a ScanBudget,
    reader: DirReader,
    found: GlobResult,
}

impl Search<'_> {
    fn part(&self, state: State) -> Option<&Part> {
        self.patterns[state.pattern].parts.get(state.part)
    }

    fn is_end(&self, state: State) -> bool {
        self.part(state).is_none()
    }

    /// Adds the states that are reached because `**` can match no directory.
    fn settled(&self, mut states: Vec<State>) -> Vec<State> {
        let mut index = 0;
        while let Some(state) = states.get(index).copied() {
            let next = State { part: state.part + 1, ..state };
            // A final `**` matches the entries below, not the directory itself.
            let passes = matches!(self.part(state), Some(Part::Deep)) && !self.is_end(next);
            if passes && !states.contains(&next) {
                states.push(next);
            }
            index += 1;
        }
        states
    }

    /// Matches the names in one directory with the path `path`.
    fn directory(
        &mut self,
        top: &RootedPath,
        dir: OwnedFd,
        path: Vec<u8>,
        states: &[State],
        depth: usize,
    ) -> Result<(), Error> {
        self.scan.check("glob")?;
        if depth >= MAX_DEPTH {
            self.found.truncated = true;
            return Ok(());
        }
        let names = match self.reader.names(&dir) {
            Ok(names) => names,
            Err(errno) if depth == 0 => return Err(refused("list", top.as_path())(errno)),
            Err(_) => return Ok(()),
        };
        let filter = EntryFilter::new(top.roots(), &dir);
        let mut path = path;
        if path.last() != Some(&b'/') {
            path.push(b'/');
        }
        let prefix = path.len();
        for (name, kind) in names.iter() {
            let next = self.step(states, name, kind);
            if next.is_empty() || !filter.allows(OsStr::from_bytes(name)) {
                continue;
            }
            path.truncate(prefix);
            path.extend_from_slice(name);
            if next.iter().any(|state| self.is_end(*state)) && !self.push(&path) {
                return Ok(());
            }
            if next.iter().any(|state| !self.is_end(*state))
                && let Some(child) = self.enter(top, &dir, name, kind, &path)
            {
                self.directory(top, child, path.clone(), &next, depth + 1)?;
                if self.found.truncated {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// The states after a name.
    fn step(&self, states: &[State], name: &[u8], kind: FileKind) -> Vec<State> {
        let mut next = Vec::new();
        for state in states {
            let Some(part) = self.part(*state) else { continue };
            let after = State { part: state.part + 1, ..*state };
            if let Part::Deep = part {
                if self.is_end(after) {
                    next.push(after);
                }
                if kind == FileKind::Dir && !name.starts_with(b".") {
                    next.push(*state);
                }
            } else if part.matches(name) {
                next.push(after);
            }
        }
        if next.is_empty() { next } else { self.settled(next) }
    }

    /// Opens a directory to continue in. A symlink is followed only inside the roots.
    fn enter(
        &self,
        top: &RootedPath,
        dir: &OwnedFd,
        name: &[u8],
        kind: FileKind,
        path: &[u8],
    ) -> Option<OwnedFd> {
        match kind {
            FileKind::Dir => open_child(dir, name).ok(),
            FileKind::Symlink => top.join(Path::new(OsStr::from_bytes(path))).ok()?.open_listing().ok(),
            FileKind::File | FileKind::Other => None,
        }
    }

    fn push(&mut self, path: &[u8]) -> bool {
        if self.options.max_matches.is_some_and(|most| self.found.paths.len() >= most) {
            self.found.truncated = true;
            return false;
        }
        self.found.paths.push(PathBuf::from(OsStr::from_bytes(path)));
        true
    }
}
