//! `fs.watch` and `fs.unwatch`: changes below a path, published as events.

use engine::files::{FileEventBatch, FileEventKind};
use serde_json::json;
use wire::rexd::v1::{self, RpcError, encode_event};

use super::files::FileAccess;
use super::frame::{encoded_bytes, split};
use super::{Context, Params, PrepareResult, RexdPrepared};
use crate::core::events::PublisherHandle;
use crate::core::request::{AuthorizedRequest, off_thread};
use crate::core::session::SessionMessage;
use crate::faces::rexd::Rexd;
use crate::faces::rexd::errors::{rpc_error, text};
use crate::faces::rexd::session::Session;

/// Watches that a session may have at least, however few processes it may have.
const MIN_WATCHES: usize = 256;

/// Checks and converts a `fs.watch` request.
pub(crate) fn watch(params: &Params<v1::FsWatch>, context: &Context<'_>) -> PrepareResult {
    let session = context.session;
    let limit = session.limits.max_processes_per_session.max(MIN_WATCHES);
    if session.state.watches.len() >= limit {
        let error = engine::Error::LimitReached { what: "watches per session", limit: limit as u64 };
        return Err(rpc_error(error));
    }
    let file = FileAccess::named(context, ("path", &params.path))?;
    let recursive = params.recursive.unwrap_or(true);
    let effects = file.read(context)?;
    Ok(RexdPrepared::with_effects(effects, move |session, request| start(session, file, recursive, request)))
}

fn start(session: &mut Session, file: FileAccess, recursive: bool, request: AuthorizedRequest) {
    let watch_id = match engine::session::random_name() {
        Ok(name) => format!("w_{name}"),
        Err(error) => return session.spawn(request.reject(rpc_error(error))),
    };
    let (session_id, handle, events) = (session.id.to_string(), session.handle(), session.events().clone());
    let frame = session.state.client.frame_bytes;
    let group = session.engine.watches().clone();
    let AuthorizedRequest { responder, guard, .. } = request;
    session.spawn(async move {
        let publish = publish_changes((session_id, watch_id.clone()), frame, events);
        let started =
            off_thread(move || group.watch(&file.path, recursive, publish).map_err(rpc_error)).await;
        drop(guard);
        match started {
            Ok(watch) => {
                let key = watch_id.clone();
                // Stored before the response: the client may remove it at once.
                let store = move |session: &mut Session| drop(session.state.watches.insert(key, watch));
                handle.send(SessionMessage::update(store)).await;
                responder.send(Ok(v1::FsWatchResult { watch_id })).await;
            }
            Err(error) => responder.reject(error).await,
        }
    });
}

/// Checks and converts a `fs.unwatch` request.
pub(crate) fn unwatch(params: &Params<v1::FsUnwatch>, _: &Context<'_>) -> PrepareResult {
    let watch_id = params.watch_id.clone();
    Ok(RexdPrepared::new(move |session, request| {
        let Some(watch) = session.state.watches.remove(&watch_id) else {
            let data = json!({ "field": "watch_id", "watch_id": watch_id });
            let error = RpcError::invalid_params("watch not found").with_data(data);
            return session.spawn(request.reject(error));
        };
        session.spawn(async move {
            // Stopping waits for a thread.
            let stopped = off_thread(move || {
                watch.stop();
                Ok(v1::OkResult::DONE)
            });
            request.finish(stopped.await).await;
        });
    }))
}

/// Publishes changes from the watching thread, which waits while the client is slow. Changes that do not fit into one frame
/// become several events.
fn publish_changes(
    (session_id, watch_id): (String, String),
    frame: Option<usize>,
    events: PublisherHandle<Rexd>,
) -> impl FnMut(FileEventBatch) + Send + 'static {
    move |batch| {
        for (changes, overflow) in changed(&batch, frame) {
            let (session_id, watch_id) = (session_id.clone(), watch_id.clone());
            events.publish_blocking(move |event_id| {
                encode_event(&v1::FsChanged { session_id, watch_id, changes, overflow, event_id })
            });
        }
    }
}

/// The changes of each event, and whether some are missing. A change that is too long for any frame is missing.
fn changed(batch: &FileEventBatch, frame: Option<usize>) -> Vec<(Vec<v1::Change>, bool)> {
    let changes = batch.changes.iter().map(|change| v1::Change {
        path: text(&change.path),
        kind: kind_name(change.kind).to_owned(),
        to: change.to.as_deref().map(text),
    });
    let (lists, too_long) = split(changes.collect(), frame, encoded_bytes);
    let overflow = batch.overflow || too_long > 0;
    let last = lists.len() - 1;
    lists.into_iter().enumerate().map(|(at, changes)| (changes, overflow && at == last)).collect()
}

fn kind_name(kind: FileEventKind) -> &'static str {
    match kind {
        FileEventKind::Created => "created",
        FileEventKind::Modified => "modified",
        FileEventKind::Removed => "removed",
        FileEventKind::Renamed => "renamed",
    }
}

#[cfg(test)]
mod tests {
    use engine::files::FileEvent;

    use super::*;

    /// ARCHITECTURE.md, invariant 27.
    #[test]
    fn changes_that_do_not_fit_into_a_frame_become_several_events() {
        let frame = 16_384;
        let change = |path: String| FileEvent { path: path.into(), kind: FileEventKind::Created, to: None };
        let paths: Vec<String> = (0..2000).map(|number| format!("/work/\u{1}\"{number}")).collect();
        let too_long = change(format!("/{}", "\u{1}".repeat(4000)));
        for (with_long, overflow) in [(false, false), (false, true), (true, false)] {
            let mut changes: Vec<FileEvent> = paths.iter().cloned().map(change).collect();
            changes.extend(with_long.then(|| too_long.clone()));
            let events = changed(&FileEventBatch { changes, overflow }, Some(frame));
            assert!(events.len() > 1);
            for (changes, _) in &events {
                let event = v1::FsChanged {
                    session_id: "s_0123456789ab".to_owned(),
                    watch_id: "w_0123456789ab".to_owned(),
                    changes: changes.clone(),
                    overflow: true,
                    event_id: u64::MAX,
                };
                assert!(encode_event(&event).len() <= frame);
            }
            let reported: Vec<bool> = events.iter().map(|(_, overflow)| *overflow).collect();
            let (last, others) = reported.split_last().unwrap();
            assert!(*last == (overflow || with_long) && !others.contains(&true), "{reported:?}");
            let seen: Vec<String> =
                events.into_iter().flat_map(|(changes, _)| changes).map(|one| one.path).collect();
            assert_eq!(seen, paths);
        }
        let whole = FileEventBatch { changes: paths.iter().cloned().map(change).collect(), overflow: false };
        assert_eq!(changed(&whole, None).len(), 1);
    }
}
