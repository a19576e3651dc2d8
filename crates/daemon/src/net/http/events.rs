//! `GET /events`: the events of a session as they come.

use std::sync::Arc;

use bytes::{BufMut as _, Bytes, BytesMut};
use futures_util::{Stream, StreamExt as _};
use http::{Request, StatusCode};
use wire::rexd::v1::codes;

use super::answer::{self, Answer};
use super::connection::Visit;
use super::encoding::{self, Packer};
use super::phases::Phase;
use super::revoked;
use crate::faces::rexd::http::{self as web, StreamEvent};
use crate::net::auth::Caller;

/// What a silent stream says, so that everybody on the way knows it is alive.
const HEARTBEAT: &[u8] = b":\n\n";

pub(super) async fn listen<B>(visit: &Arc<Visit>, caller: Caller, request: &Request<B>) -> Answer {
    let query = request.uri().query().unwrap_or_default();
    let Some(session_id) = member(query, "session_id").filter(|id| !id.is_empty()) else {
        return answer::bad(StatusCode::BAD_REQUEST, "session_id is missing: /events?session_id=…").into();
    };
    let header = request.headers().get("last-event-id").map(|value| value.to_str().unwrap_or("?"));
    let last = match header.or(member(query, "last_event_id")).filter(|last| !last.is_empty()) {
        None => None,
        Some(text) => match text.trim().parse::<u64>() {
            Ok(last) => Some(last),
            Err(_) => {
                return answer::bad(StatusCode::BAD_REQUEST, "the last event's id is not a number").into();
            }
        },
    };
    let listening = match web::listen(&visit.server.face, &caller, session_id, last).await {
        Ok(listening) => listening,
        Err(error) => {
            let status = match error.code {
                codes::UNAUTHORIZED => StatusCode::FORBIDDEN,
                codes::CONCURRENCY_CONFLICT => StatusCode::CONFLICT,
                _ if error.data.get("field").is_some_and(|field| field == "last_event_id") => {
                    StatusCode::BAD_REQUEST
                }
                _ => StatusCode::NOT_FOUND,
            };
            return answer::error(status, &error).into();
        }
    };
    visit.phases.enter(Phase::Busy);
    let packer = match encoding::takes_zstd(request.headers()) {
        true => Packer::new().inspect_err(|error| tracing::warn!(%error, "events go unpacked")).ok(),
        false => None,
    };
    let is_packed = packer.is_some();
    let stream = Box::pin(packed(told(visit.clone(), caller, listening), packer));
    let mut response = answer::stream(stream);
    encoding::mark(&mut response, is_packed);
    Answer { response, is_stream: true }
}

/// The first value of a query that has this name. Ids need no escapes, so none are understood.
fn member<'a>(query: &'a str, name: &str) -> Option<&'a str> {
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    pairs.into_iter().find(|(key, _)| *key == name).map(|(_, value)| value)
}

/// Events as they are written, with a sign of life in between; ends with the session, also when the daemon ends, and
/// when the caller has lost the right to listen.
fn told(
    visit: Arc<Visit>,
    caller: Caller,
    listening: web::EventSubscription,
) -> impl Stream<Item = Bytes> + Send + 'static {
    let watcher = visit.clone();
    let over = async move { revoked(&watcher.server.gate, &caller).await };
    let first = futures_util::stream::once(async { Bytes::from_static(HEARTBEAT) });
    let events = futures_util::stream::unfold((visit, listening), async |(visit, mut listening)| {
        let next = tokio::time::timeout(visit.server.deadlines.heartbeat, listening.next()).await;
        let piece = match next {
            Ok(event) => framed(&event?),
            Err(_silent) => Bytes::from_static(HEARTBEAT),
        };
        Some((piece, (visit, listening)))
    });
    first.chain(events).take_until(Box::pin(over))
}

fn framed(told: &StreamEvent) -> Bytes {
    let mut frame = BytesMut::with_capacity(told.line.len() + 40);
    if let Some(id) = told.event_id {
        frame.put_slice(format!("id: {id}\n").as_bytes());
    }
    // A message holds no line end: JSON escapes those inside texts, and we write none between.
    frame.put_slice(b"data: ");
    frame.put_slice(&told.line);
    frame.put_slice(b"\n\n");
    frame.freeze()
}

fn packed(
    pieces: impl Stream<Item = Bytes> + Send + 'static,
    mut packer: Option<Packer>,
) -> impl Stream<Item = Bytes> + Send + 'static {
    pieces
        .map(move |piece| match &mut packer {
            None => Some(piece),
            // A broken stream ends; the client comes back with its last event.
            Some(packer) => packer.pack(&piece).ok(),
        })
        .take_while(|piece| std::future::ready(piece.is_some()))
        .filter_map(std::future::ready)
}
