//! Listing directories.

use std::collections::VecDeque;

use futures_util::{StreamExt as _, stream};
use wire::exec_server::v1::FsReadDirectoryParams;
use wire::rexd::v1::{self, ListEntry, RpcError};

use super::{Bridge, look, refusal};

/// Entries that one answer holds.
const MOST_ENTRIES: usize = 50_000;
/// Entries that are looked at in one go.
const AT_ONCE: usize = 32;

impl Bridge {
    pub(super) async fn fs_list(&self, ask: v1::FsList) -> Result<v1::FsListResult, RpcError> {
        let path = self.path(&ask.path);
        let asked = ask.max_entries.and_then(|most| usize::try_from(most).ok()).filter(|most| *most > 0);
        let most = asked.unwrap_or(MOST_ENTRIES).min(MOST_ENTRIES);
        let mut entries = Vec::new();
        let mut folders = VecDeque::from([path.clone()]);
        let mut truncated = false;
        while let Some(folder) = folders.pop_front() {
            let found = match self.folder(&folder, ask.names_only).await {
                Ok(found) => found,
                // What vanishes or is closed to us below does not spoil the rest.
                Err(_) if folder != path => continue,
                Err(error) => return Err(error),
            };
            if ask.recursive {
                let below = found.iter().filter(|entry| entry.kind == "dir");
                folders.extend(below.map(|entry| entry.path.clone()));
            }
            truncated |= entries.len() + found.len() > most;
            entries.extend(found.into_iter().take(most.saturating_sub(entries.len())));
            if truncated {
                break;
            }
        }
        if ask.recursive {
            entries.sort_by(|one, other| one.path.cmp(&other.path));
        }
        Ok(v1::FsListResult { path, entries, truncated })
    }

    async fn folder(&self, path: &str, names_only: bool) -> Result<Vec<ListEntry>, RpcError> {
        let params = FsReadDirectoryParams { path: self.there(path), sandbox: None };
        let listed =
            self.client.fs_read_directory(params).await.map_err(|error| self.wrong_file(error, path))?;
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
        let described = stream::iter(entries).map(|entry| self.described(entry)).buffered(AT_ONCE);
        Ok(described.collect().await)
    }

    /// With size and time, if it is still there.
    async fn described(&self, entry: ListEntry) -> ListEntry {
        let Ok(Some(found)) = self.metadata(&entry.path).await else { return entry };
        let size = self.size(&entry.path, &found).await.filter(|_| found.is_file);
        let kind = look::kind(&found).to_owned();
        ListEntry { kind, size, mtime: Some(found.modified_at_ms), ..entry }
    }

    /// Refuses if something is there.
    pub(super) async fn must_be_free(&self, path: &str) -> Result<(), RpcError> {
        match self.metadata(path).await? {
            Some(_) => Err(refusal::exists(path)),
            None => Ok(()),
        }
    }
}
