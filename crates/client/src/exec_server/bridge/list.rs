//! Lists directories, with the metadata of their entries.

use std::collections::VecDeque;

use futures_util::{StreamExt as _, stream};
use wire::exec_server::v1::FsReadDirectoryParams;
use wire::rexd::v1::{self, ListEntry, RpcError};

use super::{Bridge, errors, read};

/// Entries in one response.
const MAX_ENTRIES: usize = 50_000;
/// Metadata requests in flight.
const CONCURRENT_REQUESTS: usize = 32;

impl Bridge {
    pub(super) async fn fs_list(&self, params: v1::FsList) -> Result<v1::FsListResult, RpcError> {
        let path = self.path(&params.path);
        let requested = params.max_entries.and_then(|max| usize::try_from(max).ok()).filter(|max| *max > 0);
        let max = requested.unwrap_or(MAX_ENTRIES).min(MAX_ENTRIES);
        let mut entries = Vec::new();
        let mut directories = VecDeque::from([path.clone()]);
        let mut truncated = false;
        while let Some(directory) = directories.pop_front() {
            let found = match self.read_directory(&directory, params.names_only).await {
                Ok(found) => found,
                // A subdirectory may be removed or unreadable; the others are still listed.
                Err(_) if directory != path => continue,
                Err(error) => return Err(error),
            };
            if params.recursive {
                let below = found.iter().filter(|entry| entry.kind == "dir");
                directories.extend(below.map(|entry| entry.path.clone()));
            }
            truncated |= entries.len() + found.len() > max;
            entries.extend(found.into_iter().take(max.saturating_sub(entries.len())));
            if truncated {
                break;
            }
        }
        if params.recursive {
            entries.sort_by(|one, other| one.path.cmp(&other.path));
        }
        Ok(v1::FsListResult { path, entries, truncated })
    }

    async fn read_directory(&self, path: &str, names_only: bool) -> Result<Vec<ListEntry>, RpcError> {
        let params = FsReadDirectoryParams { path: self.remote_path(path), sandbox: None };
        let listed =
            self.client.fs_read_directory(params).await.map_err(|error| self.translate_file(error, path))?;
        let base = path.trim_end_matches('/');
        let entry = |name: String, is_directory: bool, is_file: bool| {
            let kind = match (is_directory, is_file) {
                (true, _) => "dir",
                (_, true) => "file",
                _ => "other",
            };
            let path = format!("{base}/{name}");
            ListEntry { path, name, kind: kind.to_owned(), size: None, mtime: None }
        };
        let mut entries = listed
            .entries
            .into_iter()
            .map(|found| entry(found.file_name, found.is_directory, found.is_file))
            .collect::<Vec<_>>();
        entries.sort_by(|one, other| one.name.cmp(&other.name));
        if names_only {
            return Ok(entries);
        }
        let entries =
            stream::iter(entries).map(|entry| self.with_metadata(entry)).buffered(CONCURRENT_REQUESTS);
        Ok(entries.collect().await)
    }

    /// Adds kind, size and time, if the entry still exists.
    async fn with_metadata(&self, entry: ListEntry) -> ListEntry {
        let Ok(Some(found)) = self.metadata(&entry.path).await else { return entry };
        let size = self.size(&entry.path, &found).await.filter(|_| found.is_file);
        let kind = read::kind(&found).to_owned();
        ListEntry { kind, size, mtime: Some(found.modified_at_ms), ..entry }
    }

    /// Fails if the path exists.
    pub(super) async fn ensure_absent(&self, path: &str) -> Result<(), RpcError> {
        match self.metadata(path).await? {
            Some(_) => Err(errors::already_exists(path)),
            None => Ok(()),
        }
    }
}
