//! `POST /rpc`: one message or a batch, and its response.

use bytes::{Bytes, BytesMut};
use http::uri::Authority;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::{Body as _, Incoming};
use link::listen::ConnectionPhase;
use link::{Allowance, BudgetExhausted};
use serde_json::json;
use wire::jsonrpc::RpcError;
use wire::limits::MAX_LINE_BYTES;

use super::response::{self, ResponseBody};
use super::{HttpExchange, encoding, route};
use crate::core::request::ConnectionContext;
use crate::faces::rexd::http::{self as web, PostStatus};
use crate::net::auth::Caller;
use crate::observe::metrics::{RefusalReason, Transport};
use crate::observe::traces::TraceParent;

pub(super) async fn post(
    exchange: &HttpExchange,
    caller: &Caller,
    request: Request<Incoming>,
) -> Response<ResponseBody> {
    let HttpExchange { front_end, connection } = exchange;
    let (head, body) = request.into_parts();
    let accepts_zstd = encoding::accepts_zstd(&head.headers);
    connection.enter(ConnectionPhase::Body);
    let mut allowance = front_end.limits.budget.allowance();
    let message = match receive(body, &head.headers, &mut allowance).await {
        Ok(message) => message,
        Err(error) => {
            if matches!(error.status(), StatusCode::PAYLOAD_TOO_LARGE | StatusCode::SERVICE_UNAVAILABLE) {
                front_end.metrics.refused(RefusalReason::TooLarge);
            }
            return *error;
        }
    };
    // Reading the body may take long, and the access may be revoked meanwhile.
    if let Err(rejection) = front_end.authenticator.auth.check(caller) {
        route::record(exchange, (&head.headers, head.uri.authority().map(Authority::as_str)), &rejection);
        return response::and_close(response::rejected(&rejection));
    }
    connection.enter(ConnectionPhase::Busy);
    let parent = head.headers.get("traceparent").and_then(|value| value.to_str().ok());
    let mut context = ConnectionContext::new(caller.clone(), Transport::Http);
    context.parent = parent.and_then(TraceParent::parse);
    let posted = web::post(&front_end.face, &context, message).await;
    let status = match posted.status {
        PostStatus::Accepted => StatusCode::OK,
        PostStatus::Malformed => StatusCode::BAD_REQUEST,
        PostStatus::Forbidden => StatusCode::FORBIDDEN,
    };
    match posted.response {
        Some(body) => encoding::json(status, body, accepts_zstd),
        None => response::empty(StatusCode::ACCEPTED),
    }
}

type BodyResult = Result<Bytes, Box<Response<ResponseBody>>>;

/// The whole body after decoding, if it is within the limits.
async fn receive(body: Incoming, headers: &HeaderMap, allowance: &mut Allowance) -> BodyResult {
    let body = collect(body, allowance).await?;
    let encoded = body.len();
    let message = encoding::decoded(headers, body)?;
    allowance.hold(encoded.max(message.len())).await.map_err(exhausted)?;
    Ok(message)
}

/// The whole body, if it is within the limit. Its bytes are taken from the budget as they arrive.
async fn collect(body: Incoming, allowance: &mut Allowance) -> BodyResult {
    let announced = body.size_hint().lower();
    if announced > MAX_LINE_BYTES as u64 {
        return Err(Box::new(too_large(Some(announced))));
    }
    allowance.check(usize::try_from(announced).unwrap_or(usize::MAX)).map_err(exhausted)?;
    let mut body = Limited::new(body, MAX_LINE_BYTES);
    let mut collected = BytesMut::new();
    while let Some(frame) = body.frame().await {
        match frame {
            Ok(frame) => {
                let Ok(piece) = frame.into_data() else { continue };
                allowance.hold(collected.len() + piece.len()).await.map_err(exhausted)?;
                collected.extend_from_slice(&piece);
            }
            Err(error) if error.is::<LengthLimitError>() => return Err(Box::new(too_large(None))),
            Err(error) => {
                let message = format!("reading the body failed: {error}");
                return Err(Box::new(response::and_close(response::bad(StatusCode::BAD_REQUEST, message))));
            }
        }
    }
    Ok(collected.freeze())
}

/// The error for a message that does not fit beside those that other clients are sending.
fn exhausted(error: BudgetExhausted) -> Box<Response<ResponseBody>> {
    let message = format!("{error}; the limit is server.max_buffered_bytes");
    let error = RpcError::resource_limit(&message, error.limit as u64);
    Box::new(response::and_close(response::error(StatusCode::SERVICE_UNAVAILABLE, &error)))
}

/// The error for a message over the limit, with its length if that is known.
pub(super) fn too_large(bytes: Option<u64>) -> Response<ResponseBody> {
    let error = RpcError::resource_limit("the body is too large", MAX_LINE_BYTES as u64)
        .with_data(json!({ "limit": MAX_LINE_BYTES, "bytes": bytes }));
    response::and_close(response::error(StatusCode::PAYLOAD_TOO_LARGE, &error))
}
