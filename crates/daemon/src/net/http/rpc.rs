//! `POST /rpc`: one message, one answer.

use bytes::{Bytes, BytesMut};
use http::uri::Authority;
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Incoming};
use serde_json::json;
use wire::jsonrpc::RpcError;
use wire::limits::MAX_LINE_BYTES;

use super::answer::{self, Body};
use super::connection::Visit;
use super::phases::Phase;
use super::{encoding, route};
use crate::faces::rexd::Arrival;
use crate::faces::rexd::web::{self, Status};
use crate::net::auth::Caller;
use crate::observe::metrics::{RefusalReason, Transport};
use crate::observe::traces::TraceParent;

pub(super) async fn post(visit: &Visit, caller: &Caller, request: Request<Incoming>) -> Response<Body> {
    let (head, body) = request.into_parts();
    let takes_zstd = encoding::takes_zstd(&head.headers);
    visit.phases.enter(Phase::Body);
    let message = match collect(body).await.and_then(|body| encoding::decoded(&head.headers, body)) {
        Ok(message) => message,
        Err(refusal) => {
            if refusal.status() == StatusCode::PAYLOAD_TOO_LARGE {
                visit.server.metrics.refused(RefusalReason::TooLarge);
            }
            return *refusal;
        }
    };
    // A body may take its time, and whoever sends it may have lost the right to.
    if let Err(refusal) = visit.server.gate.auth.check(caller) {
        route::note(visit, (&head.headers, head.uri.authority().map(Authority::as_str)), &refusal);
        return answer::and_close(answer::refused(&refusal));
    }
    visit.phases.enter(Phase::Busy);
    let parent = head.headers.get("traceparent").and_then(|value| value.to_str().ok());
    let mut arrival = Arrival::new(caller.clone(), Transport::Http);
    arrival.parent = parent.and_then(TraceParent::parse);
    let posted = web::post(&visit.server.service, &arrival, message).await;
    let status = match posted.status {
        Status::Understood => StatusCode::OK,
        Status::Malformed => StatusCode::BAD_REQUEST,
        Status::Forbidden => StatusCode::FORBIDDEN,
    };
    match posted.answer {
        Some(body) => encoding::json(status, body, takes_zstd),
        None => answer::empty(StatusCode::ACCEPTED),
    }
}

/// The whole body, if it is not too long.
async fn collect(mut body: Incoming) -> Result<Bytes, Box<Response<Body>>> {
    if body.size_hint().lower() > MAX_LINE_BYTES as u64 {
        return Err(Box::new(too_large(Some(body.size_hint().lower()))));
    }
    let (mut first, mut rest) = (Bytes::new(), BytesMut::new());
    while let Some(frame) = body.frame().await {
        let broken = |error: hyper::Error| {
            let message = format!("the body broke off: {error}");
            Box::new(answer::and_close(answer::bad(StatusCode::BAD_REQUEST, message)))
        };
        let Ok(piece) = frame.map_err(broken)?.into_data() else { continue };
        if first.len() + rest.len() + piece.len() > MAX_LINE_BYTES {
            return Err(Box::new(too_large(None)));
        }
        match first.is_empty() && rest.is_empty() {
            true => first = piece,
            false => {
                if rest.is_empty() {
                    rest = BytesMut::from(std::mem::take(&mut first));
                }
                rest.extend_from_slice(&piece);
            }
        }
    }
    Ok(if rest.is_empty() { first } else { rest.freeze() })
}

/// The message is over the limit; its length is told if it is known.
pub(super) fn too_large(bytes: Option<u64>) -> Response<Body> {
    let error = RpcError::resource_limit("the body is too long", MAX_LINE_BYTES as u64)
        .with_data(json!({ "limit": MAX_LINE_BYTES, "bytes": bytes }));
    answer::and_close(answer::error(StatusCode::PAYLOAD_TOO_LARGE, &error))
}
