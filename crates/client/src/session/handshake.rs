//! The first request on a new link: it opens a session or resumes one.

use std::time::Duration;

use link::{Incoming, Link};
use serde::Deserialize;
use serde_json::value::RawValue;
use wire::jsonrpc::{self, Item, Message, RpcError};
use wire::rexd::v1::{Method, PROTOCOL, SessionOpenResult, SessionResume, codes};

use crate::dial::{TargetLink, dial};
use crate::error::{ConnectError, ConnectStep, Error};
use crate::options::SessionOptions;
use crate::target::Target;

/// Attempts to open a session on connections that are cut.
const MAX_ATTEMPTS: usize = 5;
/// The pause after the first of them; it doubles.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// The id of the first request.
const HANDSHAKE_ID: u64 = 1;
/// The first id of the requests that follow.
pub(super) const FIRST_FREE_ID: u64 = 2;

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

/// Connects to the target and opens a session. Tries again if the connection is cut before the response: an unused
/// session that the server opened ends with its connection.
pub(super) async fn open(
    target: &Target,
    options: &SessionOptions,
) -> Result<(TargetLink, SessionOpenResult), Error> {
    let params = options.open_params(target);
    let opening = async {
        let mut pause = FIRST_PAUSE;
        for _ in 1..MAX_ATTEMPTS {
            match connect(target, options, &params).await {
                Err(Error::Connect(error)) if error.is_cut() => tokio::time::sleep(pause).await,
                result => return result,
            }
            pause *= 2;
        }
        connect(target, options, &params).await
    };
    match tokio::time::timeout(options.connect_timeout, opening).await {
        Ok(opened) => opened,
        Err(_elapsed) => Err(timed_out(target, options).await),
    }
}

/// Connects and sends the first request. If that fails or is dropped, the carrier is stopped.
async fn connect<M: Method<Result = SessionOpenResult>>(
    target: &Target,
    options: &SessionOptions,
    params: &M,
) -> Result<(TargetLink, SessionOpenResult), Error> {
    let mut guard = StopOnDrop(Some(dial(target, options).await?));
    let Some(link) = guard.0.as_mut() else { return Err(Error::Closed) };
    let opened = handshake(link, target, params).await?;
    let link = guard.0.take().ok_or(Error::Closed)?;
    Ok((link, opened))
}

/// Stops the carrier of a link on which no session was opened.
struct StopOnDrop(Option<TargetLink>);

impl Drop for StopOnDrop {
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
async fn timed_out(target: &Target, options: &SessionOptions) -> Error {
    crate::dial::abandon_shared(target).await;
    let seconds = options.connect_timeout.as_secs();
    let error = ConnectError::new(target, ConnectStep::Connect, format!("no answer within {seconds} s"));
    error.hint(crate::dial::timeout_hint(target)).transient().into()
}

async fn handshake<M: Method<Result = SessionOpenResult>>(
    link: &mut TargetLink,
    target: &Target,
    params: &M,
) -> Result<SessionOpenResult, Error> {
    let Some(result) = first_response(&mut link.link, params).await? else {
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
    Ok(opened)
}

/// The protocol that the server has chosen.
#[derive(Deserialize)]
struct Negotiated {
    #[serde(default)]
    protocol: Option<String>,
}

/// Sends the first request and waits for its response; `None` if the link ended first.
async fn first_response<M: Method>(link: &mut Link, params: &M) -> Result<Option<Box<RawValue>>, Error> {
    let message =
        jsonrpc::request(HANDSHAKE_ID, M::NAME, params).map_err(|error| Error::encode(M::NAME, error))?;
    if link.outgoing.respond(message.into()).await.is_err() {
        return Ok(None);
    }
    while let Some(incoming) = link.incoming.recv().await {
        let Incoming::Message(line) = incoming else { continue };
        // A login shell may print text of its own before the daemon starts.
        let Ok(Message::Single(Item::Response(response))) = jsonrpc::parse(&line) else { continue };
        if response.id != Some(HANDSHAKE_ID.into()) {
            continue;
        }
        return match (response.result, response.error) {
            (Some(result), _) => Ok(Some(result.to_owned())),
            (None, error) => Err(rpc_error(error.map(|raw| raw.get()).unwrap_or("null")).into()),
        };
    }
    Ok(None)
}

/// Decodes the server's error; an invalid one becomes an internal error that quotes it.
pub(super) fn rpc_error(text: &str) -> RpcError {
    serde_json::from_str(text)
        .unwrap_or_else(|_| RpcError::internal(format!("invalid error response: {text}")))
}
