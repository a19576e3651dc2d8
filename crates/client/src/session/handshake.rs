//! The first request on a new link: it opens a session or resumes one.

use bytes::Bytes;
use link::{Incoming, Link};
use serde::Deserialize;
use serde_json::value::RawValue;
use wire::jsonrpc::{self, Item, Message, RpcError};
use wire::rexd::v1::{Method, PROTOCOL, SessionOpenResult, SessionResume, codes};

use crate::dial::{Carrier, TargetLink, dial};
use crate::error::{ConnectError, ConnectStep, Error};
use crate::options::SessionOptions;
use crate::target::Target;

/// The id of the first request.
const HANDSHAKE_ID: u64 = 1;
/// The id of a request that is sent together with the first one.
pub(super) const EARLY_ID: u64 = 2;
/// The first id of the requests that follow.
pub(super) const FIRST_FREE_ID: u64 = 3;
/// Bytes that may arrive before the response to the first request, if others were sent with it.
const MAX_EARLY_BYTES: usize = 1024 * 1024;

/// Why a session could not be resumed.
#[derive(Debug)]
pub(super) enum ResumeError {
    /// A later attempt may succeed.
    Transient(Error),
    /// The server no longer has the session.
    Expired(RpcError),
    /// No attempt will succeed.
    Permanent(Error),
}

/// Connects and sends the first request. If that fails or is dropped, the carrier is stopped.
async fn connect<M: Method<Result = SessionOpenResult>>(
    target: &Target,
    options: &SessionOptions,
    params: &M,
) -> Result<(TargetLink, SessionOpenResult), Error> {
    let opened = UnopenedLink::dial(target, options).await?.handshake(target, params, Vec::new()).await?;
    Ok((opened.link, opened.result))
}

/// A link on which no session is open. Dropping it stops its carrier.
#[derive(Debug)]
pub(super) struct UnopenedLink(Option<TargetLink>);

/// A link on which a session was opened.
pub(super) struct OpenedLink {
    pub(super) link: TargetLink,
    pub(super) result: SessionOpenResult,
    /// What arrived before the response.
    pub(super) messages: Vec<Bytes>,
}

impl UnopenedLink {
    /// Connects to the target.
    pub(super) async fn dial(target: &Target, options: &SessionOptions) -> Result<UnopenedLink, Error> {
        Ok(UnopenedLink(Some(dial(target, options).await?)))
    }

    /// Whether a message that is sent now reaches a server that was reached, rather than a program that still connects.
    pub(super) fn is_connected(&self) -> bool {
        self.0.as_ref().is_some_and(|link| {
            matches!(link.carrier, Carrier::Local(_) | Carrier::SharedSsh(..) | Carrier::Socket)
        })
    }

    /// Sends the first request, and `early` after it, and waits for the response to the first.
    pub(super) async fn handshake<M: Method<Result = SessionOpenResult>>(
        mut self,
        target: &Target,
        params: &M,
        early: Vec<Bytes>,
    ) -> Result<OpenedLink, Error> {
        let Some(link) = self.0.as_mut() else { return Err(Error::Closed) };
        let (result, messages) = handshake(link, target, params, early).await?;
        let link = self.0.take().ok_or(Error::Closed)?;
        Ok(OpenedLink { link, result, messages })
    }
}

impl Drop for UnopenedLink {
    fn drop(&mut self) {
        if let Some(link) = &mut self.0 {
            link.carrier.stop();
        }
    }
}

/// Connects to the target and resumes the session.
pub(super) async fn resume(
    target: &Target,
    options: &SessionOptions,
    params: &SessionResume,
) -> Result<(TargetLink, SessionOpenResult), ResumeError> {
    let connected = tokio::time::timeout(options.connect_timeout, connect(target, options, params)).await;
    let connected = match connected {
        Ok(connected) => connected,
        Err(_elapsed) => Err(timed_out(target, options).await),
    };
    connected.map_err(|error| match error {
        Error::Refused(error) if error.code == codes::UNAUTHORIZED && error.data["retry"] != true => {
            ResumeError::Expired(*error)
        }
        other => ResumeError::from(other),
    })
}

impl From<Error> for ResumeError {
    fn from(error: Error) -> ResumeError {
        let is_transient = match &error {
            Error::Refused(error) => error.data["retry"] == true,
            Error::Connect(error) => error.is_transient,
            Error::Ambiguous { .. }
            | Error::TooLarge { .. }
            | Error::Lost(_)
            | Error::Encode { .. }
            | Error::Decode { .. }
            | Error::DecodeContent { .. }
            | Error::ResponseTooLarge { .. }
            | Error::InvalidName { .. }
            | Error::MissingExit { .. }
            | Error::Random(_)
            | Error::ReadInput(_)
            | Error::Closed => false,
        };
        match is_transient {
            true => ResumeError::Transient(error),
            false => ResumeError::Permanent(error),
        }
    }
}

/// The error of a target that does not answer. The next attempt does not use the same shared connection.
pub(super) async fn timed_out(target: &Target, options: &SessionOptions) -> Error {
    crate::dial::abandon_shared(target).await;
    let seconds = options.connect_timeout.as_secs();
    let error = ConnectError::new(target, ConnectStep::Connect, format!("no answer within {seconds} s"));
    error.hint(crate::dial::timeout_hint(target)).transient().into()
}

async fn handshake<M: Method<Result = SessionOpenResult>>(
    link: &mut TargetLink,
    target: &Target,
    params: &M,
    early: Vec<Bytes>,
) -> Result<(SessionOpenResult, Vec<Bytes>), Error> {
    let Some((result, messages)) = first_response(&mut link.link, params, early).await? else {
        return Err(link.carrier.explain(target).await.into());
    };
    // Another version of the protocol may differ in every other member.
    let negotiated = serde_json::from_str::<Negotiated>(result.get()).ok();
    if let Some(protocol) = negotiated.and_then(|answer| answer.protocol).filter(|name| name != PROTOCOL) {
        let cause = format!("the server uses {protocol}, this client {PROTOCOL}");
        let error = ConnectError::new(target, ConnectStep::OpenSession, cause)
            .hint("update the daemon: `rex target install HOST`");
        return Err(error.into());
    }
    let opened: SessionOpenResult =
        serde_json::from_str(result.get()).map_err(|error| Error::decode(M::NAME, error))?;
    if opened.frames.as_deref() == Some(wire::binary::ENCODING) {
        // Before the next message is read, which may be binary.
        link.link.outgoing.accept_binary();
    }
    Ok((opened, messages))
}

/// The protocol that the server has chosen.
#[derive(Deserialize)]
struct Negotiated {
    #[serde(default)]
    protocol: Option<String>,
}

/// Sends the first request, and `early` after it, and waits for the response to the first. Returns the result and what arrived
/// before it; `None` if the link ended first.
async fn first_response<M: Method>(
    link: &mut Link,
    params: &M,
    early: Vec<Bytes>,
) -> Result<Option<(Box<RawValue>, Vec<Bytes>)>, Error> {
    let message =
        jsonrpc::request(HANDSHAKE_ID, M::NAME, params).map_err(|error| Error::encode(M::NAME, error))?;
    let keeps_messages = !early.is_empty();
    for message in std::iter::once(message.into()).chain(early) {
        if link.outgoing.respond(message).await.is_err() {
            return Ok(None);
        }
    }
    let (mut messages, mut early_bytes) = (Vec::new(), 0);
    while let Some(incoming) = link.incoming.recv().await {
        let Incoming::Message(line) = incoming else { continue };
        // A login shell may print text of its own before the daemon starts.
        let Ok(message) = jsonrpc::parse(&line) else { continue };
        if let Message::Single(Item::Response(response)) = message
            && response.id == Some(HANDSHAKE_ID.into())
        {
            return match (response.result, response.error) {
                (Some(result), _) => Ok(Some((result.to_owned(), messages))),
                (None, error) => Err(rpc_error(error.map(|raw| raw.get()).unwrap_or("null")).into()),
            };
        }
        if keeps_messages {
            early_bytes += line.len();
            if early_bytes > MAX_EARLY_BYTES {
                return Err(Error::ResponseTooLarge { bytes: early_bytes as u64 });
            }
            messages.push(line);
        }
    }
    Ok(None)
}

/// Decodes the server's error; an invalid one becomes an internal error that quotes it.
pub(super) fn rpc_error(text: &str) -> RpcError {
    serde_json::from_str(text)
        .unwrap_or_else(|_| RpcError::internal(format!("invalid error response: {text}")))
}
