//! `fs/watchMissing`: one notification when a missing file appears or a present one disappears.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use engine::RootedPath;
use engine::files::{self, FileWatcher, WatchGroup};
use link::task::OwnedTask;
use tokio::sync::Notify;
use wire::exec_server::envelope;
use wire::exec_server::v1::{self, FsMissingChangedNotification, FsWatchMissingResponse};
use wire::jsonrpc::RpcError;

use super::{Context, ExecServerPrepared, PrepareResult, path};
use crate::core::request::{AuthorizedRequest, off_thread};

/// Paths in one watch.
const MAX_PATHS: usize = 1_024;
/// Directories that are watched for them.
const MAX_WATCHED: usize = 32;

/// Checks and converts a `fs/watchMissing` request. A newer watch of the connection replaces an older one.
pub(crate) fn watch(params: &Arc<v1::FsWatchMissingParams>, context: &Context<'_>) -> PrepareResult {
    if params.missing.len() > MAX_PATHS {
        return Err(RpcError::invalid_request(format!("too many paths (limit {MAX_PATHS})")));
    }
    let admit = |text: &String| path(context, text, None);
    let missing = params.missing.iter().map(admit).collect::<Result<Vec<RootedPath>, RpcError>>()?;
    let present = params.present.as_ref().map(admit).transpose()?;
    let (watch_id, watched) = (params.watch_id, Arc::new(WatchedPaths { missing, present }));
    Ok(ExecServerPrepared::new(move |session, request| {
        session.state.missing = None;
        let Some(outgoing) = session.state.outgoing.clone() else { return };
        let group = session.engine.watches().clone();
        let watch = run((group, watched), request, async move || {
            let event = FsMissingChangedNotification { watch_id };
            let line = envelope::notification(v1::FS_MISSING_CHANGED, &event).unwrap_or_default();
            outgoing.event(Bytes::from(line)).await.ok();
        });
        session.state.missing = Some(OwnedTask::spawn(watch));
    }))
}

/// Watches until something has changed, and calls `notify` once.
async fn run(
    (group, watched): (WatchGroup, Arc<WatchedPaths>),
    request: AuthorizedRequest,
    notify: impl AsyncFnOnce(),
) {
    let changed = Arc::new(Notify::new());
    let (paths, signal) = (watched.clone(), changed.clone());
    let watchers = off_thread(move || Ok(paths.watch(&group, &signal))).await.unwrap_or_default();
    request.finish(Ok(FsWatchMissingResponse { watching: !watchers.is_empty() })).await;
    let mut before: Vec<bool> = Vec::new();
    while !watchers.is_empty() {
        changed.notified().await;
        let paths = watched.clone();
        let Ok((has_changed, parents)) = off_thread(move || Ok(paths.look())).await else { return };
        // A parent directory that appeared would have to be watched now: the client watches again.
        if has_changed || (!before.is_empty() && parents != before) {
            return notify().await;
        }
        before = parents;
    }
}

/// The paths of a watch.
struct WatchedPaths {
    missing: Vec<RootedPath>,
    present: Option<RootedPath>,
}

impl WatchedPaths {
    /// Whether a path has appeared or disappeared, and which parent directories exist.
    fn look(&self) -> (bool, Vec<bool>) {
        let parents = self.missing.iter().map(has_parent).collect();
        let has_changed = self.missing.iter().any(exists) || self.present.iter().any(|path| !exists(path));
        (has_changed, parents)
    }

    /// Watches the directories in which the paths would appear or disappear; empty if that is not possible, or if there
    /// is nothing to wait for.
    fn watch(&self, group: &WatchGroup, changed: &Arc<Notify>) -> Vec<FileWatcher> {
        let mut directories: Vec<RootedPath> = Vec::new();
        for directory in self.missing.iter().chain(&self.present).filter_map(nearest_directory) {
            if !directories.contains(&directory) {
                directories.push(directory);
            }
        }
        if directories.len() > MAX_WATCHED || self.missing.iter().any(exists) {
            return Vec::new();
        }
        let watch = |directory: &RootedPath| {
            let changed = changed.clone();
            group.watch(directory, false, move |_changes| changed.notify_one())
        };
        let started: Result<Vec<FileWatcher>, _> = directories.iter().map(watch).collect();
        // Something may have happened before the watches were set up.
        changed.notify_one();
        started.unwrap_or_else(|error| {
            tracing::debug!(%error, "cannot watch for missing files");
            Vec::new()
        })
    }
}

fn exists(path: &RootedPath) -> bool {
    matches!(files::stat(path), Ok(Some(_)))
}

/// Whether the parent directory of a path exists.
pub(super) fn has_parent(path: &RootedPath) -> bool {
    let parent = path.as_path().parent().unwrap_or(Path::new("/"));
    path.roots().admit(parent, parent).is_ok_and(|parent| exists(&parent))
}

/// The deepest existing directory above a path.
fn nearest_directory(path: &RootedPath) -> Option<RootedPath> {
    path.as_path().ancestors().skip(1).find_map(|above| {
        let above = path.roots().admit(above, above).ok()?;
        exists(&above).then_some(above)
    })
}
