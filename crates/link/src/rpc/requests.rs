//! Requests: parses messages, answers invalid ones, and returns the requests one by one.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio_util::sync::CancellationToken;
use wire::jsonrpc::{self, Call, Id, InvalidMessage, Item, Message, RpcError};
use wire::rexd::v1::{OkResult, decode_params_text};

use super::InFlight;
use super::in_flight::ExceededLimit;
use super::reply::{Batch, Reply};
use crate::{Incoming, Outgoing, Receiver};

/// The limits of one connection.
#[derive(Debug, Clone)]
pub struct RpcLimits {
    /// Running requests; a further one is answered with `-32008`.
    pub in_flight: usize,
    /// Bytes of the params of running requests; a further one is answered with `-32008`.
    pub in_flight_bytes: usize,
    /// The limit on a line, for the error message; the link enforces it.
    pub line_bytes: usize,
}

impl Default for RpcLimits {
    fn default() -> RpcLimits {
        RpcLimits {
            in_flight: wire::limits::MAX_IN_FLIGHT,
            in_flight_bytes: wire::limits::MAX_IN_FLIGHT_BYTES,
            line_bytes: wire::limits::MAX_LINE_BYTES,
        }
    }
}

/// One request of the peer.
#[derive(Debug)]
pub struct Request {
    /// The method name.
    pub method: String,
    /// The parameters.
    pub params: Params,
    /// The reply to send.
    pub reply: Reply,
    /// Cancelled by `$/cancel`; then reply with [`RpcError::cancelled`].
    pub cancel: CancellationToken,
}

/// The params of a request: the received text and payload, shared without a copy.
#[derive(Debug, Clone, Default)]
pub struct Params {
    text: Option<Bytes>,
    payload: Option<Bytes>,
}

impl Params {
    /// The params of a request that was not read by [`Requests`].
    pub fn new(text: Option<Bytes>) -> Params {
        Params { text, payload: None }
    }

    /// The text, if there was any.
    pub fn text(&self) -> Option<&str> {
        // Part of a line that is valid UTF-8; checking again is cheaper than a copy.
        std::str::from_utf8(self.text.as_deref()?).ok()
    }

    /// Decodes; the error names the member that is wrong.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, RpcError> {
        decode_params_text(self.text())
    }

    /// The payload, if the message was [binary](wire::binary).
    pub fn payload(&self) -> Option<&Bytes> {
        self.payload.as_ref()
    }

    /// The length of text and payload in bytes.
    pub fn len(&self) -> usize {
        [&self.text, &self.payload].into_iter().flatten().map(Bytes::len).sum()
    }

    /// True if there are no params.
    pub fn is_empty(&self) -> bool {
        self.text.is_none()
    }
}

/// The stream of requests of one connection.
#[derive(Debug)]
pub struct Requests {
    incoming: Receiver,
    outgoing: Outgoing,
    limits: RpcLimits,
    in_flight: InFlight,
    ready: VecDeque<Request>,
    /// Responses to send before the next read.
    due: VecDeque<Bytes>,
}

impl Requests {
    /// Reads from `incoming` and replies to `outgoing`.
    pub fn new(incoming: Receiver, outgoing: Outgoing, limits: RpcLimits) -> Requests {
        Requests {
            incoming,
            outgoing,
            limits,
            in_flight: InFlight::default(),
            ready: VecDeque::new(),
            due: VecDeque::new(),
        }
    }

    /// Like [`Requests::new`] for a peer with several connections: its requests are counted together, and one connection
    /// can cancel requests of another.
    pub fn together(
        in_flight: InFlight,
        incoming: Receiver,
        outgoing: Outgoing,
        limits: RpcLimits,
    ) -> Requests {
        Requests { in_flight, ..Requests::new(incoming, outgoing, limits) }
    }

    /// Cancels all running requests, when no connection is left to reply on.
    pub fn withdraw_all(&self) {
        self.in_flight.cancel_all();
    }

    /// The next request; `None` at the end. Handles `$/cancel`, invalid messages and requests over the limit. Nothing is
    /// lost if this future is dropped.
    pub async fn next(&mut self) -> Option<Request> {
        loop {
            while let Some(line) = self.due.front() {
                // Removed only after it is sent, so that a dropped future does not lose it.
                self.outgoing.respond(line.clone()).await.ok();
                self.due.pop_front();
            }
            if let Some(request) = self.ready.pop_front() {
                return Some(request);
            }
            let incoming = self.incoming.recv().await?;
            self.take(incoming);
        }
    }

    /// The number of running requests.
    pub fn in_flight(&self) -> usize {
        self.in_flight.running()
    }

    fn take(&mut self, incoming: Incoming) {
        let line = match incoming {
            Incoming::Message(line) => line,
            Incoming::TooLong { bytes } => {
                let limit = self.limits.line_bytes;
                let error = RpcError::resource_limit("the line is too long", limit as u64)
                    .with_data(json!({ "limit": limit, "bytes": bytes }));
                return self.answer_fault(&InvalidMessage { id: None, error });
            }
        };
        let (line, payload) = match wire::binary::is_binary(&line) && self.outgoing.accepts_binary() {
            true => match wire::binary::split(&line) {
                Ok((header, payload)) => (header, Some(payload)),
                Err(error) => {
                    let error = RpcError::invalid_request(error.to_string());
                    return self.answer_fault(&InvalidMessage { id: None, error });
                }
            },
            false => (line, None),
        };
        match jsonrpc::parse(&line) {
            Ok(Message::Single(Item::Call(call))) => {
                let reply = |id| move |outgoing, slot| Reply::to_single(id, outgoing, slot);
                let wanted = call.id.clone().map(reply);
                self.admit((&line, payload), call, wanted);
            }
            Ok(Message::Single(Item::Response(response))) => {
                // The server sends no requests, so it expects no responses.
                tracing::debug!(id = ?response.id, "ignoring a response: the server sends no requests");
            }
            Ok(Message::Batch(items)) => self.take_batch(&line, items),
            Err(fault) => self.answer_fault(&fault),
        }
    }

    fn take_batch(&mut self, line: &Bytes, items: Vec<Result<Item<'_>, InvalidMessage>>) {
        let expects_response = |item: &Result<Item<'_>, InvalidMessage>| match item {
            Ok(Item::Call(call)) => call.id.is_some(),
            Ok(Item::Response(_)) => false,
            Err(_) => true,
        };
        let count = items.iter().filter(|item| expects_response(item)).count();
        let batch = Arc::new(Batch::new(count));
        let mut next = 0;
        for item in items {
            let index = next;
            next += usize::from(expects_response(&item));
            match item {
                Ok(Item::Call(call)) => {
                    let batch = batch.clone();
                    let reply = |id| move |outgoing, slot| Reply::in_batch(id, batch, index, outgoing, slot);
                    let wanted = call.id.clone().map(reply);
                    self.admit((line, None), call, wanted);
                }
                Ok(Item::Response(_)) => {}
                Err(fault) => {
                    let answer = jsonrpc::error_response(fault.id.as_ref(), &fault.error);
                    self.due.extend(batch.put(index, answer, None));
                }
            }
        }
    }

    /// Converts a call to a request, unless too many are running.
    fn admit<F>(&mut self, (line, payload): (&Bytes, Option<Bytes>), call: Call<'_>, reply: Option<F>)
    where
        F: FnOnce(Outgoing, Option<super::in_flight::Slot>) -> Reply,
    {
        let outgoing = self.outgoing.clone();
        let params = Params { text: call.params.map(|raw| line.slice_ref(raw.get().as_bytes())), payload };
        let cancel = CancellationToken::new();
        let is_cancel = call.method == "$/cancel";
        let entered = match is_cancel {
            true => Ok(None),
            false => self.in_flight.enter((call.id.as_ref(), params.len()), &self.limits, &cancel).map(Some),
        };
        let exceeded = entered.as_ref().err().copied();
        let slot = entered.ok().flatten();
        let reply = match reply {
            Some(make) => make(outgoing, slot),
            None => Reply::to_notification(outgoing, slot),
        };
        if is_cancel {
            let answer = withdrawn(&params).map(|id| OkResult { ok: self.in_flight.cancel(&id) });
            self.due.extend(reply.into_line(answer));
        } else if let Some(exceeded) = exceeded {
            let (message, limit) = match exceeded {
                ExceededLimit::Requests => ("too many requests are running", self.limits.in_flight),
                ExceededLimit::Bytes => {
                    ("the requests that are running are too large", self.limits.in_flight_bytes)
                }
            };
            let error = RpcError::resource_limit(message, limit as u64);
            self.due.extend(reply.into_line(Err::<(), _>(error)));
        } else {
            self.ready.push_back(Request { method: call.method.into_owned(), params, reply, cancel });
        }
    }

    fn answer_fault(&mut self, fault: &InvalidMessage) {
        self.due.push_back(Bytes::from(jsonrpc::error_response(fault.id.as_ref(), &fault.error)));
    }
}

/// The request id in the params of `$/cancel`.
fn withdrawn(params: &Params) -> Result<Id, RpcError> {
    let cancel: wire::rexd::v1::Cancel = params.decode()?;
    Id::from_json(cancel.id.get())
        .ok_or_else(|| RpcError::invalid_params("invalid params: id: expected number or string"))
}
