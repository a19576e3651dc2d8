//! `fs/watchMissing`: one notification when a missing file appears or a present one disappears.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use engine::RootedPath;
use engine::files::{self, FileWatcher};
use link::Outgoing;
use link::task::OwnedTask;
use tokio::sync::mpsc;
use wire::exec_server::envelope;
use wire::exec_server::v1::{self, FsMissingChangedNotification, FsWatchMissingResponse};
use wire::jsonrpc::RpcError;

use super::{ExecServerPrepared, PrepareResult, off_thread, path};
use crate::core::request::{AuthorizedRequest, RequestContext};
use crate::faces::exec_server::session::Session;

/// Paths in one watch.
const MAX_PATHS: usize = 1_024;
/// Directories that are watched for them: each costs an inotify instance, of which a user has few.
const MAX_WATCHED: usize = 32;

/// The watch of a connection; a newer one replaces it.
#[derive(Debug)]
pub(crate) struct MissingWatch {
    _task: OwnedTask<()>,
}

/// Checks and converts a `fs/watchMissing` request.
pub(crate) fn watch(
    params: &Arc<v1::FsWatchMissingParams>,
    session: &Session,
    context: &RequestContext,
) -> PrepareResult {
    if params.missing.len() > MAX_PATHS {
        return Err(RpcError::invalid_request(format!("too many paths (limit {MAX_PATHS})")));
    }
    let mut missing = Vec::new();
    for text in &params.missing {
        missing.push(path(session, context, text, None)?);
    }
    let present = params.present.as_deref().map(|text| path(session, context, text, None)).transpose()?;
    let watch_id = params.watch_id;
    Ok(ExecServerPrepared::new(move |session, request| {
        session.state.missing = None;
        let Some(outgoing) = session.state.outgoing.clone() else { return };
        let watched = WatchedPaths { watch_id, missing, present, outgoing };
        session.state.missing = Some(MissingWatch { _task: OwnedTask::spawn(watched.start(request)) });
    }))
}

/// The paths of a watch, and where its notification goes.
struct WatchedPaths {
    watch_id: i64,
    missing: Vec<RootedPath>,
    present: Option<RootedPath>,
    outgoing: Outgoing,
}

impl WatchedPaths {
    async fn start(self, request: AuthorizedRequest) {
        let (changed, changes) = mpsc::channel(1);
        let (missing, present) = (self.missing.clone(), self.present.clone());
        let watch = move || match missing.iter().any(exists) {
            // There is nothing to wait for.
            true => Ok(Vec::new()),
            false => Ok(watch_parents(missing.iter().chain(&present), &changed)),
        };
        let watchers = off_thread(watch).await.unwrap_or_default();
        let watching = !watchers.is_empty();
        request.finish(Ok(FsWatchMissingResponse { watching })).await;
        if watching {
            self.notify(changes).await;
        }
    }

    async fn notify(self, mut changes: mpsc::Receiver<()>) {
        let WatchedPaths { watch_id, missing, present, outgoing } = self;
        let mut before: Vec<bool> = Vec::new();
        while changes.recv().await.is_some() {
            let look = {
                let (missing, present) = (missing.clone(), present.clone());
                move || {
                    let parents: Vec<bool> = missing.iter().map(has_parent).collect();
                    let has_appeared = missing.iter().any(exists);
                    (has_appeared || present.is_some_and(|path| !exists(&path)), parents)
                }
            };
            let Ok((has_changed, parents)) = tokio::task::spawn_blocking(look).await else { return };
            // A parent directory that appeared would have to be watched now: the client watches again.
            let is_nearer = !before.is_empty() && parents != before;
            before = parents;
            if has_changed || is_nearer {
                let event = FsMissingChangedNotification { watch_id };
                let line = envelope::notification(v1::FS_MISSING_CHANGED, &event).unwrap_or_default();
                outgoing.event(Bytes::from(line)).await.ok();
                return;
            }
        }
    }
}

/// Watches the directories in which these paths would appear or disappear; empty if that is not possible.
fn watch_parents<'a>(
    paths: impl Iterator<Item = &'a RootedPath>,
    changed: &mpsc::Sender<()>,
) -> Vec<FileWatcher> {
    let mut directories: Vec<RootedPath> = Vec::new();
    for directory in paths.filter_map(nearest_directory) {
        if !directories.contains(&directory) {
            directories.push(directory);
        }
    }
    if directories.len() > MAX_WATCHED {
        return Vec::new();
    }
    let watch = |directory: &RootedPath| {
        let changed = changed.clone();
        // A signal that is already queued says the same.
        FileWatcher::start(directory, false, move |_changes| {
            changed.try_send(()).ok();
        })
    };
    let started: Result<Vec<FileWatcher>, _> = directories.iter().map(watch).collect();
    // Something may have happened before the watches were set up.
    changed.try_send(()).ok();
    started.unwrap_or_else(|error| {
        tracing::debug!(%error, "cannot watch for missing files");
        Vec::new()
    })
}

fn exists(path: &RootedPath) -> bool {
    matches!(files::stat(path), Ok(Some(_)))
}

/// Whether the parent directory of a path exists.
pub(super) fn has_parent(path: &RootedPath) -> bool {
    let parent = path.as_path().parent().unwrap_or(Path::new("/"));
    matches!(path.roots().admit(parent, parent).map(|parent| files::stat(&parent)), Ok(Ok(Some(_))))
}

/// The deepest existing directory above a path.
fn nearest_directory(path: &RootedPath) -> Option<RootedPath> {
    path.as_path().ancestors().skip(1).find_map(|above| {
        let above = path.roots().admit(above, above).ok()?;
        matches!(files::stat(&above), Ok(Some(_))).then_some(above)
    })
}
