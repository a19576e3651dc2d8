//! `fs/watchMissing`: told once when something that was missing appears, or something that was there is gone.

use std::path::Path;

use bytes::Bytes;
use engine::RootedPath;
use engine::files::{self, FileWatcher};
use link::Outgoing;
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;
use wire::exec_server::v1::{self, FsMissingChangedNotification, FsWatchMissingResponse};
use wire::exec_server::{ErrorObject, envelope};

use super::answer::Answer;
use super::files::blocking;
use super::session::Session;

/// Paths that one watch may name.
const MOST_PATHS: usize = 1_024;
/// Directories that are watched for them: each costs the kernel an instance, of which a user has few.
const MOST_WATCHED: usize = 32;

/// The watch of a connection; a newer one takes its place.
#[derive(Debug)]
pub(super) struct Missing {
    _telling: AbortOnDropHandle<()>,
}

impl Session {
    /// `fs/watchMissing`.
    pub(super) fn watch_missing(
        &mut self,
        params: v1::FsWatchMissingParams,
        outgoing: &Outgoing,
        answer: Answer,
    ) {
        self.missing = None;
        let told = match self.told(&params, outgoing) {
            Ok(told) => told,
            Err(error) => return self.reply(answer, Err::<(), _>(error)),
        };
        let order = self.order.clone();
        let telling = tokio::spawn(async move {
            let turn = order.read_owned().await;
            let (changed, changes) = mpsc::channel(1);
            let (missing, present) = (told.missing.clone(), told.present.clone());
            let watch = move || match missing.iter().any(is_there) {
                // There is nothing to wait for.
                true => Ok(Vec::new()),
                false => Ok(watches(missing.iter().chain(&present), &changed)),
            };
            let watches = blocking(watch).await.unwrap_or_default();
            drop(turn);
            let watching = !watches.is_empty();
            answer.send(Ok::<_, ErrorObject>(FsWatchMissingResponse { watching })).await;
            if watching {
                told.run(changes).await;
            }
            drop(watches);
        });
        self.missing = Some(Missing { _telling: AbortOnDropHandle::new(telling) });
    }

    fn told(&mut self, params: &v1::FsWatchMissingParams, outgoing: &Outgoing) -> Result<Told, ErrorObject> {
        if params.missing.len() > MOST_PATHS {
            return Err(ErrorObject::invalid_request(format!("more than {MOST_PATHS} paths")));
        }
        let mut missing = Vec::new();
        for text in &params.missing {
            missing.push(self.path(text, None)?);
        }
        let present = params.present.as_deref().map(|text| self.path(text, None)).transpose()?;
        Ok(Told { watch_id: params.watch_id, missing, present, outgoing: outgoing.clone() })
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

/// Watches the directories in which these would appear or vanish, so that `changed` hears of it; none if that cannot be.
fn watches<'a>(paths: impl Iterator<Item = &'a RootedPath>, changed: &mpsc::Sender<()>) -> Vec<FileWatcher> {
    let mut directories: Vec<RootedPath> = Vec::new();
    for directory in paths.filter_map(nearest) {
        if !directories.contains(&directory) {
            directories.push(directory);
        }
    }
    if directories.len() > MOST_WATCHED {
        return Vec::new();
    }
    let watch = |directory: &RootedPath| {
        let changed = changed.clone();
        // One that waits already says the same.
        FileWatcher::start(directory, false, move |_changes| {
            changed.try_send(()).ok();
        })
    };
    let started: Result<Vec<FileWatcher>, _> = directories.iter().map(watch).collect();
    // Something may have happened before the watches began.
    changed.try_send(()).ok();
    started.unwrap_or_else(|error| {
        tracing::debug!(%error, "what is missing cannot be watched");
        Vec::new()
    })
}

fn is_there(path: &RootedPath) -> bool {
    matches!(files::stat(path), Ok(Some(_)))
}

/// Whether the directory it would lie in is there.
pub(super) fn lies_in_directory(path: &RootedPath) -> bool {
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
