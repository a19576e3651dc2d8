//! What a path is: metadata, directories, where it really lies.

use engine::RootedPath;
use engine::files::{self, DirEntry, FileKind, ListOptions, Metadata, ScanBudget};
use wire::exec_server::v1::{
    self, FsCanonicalizeResponse, FsGetMetadataResponse, FsReadDirectoryEntry, FsReadDirectoryResponse,
};
use wire::exec_server::{ErrorObject, code};

use super::answer::Answer;
use super::errors::failed;
use super::files::check_links;
use super::paths::uri;
use super::session::Session;

/// Entries of a directory that are told at once.
const MOST_ENTRIES: usize = 50_000;

impl Session {
    /// `fs/getMetadata`: what it leads to, and whether it is a link itself.
    pub(super) fn metadata(&mut self, params: v1::FsGetMetadataParams, answer: Answer) {
        let path = match self.path(&params.path, params.sandbox.as_ref()) {
            Ok(path) => path,
            // Clients look for a repository in every directory above, and only what is absent there is fine with them.
            Err(error) if error.code == code::INVALID_REQUEST => {
                return self.reply(answer, Err::<(), _>(ErrorObject::new(code::NOT_FOUND, error.message)));
            }
            Err(error) => return self.reply(answer, Err::<(), _>(error)),
        };
        let follows = params.follow_symlinks.unwrap_or(true);
        // Most of what is asked for is not there, and the kernel knows without a disk.
        if let (true, Some(Ok(None))) = (follows, files::stat_cached(&path)) {
            let order = self.order.clone();
            if order.try_read().is_ok() {
                return self.reply(answer, Err::<(), _>(missing(&path)));
            }
        }
        self.look(answer, move || {
            check_links(&path, follows)?;
            let itself = files::stat(&path).map_err(failed)?.ok_or_else(|| missing(&path))?;
            let followed = files::stat_followed(&path).map_err(failed)?;
            let (found, made_ms) = followed.ok_or_else(|| missing(&path))?;
            Ok(described(&itself, &found, made_ms))
        });
    }

    /// `fs/readDirectory`: names, links followed, those that lead nowhere left out.
    pub(super) fn read_directory(&mut self, params: v1::FsReadDirectoryParams, answer: Answer) {
        let path = match self.path(&params.path, params.sandbox.as_ref()) {
            Ok(path) => path,
            Err(error) => return self.reply(answer, Err::<(), _>(error)),
        };
        self.look(answer, move || {
            let options =
                ListOptions { recursive: false, names_only: true, max_entries: Some(MOST_ENTRIES + 1) };
            let listing = files::list(&path, options, &ScanBudget::unbounded()).map_err(failed)?;
            if listing.entries.len() > MOST_ENTRIES {
                let message = format!("{} has more than {MOST_ENTRIES} entries", path.as_path().display());
                return Err(ErrorObject::internal(message));
            }
            let entries = listing.entries.iter().filter_map(|entry| {
                let kind = followed_kind(&path, entry)?;
                Some(FsReadDirectoryEntry {
                    file_name: entry.name().to_string_lossy().into_owned(),
                    is_directory: kind == FileKind::Dir,
                    is_file: kind == FileKind::File,
                })
            });
            Ok(FsReadDirectoryResponse { entries: entries.collect() })
        });
    }

    /// `fs/canonicalize`.
    pub(super) fn canonicalize(&mut self, params: v1::FsCanonicalizeParams, answer: Answer) {
        let path = match self.path(&params.path, params.sandbox.as_ref()) {
            Ok(path) => path,
            Err(error) => return self.reply(answer, Err::<(), _>(error)),
        };
        self.look(answer, move || {
            files::stat_followed(&path).map_err(failed)?.ok_or_else(|| missing(&path))?;
            let path = uri(&path.real().map_err(failed)?);
            Ok(FsCanonicalizeResponse { path })
        });
    }
}

/// What an entry of a directory is, links followed; nothing if it leads nowhere or elsewhere.
pub(super) fn followed_kind(directory: &RootedPath, entry: &DirEntry) -> Option<FileKind> {
    match entry.kind {
        FileKind::Symlink => {
            let path = directory.join(&entry.path).ok()?;
            files::stat_followed(&path).ok()?.map(|(found, _)| found.kind)
        }
        kind => Some(kind),
    }
}

fn described(itself: &Metadata, found: &Metadata, made_ms: Option<i64>) -> FsGetMetadataResponse {
    FsGetMetadataResponse {
        is_directory: found.kind == FileKind::Dir,
        is_file: found.kind == FileKind::File,
        is_symlink: itself.kind == FileKind::Symlink,
        size: Some(found.size),
        created_at_ms: made_ms.unwrap_or(0),
        modified_at_ms: found.mtime_ms,
    }
}

/// The answer about a path where nothing is.
pub(super) fn missing(path: &RootedPath) -> ErrorObject {
    let message = format!("{}: no such file or directory", path.as_path().display());
    ErrorObject::new(code::NOT_FOUND, message)
}
