//! `fs/walk`: a directory tree, within limits.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;

use engine::RootedPath;
use engine::files::{self, DirEntry, FileKind, ListOptions, ScanBudget};
use wire::exec_server::v1::{self, FsWalkEntry, FsWalkError, FsWalkKind, FsWalkOptions, FsWalkResponse};
use wire::jsonrpc::RpcError;

use super::metadata::{followed_kind, not_found};
use super::{Context, PrepareResult, blocking, path, rpc_error, uri};

const MAX_DEPTH: u64 = 64;
const MAX_DIRECTORIES: u64 = 10_000;
const MAX_ENTRIES: u64 = 50_000;
/// Bytes of names in one response.
const MAX_BYTES: usize = 4 * 1024 * 1024;

/// Checks and converts a `fs/walk` request.
pub(crate) fn walk(params: &Arc<v1::FsWalkParams>, context: &Context<'_>) -> PrepareResult {
    check_limits(&params.options)?;
    let path = path(context, &params.path, params.sandbox.as_ref())?;
    let (options, found) = (params.options.clone(), FsWalkResponse::default());
    let walk = Walk { options, found, bytes: 0, directories: 0, entered: HashSet::new() };
    blocking(move || match files::stat_followed(&path).map_err(rpc_error)?.ok_or_else(not_found)? {
        (found, _) if found.kind == FileKind::Dir => Ok(walk.run(path)),
        _ => Ok(walk.found),
    })
}

/// Refuses a walk beyond the limits.
fn check_limits(options: &FsWalkOptions) -> Result<(), RpcError> {
    let limits = [
        (options.max_depth, MAX_DEPTH),
        (options.max_directories, MAX_DIRECTORIES),
        (options.max_entries, MAX_ENTRIES),
    ];
    if limits.into_iter().any(|(requested, limit)| requested > limit) {
        return Err(RpcError::invalid_request(format!(
            "filesystem walk limits exceed maximums: depth={MAX_DEPTH}, directories={MAX_DIRECTORIES}, \
             entries={MAX_ENTRIES}"
        )));
    }
    match options.max_directories == 0 || options.max_entries == 0 {
        true => Err(RpcError::invalid_request("filesystem walk limits must be greater than zero")),
        false => Ok(()),
    }
}

/// A walk, one level after the other.
struct Walk {
    options: FsWalkOptions,
    found: FsWalkResponse,
    bytes: usize,
    directories: u64,
    /// The resolved directories that were entered, so that a link back is not followed for ever.
    entered: HashSet<PathBuf>,
}

impl Walk {
    /// Depth 0 is the directory itself; entries below the requested depth do not count as truncated.
    fn run(mut self, top: RootedPath) -> FsWalkResponse {
        let mut level = vec![top];
        for _depth in 0..=self.options.max_depth {
            let mut below = Vec::new();
            self.found.truncated = !level.iter().all(|directory| self.enter(directory, &mut below));
            if self.found.truncated {
                break;
            }
            level = below;
        }
        self.found
    }

    /// Lists one directory; false when a limit is reached.
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
                self.found.errors.push(FsWalkError { path, message: rpc_error(error).message });
                return true;
            }
        };
        listing.entries.iter().all(|entry| self.add(directory, entry, below))
    }

    fn add(&mut self, directory: &RootedPath, entry: &DirEntry, below: &mut Vec<RootedPath>) -> bool {
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
        if self.found.entries.len() as u64 >= self.options.max_entries || self.bytes > MAX_BYTES {
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
