//! `fs/walk`: a tree, as far as its bounds go.

use std::collections::HashSet;
use std::path::PathBuf;

use engine::RootedPath;
use engine::files::{self, DirEntry, FileKind, ListOptions, ScanBudget};
use wire::exec_server::ErrorObject;
use wire::exec_server::v1::{self, FsWalkEntry, FsWalkError, FsWalkKind, FsWalkOptions, FsWalkResponse};

use super::answer::Answer;
use super::errors::failed;
use super::look::{followed_kind, missing};
use super::paths::uri;
use super::session::Session;

const MOST_DEPTH: u64 = 64;
const MOST_DIRECTORIES: u64 = 10_000;
const MOST_ENTRIES: u64 = 50_000;
/// Bytes of names in one answer.
const MOST_BYTES: usize = 4 * 1024 * 1024;

impl Session {
    /// `fs/walk`.
    pub(super) fn walk(&mut self, params: v1::FsWalkParams, answer: Answer) {
        let bounds = within_bounds(&params.options);
        let path = match bounds.and_then(|()| self.path(&params.path, params.sandbox.as_ref())) {
            Ok(path) => path,
            Err(error) => return self.reply(answer, Err::<(), _>(error)),
        };
        self.look(answer, move || {
            match files::stat_followed(&path).map_err(failed)?.ok_or_else(|| missing(&path))? {
                (found, _) if found.kind == FileKind::Dir => Ok(Walk::new(params.options).run(path)),
                // There is nothing in what is no directory.
                _ => Ok(FsWalkResponse::default()),
            }
        });
    }
}

/// Whether a walk asks for no more than anybody may.
fn within_bounds(options: &FsWalkOptions) -> Result<(), ErrorObject> {
    let most = [
        ("maxDepth", options.max_depth, MOST_DEPTH),
        ("maxDirectories", options.max_directories, MOST_DIRECTORIES),
        ("maxEntries", options.max_entries, MOST_ENTRIES),
    ];
    match most.into_iter().find(|(_, asked, most)| asked > most) {
        None if options.max_entries == 0 => Err(ErrorObject::invalid_request("maxEntries is at least 1")),
        None => Ok(()),
        Some((name, _, most)) => Err(ErrorObject::invalid_request(format!("{name} is at most {most}"))),
    }
}

/// A walk under way, one level after the other.
struct Walk {
    options: FsWalkOptions,
    found: FsWalkResponse,
    bytes: usize,
    directories: u64,
    /// Where directories really are that were entered: a link back is not followed for ever.
    entered: HashSet<PathBuf>,
}

impl Walk {
    fn new(options: FsWalkOptions) -> Walk {
        let found = FsWalkResponse::default();
        Walk { options, found, bytes: 0, directories: 0, entered: HashSet::new() }
    }

    /// Depth 0 is what the directory itself holds; what lies deeper than asked for was not asked for, so nothing is missing.
    fn run(mut self, top: RootedPath) -> FsWalkResponse {
        let mut level = vec![top];
        for _depth in 0..=self.options.max_depth {
            let mut below = Vec::new();
            for directory in std::mem::take(&mut level) {
                if !self.enter(&directory, &mut below) {
                    self.found.truncated = true;
                    return self.found;
                }
            }
            level = below;
        }
        self.found
    }

    /// Lists one directory; false when a bound is reached.
    fn enter(&mut self, directory: &RootedPath, below: &mut Vec<RootedPath>) -> bool {
        if directory.real().is_ok_and(|real| !self.entered.insert(real)) {
            return true;
        }
        if self.directories >= self.options.max_directories {
            return false;
        }
        self.directories += 1;
        let options = ListOptions { recursive: false, names_only: true, max_entries: None };
        let listing = match files::list(directory, options, &ScanBudget::unbounded()) {
            Ok(listing) => listing,
            Err(error) => {
                let path = uri(directory.as_path());
                self.found.errors.push(FsWalkError { path, message: error.to_string() });
                return true;
            }
        };
        listing.entries.iter().all(|entry| self.note(directory, entry, below))
    }

    fn note(&mut self, directory: &RootedPath, entry: &DirEntry, below: &mut Vec<RootedPath>) -> bool {
        let kind = match followed_kind(directory, entry) {
            Some(FileKind::File) => FsWalkKind::File,
            Some(FileKind::Dir) => FsWalkKind::Directory,
            _ => return true,
        };
        let is_followed = kind == FsWalkKind::Directory && self.options.follow_directory_symlinks;
        if entry.kind == FileKind::Symlink && !is_followed {
            return true;
        }
        let is_hidden = entry.name().as_encoded_bytes().starts_with(b".");
        let is_pruned = is_hidden && self.options.prune_hidden_directories;
        let path = uri(&entry.path);
        self.bytes += path.len() + 32;
        if self.found.entries.len() as u64 >= self.options.max_entries || self.bytes > MOST_BYTES {
            return false;
        }
        self.found.entries.push(FsWalkEntry { path, kind });
        if kind == FsWalkKind::Directory
            && !is_pruned
            && let Ok(path) = directory.join(&entry.path)
        {
            below.push(path);
        }
        true
    }
}
