//! The first words on a new link: opening a session, or taking one up again.

use link::{Incoming, Link};
use serde::Deserialize;
use serde_json::value::RawValue;
use wire::jsonrpc::{self, Item, Message, RpcError};
use wire::rexd::v1::{Method, PROTOCOL, SessionOpenResult, SessionResume, codes};

use crate::dial::{Dialed, dial};
use crate::error::{ConnectError, ConnectStep, Error};
use crate::options::SessionOptions;
use crate::target::Target;

/// The id of the greeting; requests of the session count on from there.
const GREETING_ID: u64 = 1;
/// The first id that a session's requests may have.
pub(super) const FIRST_FREE_ID: u64 = 2;

/// Why a session could not be taken up again.
#[derive(Debug)]
pub(super) enum NotResumed {
    /// It could be possible later.
    NotNow(Error),
    /// The server does not know it any more.
    Gone(RpcError),
    /// It will not be possible.
    Never(Error),
}

/// Reaches the target and opens a session.
pub(super) async fn open(
    target: &Target,
    options: &SessionOptions,
) -> Result<(Dialed, SessionOpenResult), Error> {
    let greeting = options.greeting(target);
    tokio::time::timeout(options.connect_timeout, reach(target, options, &greeting))
        .await
        .unwrap_or_else(|_| Err(too_late(target, options)))
}

/// A link with a session on it. If there will be none, for whatever reason, its carrier ends with this.
async fn reach<M: Method<Result = SessionOpenResult>>(
    target: &Target,
    options: &SessionOptions,
    greeting: &M,
) -> Result<(Dialed, SessionOpenResult), Error> {
    let mut ungreeted = Ungreeted(Some(dial(target, options).await?));
    let Some(dialed) = ungreeted.0.as_mut() else { return Err(Error::Closed) };
    let opened = greet(dialed, target, greeting).await?;
    let dialed = ungreeted.0.take().ok_or(Error::Closed)?;
    Ok((dialed, opened))
}

/// A link on which no session is open yet.
struct Ungreeted(Option<Dialed>);

impl Drop for Ungreeted {
    fn drop(&mut self) {
        if let Some(dialed) = &mut self.0 {
            dialed.carrier.end();
        }
    }
}

/// Reaches the target and takes the session up again.
pub(super) async fn resume(
    target: &Target,
    options: &SessionOptions,
    session: &SessionResume,
) -> Result<(Dialed, SessionOpenResult), NotResumed> {
    let greeted = tokio::time::timeout(options.connect_timeout, reach(target, options, session));
    greeted.await.unwrap_or_else(|_| Err(too_late(target, options))).map_err(|error| match error {
        Error::Refused(error) if error.code == codes::UNAUTHORIZED && error.data["retry"] != true => {
            NotResumed::Gone(*error)
        }
        other => NotResumed::of(other),
    })
}

impl NotResumed {
    /// Whether trying again may help.
    pub(super) fn of(error: Error) -> NotResumed {
        match error {
            Error::Refused(error) if error.data["retry"] == true => NotResumed::NotNow(Error::Refused(error)),
            Error::Connect(error) if error.is_transient => NotResumed::NotNow(Error::Connect(error)),
            other => NotResumed::Never(other),
        }
    }
}

fn too_late(target: &Target, options: &SessionOptions) -> Error {
    let patience = options.connect_timeout.as_secs();
    let error = ConnectError::new(target, ConnectStep::Connect, format!("no answer within {patience} s"));
    error.hint(crate::dial::silent(target)).transient().into()
}

async fn greet<M: Method<Result = SessionOpenResult>>(
    dialed: &mut Dialed,
    target: &Target,
    params: &M,
) -> Result<SessionOpenResult, Error> {
    let Some(result) = first_answer(&mut dialed.link, params).await? else {
        return Err(dialed.carrier.explain(target).await.into());
    };
    // Another version may say everything else in another way.
    let spoken = serde_json::from_str::<Spoken>(result.get()).ok().and_then(|spoken| spoken.protocol);
    if let Some(spoken) = spoken.filter(|spoken| spoken != PROTOCOL) {
        let cause = format!("it speaks {spoken} and we speak {PROTOCOL}");
        let error = ConnectError::new(target, ConnectStep::OpenSession, cause)
            .hint("rex target install HOST   updates it");
        return Err(error.into());
    }
    serde_json::from_str(result.get())
        .map_err(|error| Error::Protocol(format!("the answer to {} is odd: {error}", M::NAME)))
}

/// What is spoken there.
#[derive(Deserialize)]
struct Spoken {
    #[serde(default)]
    protocol: Option<String>,
}

/// Asks and waits for the answer; nothing if the link ended first.
async fn first_answer<M: Method>(link: &mut Link, params: &M) -> Result<Option<Box<RawValue>>, Error> {
    let message = jsonrpc::request(GREETING_ID, M::NAME, params)
        .map_err(|error| Error::Protocol(format!("the greeting is not JSON: {error}")))?;
    if link.outgoing.respond(message.into()).await.is_err() {
        return Ok(None);
    }
    while let Some(incoming) = link.incoming.recv().await {
        let Incoming::Message(line) = incoming else { continue };
        // A login shell may print a greeting of its own before the daemon speaks.
        let Ok(Message::Single(Item::Response(response))) = jsonrpc::parse(&line) else { continue };
        if response.id != Some(GREETING_ID.into()) {
            continue;
        }
        return match (response.result, response.error) {
            (Some(result), _) => Ok(Some(result.to_owned())),
            (None, error) => Err(rpc_error(error.map(|raw| raw.get()).unwrap_or("null")).into()),
        };
    }
    Ok(None)
}

/// The server's error, however badly it is written.
pub(super) fn rpc_error(text: &str) -> RpcError {
    serde_json::from_str(text)
        .unwrap_or_else(|_| RpcError::internal(format!("an error that cannot be read: {text}")))
}
