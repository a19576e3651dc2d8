//! Watches: what changes below a path, told as it happens.

use engine::files::{FileEventBatch, FileEventKind, FileWatcher};
use serde_json::json;
use wire::rexd::v1::{self, RpcError, encode_event};

use super::super::answer::Answer;
use super::super::errors::{rpc_error, text};
use super::super::events::{EventOrder, Events};
use super::super::mailbox::{Letter, Notice};
use super::super::order::Turn;
use super::super::session::Session;
use super::files::off_thread;

impl Session {
    /// `fs.watch`.
    pub(super) fn fs_watch(&mut self, params: v1::FsWatch, answer: Answer, turn: Turn) {
        let limit = self.limits.max_processes_per_session.max(LEAST_WATCHES);
        if self.watches.len() >= limit {
            let error = engine::Error::LimitReached { what: "watches per session", limit: limit as u64 };
            return self.refuse(answer, rpc_error(error));
        }
        let named = self.named_path(&params.path).and_then(|path| Ok((path, watch_id()?)));
        let (path, watch_id) = match named {
            Ok(named) => named,
            Err(error) => return self.refuse(answer, error),
        };
        let (session_id, letters, events) = (self.id.clone(), self.letters(), self.events());
        let recursive = params.recursive.unwrap_or(true);
        self.spawn(async move {
            let tell = teller(session_id.to_string(), watch_id.clone(), events);
            let started =
                off_thread(move || FileWatcher::start(&path, recursive, tell).map_err(rpc_error)).await;
            drop(turn);
            match started {
                Ok(watch) => {
                    let notice = Notice::Watching { watch_id: watch_id.clone(), watch };
                    // Kept before it is answered: a client may withdraw it at once.
                    letters.send(Letter::Notice(notice)).await.ok();
                    answer.send(Ok(v1::FsWatchResult { watch_id })).await;
                }
                Err(error) => answer.send(Err::<(), _>(error)).await,
            }
        });
    }

    /// `fs.unwatch`.
    pub(super) fn fs_unwatch(&mut self, params: &v1::FsUnwatch, answer: Answer) {
        let Some(watch) = self.watches.remove(&params.watch_id) else {
            let data = json!({ "field": "watch_id", "watch_id": params.watch_id });
            return self.refuse(answer, RpcError::invalid_params("watch not found").with_data(data));
        };
        self.spawn(async move {
            // Stopping waits for a thread.
            let stopped = off_thread(move || {
                watch.stop();
                Ok(v1::OkResult::DONE)
            });
            answer.send(stopped.await).await;
        });
    }
}

/// Watches a session may have however few processes it may have.
const LEAST_WATCHES: usize = 64;

fn watch_id() -> Result<String, RpcError> {
    Ok(format!("w_{}", engine::session::random_name().map_err(rpc_error)?))
}

/// Hands changes to the events of a session; waits on the watching thread while the client is slow.
fn teller(
    session_id: String,
    watch_id: String,
    events: Events,
) -> impl FnMut(FileEventBatch) + Send + 'static {
    move |changes| {
        let (session_id, watch_id) = (session_id.clone(), watch_id.clone());
        let encode = move |event_id| {
            let overflow = changes.overflow;
            let changes = changes.changes.iter().map(|change| v1::Change {
                path: text(&change.path),
                kind: kind_name(change.kind).to_owned(),
                to: change.to.as_deref().map(text),
            });
            encode_event(&v1::FsChanged {
                session_id,
                watch_id,
                changes: changes.collect(),
                overflow,
                event_id,
            })
        };
        // A session that is gone hears nothing; its watch goes with it.
        drop(events.blocking_send(EventOrder::Tell(Box::new(encode))));
    }
}

fn kind_name(kind: FileEventKind) -> &'static str {
    match kind {
        FileEventKind::Created => "created",
        FileEventKind::Modified => "modified",
        FileEventKind::Removed => "removed",
        FileEventKind::Renamed => "renamed",
    }
}
