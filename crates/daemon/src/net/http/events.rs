//! `GET /events`: the events of a session as server-sent events.

use bytes::{BufMut as _, Bytes, BytesMut};
use futures_util::{Stream, StreamExt as _};
use http::{Request, Response, StatusCode};
use wire::rexd::v1::codes;

use super::encoding::{self, StreamCompressor};
use super::response::{self, ResponseBody};
use super::{HttpExchange, revoked};
use crate::faces::rexd::http::{self as web, StreamEvent};
use crate::net::auth::Caller;

/// The comment on a silent stream, which keeps proxies from closing it.
const COMMENT: &[u8] = b":\n\n";

pub(super) async fn listen<B>(
    exchange: &HttpExchange,
    caller: Caller,
    request: &Request<B>,
) -> Response<ResponseBody> {
    let query = request.uri().query().unwrap_or_default();
    let Some(session_id) = member(query, "session_id").filter(|id| !id.is_empty()) else {
        return response::bad(StatusCode::BAD_REQUEST, "session_id is missing: /events?session_id=…");
    };
    let header = request.headers().get("last-event-id").map(|value| value.to_str().unwrap_or("?"));
    let last = match header.or(member(query, "last_event_id")).filter(|last| !last.is_empty()) {
        None => None,
        Some(text) => match text.trim().parse::<u64>() {
            Ok(last) => Some(last),
            Err(_) => {
                return response::bad(StatusCode::BAD_REQUEST, "the id of the last event is not a number");
            }
        },
    };
    let listening = match web::listen(&exchange.front_end.face, &caller, session_id, last).await {
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
            return response::error(status, &error);
        }
    };
    let compressor = match encoding::accepts_zstd(request.headers()) {
        true => StreamCompressor::new()
            .inspect_err(|error| tracing::warn!(%error, "sending events without compression"))
            .ok(),
        false => None,
    };
    let is_compressed = compressor.is_some();
    let stream = Box::pin(compressed(pieces(exchange.clone(), caller, listening), compressor));
    let mut response = response::stream(stream);
    encoding::mark(&mut response, is_compressed);
    response
}

/// The first value of this name in a query. Ids need no escapes, so none are decoded.
fn member<'a>(query: &'a str, name: &str) -> Option<&'a str> {
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    pairs.into_iter().find(|(key, _)| *key == name).map(|(_, value)| value)
}

/// The events of a session, with comments on a silent stream. Ends with the session or the daemon, or when the caller's
/// access is revoked.
fn pieces(
    exchange: HttpExchange,
    caller: Caller,
    listening: web::EventSubscription,
) -> impl Stream<Item = Bytes> + Send + 'static {
    let front_end = exchange.front_end.clone();
    let over = async move { revoked(&front_end.authenticator, &caller).await };
    let first = futures_util::stream::once(async { Bytes::from_static(COMMENT) });
    let events = futures_util::stream::unfold((exchange, listening), async |(exchange, mut listening)| {
        let next = tokio::time::timeout(exchange.front_end.heartbeat, listening.next()).await;
        let piece = match next {
            Ok(event) => framed(&event?),
            Err(_silent) => Bytes::from_static(COMMENT),
        };
        Some((piece, (exchange, listening)))
    });
    first.chain(events).take_until(Box::pin(over))
}

fn framed(event: &StreamEvent) -> Bytes {
    let mut frame = BytesMut::with_capacity(event.line.len() + 40);
    if let Some(id) = event.event_id {
        frame.put_slice(format!("id: {id}\n").as_bytes());
    }
    // A message contains no line end: JSON escapes those in strings, and none is written between tokens.
    frame.put_slice(b"data: ");
    frame.put_slice(&event.line);
    frame.put_slice(b"\n\n");
    frame.freeze()
}

fn compressed(
    pieces: impl Stream<Item = Bytes> + Send + 'static,
    mut compressor: Option<StreamCompressor>,
) -> impl Stream<Item = Bytes> + Send + 'static {
    pieces
        .map(move |piece| match &mut compressor {
            None => Some(piece),
            // After an error the stream ends, and the client reconnects with its last event.
            Some(compressor) => compressor.compress(&piece).ok(),
        })
        .take_while(|piece| std::future::ready(piece.is_some()))
        .filter_map(std::future::ready)
}
