//! Responses: JSON with the two CORS headers, and the event stream of a command.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Response, StatusCode, header};
use hyper::body::{Body, Frame, SizeHint};
use serde::Serialize;
use tokio::sync::oneshot;
use wire::stringd::v0_1::Failure;

use super::errors::RequestError;

/// The body of a response: known, or sent in one piece when its command has ended.
#[derive(Debug)]
pub enum ResponseBody {
    /// Known from the start.
    Whole(Option<Bytes>),
    /// The events of a command that has ended; none if the face ends.
    Events(Option<Bytes>),
    /// Sent when the command has ended.
    Later(oneshot::Receiver<Bytes>),
    /// Nothing is left.
    Sent,
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let frame = match &mut *self {
            ResponseBody::Whole(bytes) | ResponseBody::Events(bytes) => bytes.take(),
            ResponseBody::Later(events) => match Pin::new(events).poll(cx) {
                Poll::Ready(events) => events.ok(),
                Poll::Pending => return Poll::Pending,
            },
            ResponseBody::Sent => None,
        };
        *self = ResponseBody::Sent;
        Poll::Ready(frame.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, ResponseBody::Sent | ResponseBody::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            ResponseBody::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, Bytes::len) as u64),
            // The length of an event stream is not announced.
            ResponseBody::Events(_) | ResponseBody::Later(_) => SizeHint::default(),
            ResponseBody::Sent => SizeHint::with_exact(0),
        }
    }
}

/// A response of this face.
pub(crate) type StringdResponse = Response<ResponseBody>;

/// A response with a JSON body.
pub(super) fn json(status: StatusCode, body: &impl Serialize) -> StringdResponse {
    // The types of this protocol always have a JSON form.
    let body = serde_json::to_vec(body).unwrap_or_default();
    let mut response = with_cors(status, ResponseBody::Whole(Some(body.into())));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// The response to a refused request.
pub(super) fn failure(refused: RequestError) -> StringdResponse {
    let RequestError { status, error, message, closes } = refused;
    let mut response = json(status, &Failure { error, message });
    if closes {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// A response without a body.
pub(super) fn empty(status: StatusCode) -> StringdResponse {
    with_cors(status, ResponseBody::Whole(None))
}

/// The event stream of a command; if it still runs, the head is sent before the events.
pub(super) fn event_stream(events: ResponseBody) -> StringdResponse {
    let mut response = with_cors(StatusCode::OK, events);
    let set = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-cache"),
        (header::CONNECTION, "keep-alive"),
        (HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    for (name, value) in set {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

fn with_cors(status: StatusCode, body: ResponseBody) -> StringdResponse {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    let allowed = HeaderValue::from_static("Content-Type, X-User-Id");
    headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, allowed);
    response
}
