//! `fs/watchMissing`: told once when something that was missing appears, or something that was there is gone.

use std::path::Path;

use bytes::Bytes;
use engine::RootedPath;
use engine::files::{self, Watch};
use link::Outgoing;
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;
use wire::codex::v1::{self, FsMissingChangedNotification, FsWatchMissingResponse};
use wire::codex::{ErrorObject, envelope};

use super::answer::Answer;
use super::errors::failed;
use super::session::Session;

/// Paths that one watch may name.
const MOST_PATHS: usize = 1_024;
/// Directories that are watched for them.
const MOST_WATCHED: usize = 256;

/// The watch of a connection; a newer one takes its place.
#[derive(Debug)]
pub(super) struct Missing {
    _watches: Vec<Watch>,
    _telling: AbortOnDropHandle<()>,
}

impl Session {
    /// `fs/watchMissing`.
    pub(super) fn watch_missing(
        &mut self,
        params: &v1::FsWatchMissingParams,
        outgoing: &Outgoing,
        answer: Answer,
    ) {
        self.missing = None;
        let watching = self.watched(params, outgoing).map(|missing| {
            self.missing = missing;
            FsWatchMissingResponse { watching: self.missing.is_some() }
        });
        self.reply(answer, watching);
    }

    fn watched(
        &mut self,
        params: &v1::FsWatchMissingParams,
        outgoing: &Outgoing,
    ) -> Result<Option<Missing>, ErrorObject> {
        if params.missing.len() > MOST_PATHS {
            return Err(ErrorObject::invalid_request(format!("more than {MOST_PATHS} paths")));
        }
        let mut missing = Vec::new();
        for text in &params.missing {
            missing.push(self.path(text, None)?);
        }
        let present = params.present.as_deref().map(|text| self.path(text, None)).transpose()?;
        let (changed, changes) = mpsc::channel(1);
        let mut directories: Vec<RootedPath> = Vec::new();
        for path in missing.iter().chain(&present) {
            if let Some(directory) = nearest(path)
                && !directories.contains(&directory)
            {
                directories.push(directory);
            }
        }
        if directories.is_empty() || directories.len() > MOST_WATCHED {
            return Ok(None);
        }
        let mut watches = Vec::new();
        for directory in &directories {
            let changed = changed.clone();
            // One that waits already says the same.
            let tell = move |_changes| {
                changed.try_send(()).ok();
            };
            watches.push(Watch::start(directory, false, tell).map_err(failed)?);
        }
        let told = Told { watch_id: params.watch_id, missing, present, outgoing: outgoing.clone() };
        // Something may have happened before the watches began.
        changed.try_send(()).ok();
        let telling = tokio::spawn(told.run(changes));
        Ok(Some(Missing { _watches: watches, _telling: AbortOnDropHandle::new(telling) }))
    }
}

/// Who is told, of what.
struct Told {
    watch_id: i64,
    missing: Vec<RootedPath>,
    present: Option<RootedPath>,
    outgoing: Outgoing,
}

impl Told {
    async fn run(self, mut changes: mpsc::Receiver<()>) {
        let Told { watch_id, missing, present, outgoing } = self;
        let mut seen: Vec<bool> = Vec::new();
        while changes.recv().await.is_some() {
            let look = {
                let (missing, present) = (missing.clone(), present.clone());
                move || {
                    let is_there = |path: &RootedPath| matches!(files::stat(path), Ok(Some(_)));
                    let nears: Vec<bool> = missing.iter().map(lies_in_directory).collect();
                    let appeared = missing.iter().any(is_there);
                    (appeared || present.is_some_and(|path| !is_there(&path)), nears)
                }
            };
            let Ok((has_changed, nears)) = tokio::task::spawn_blocking(look).await else { return };
            // A directory on the way that appeared would have to be watched now: the client asks again when told.
            let is_nearer = !seen.is_empty() && nears != seen;
            seen = nears;
            if has_changed || is_nearer {
                let told = FsMissingChangedNotification { watch_id };
                let line = envelope::notification(v1::FS_MISSING_CHANGED, &told).unwrap_or_default();
                outgoing.event(Bytes::from(line)).await.ok();
                return;
            }
        }
    }
}

/// Whether the directory it would lie in is there.
fn lies_in_directory(path: &RootedPath) -> bool {
    let parent = path.as_path().parent().unwrap_or(Path::new("/"));
    matches!(path.roots().admit(parent, parent).map(|parent| files::stat(&parent)), Ok(Ok(Some(_))))
}

/// The deepest directory above a path that exists.
fn nearest(path: &RootedPath) -> Option<RootedPath> {
    path.as_path().ancestors().skip(1).find_map(|above| {
        let above = path.roots().admit(above, above).ok()?;
        matches!(files::stat(&above), Ok(Some(_))).then_some(above)
    })
}
