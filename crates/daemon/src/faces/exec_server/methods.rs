//! Every method of both vocabularies, and who does it.

use bytes::Bytes;
use link::Outgoing;
use serde::de::DeserializeOwned;
use wire::exec_server::http::HTTP_REQUEST;
use wire::exec_server::{ErrorObject, code, v0, v1};

use super::answer::Answer;
use super::details::Described;
use super::environment;
use super::session::Session;

/// The names of all methods, for metrics and traces.
pub(crate) const METHODS: &[&str] = &[
    v1::INITIALIZE,
    v1::PROCESS_START,
    v1::PROCESS_READ,
    v1::PROCESS_WRITE,
    v1::PROCESS_TERMINATE,
    v1::PROCESS_SIGNAL,
    v0::method::EXEC,
    v0::method::WRITE,
    v0::method::TERMINATE,
    v1::FS_READ_FILE,
    v1::FS_WRITE_FILE,
    v1::FS_CREATE_DIRECTORY,
    v1::FS_GET_METADATA,
    v1::FS_READ_DIRECTORY,
    v1::FS_REMOVE,
    v1::FS_COPY,
    v1::FS_CANONICALIZE,
    v1::FS_WALK,
    v1::FS_OPEN,
    v1::FS_READ_BLOCK,
    v1::FS_WRITE_BLOCK,
    v1::FS_CLOSE,
    v1::FS_WATCH_MISSING,
    HTTP_REQUEST,
    v1::ENVIRONMENT_INFO,
    v1::ENVIRONMENT_STATUS,
];

/// Decodes the params of a request.
pub(super) fn decode<T: DeserializeOwned>(params: Option<&Bytes>) -> Result<T, ErrorObject> {
    let text: &[u8] = params.map_or(b"null", |text| text);
    serde_json::from_slice(text).map_err(|error| ErrorObject::invalid_params(error.to_string()))
}

/// Decodes, notes what the audit should know, and goes on; or says what is wrong.
fn with<T: DeserializeOwned + Described>(
    session: &mut Session,
    params: Option<&Bytes>,
    mut answer: Answer,
    act: impl FnOnce(&mut Session, T, Answer),
) {
    match decode::<T>(params) {
        Ok(params) => {
            answer.describe(params.details());
            act(session, params, answer);
        }
        Err(error) => session.reply(answer, Err::<(), _>(error)),
    }
}

/// Does what a request asks for within its session.
pub(super) fn perform(
    session: &mut Session,
    (method, params): (&str, Option<&Bytes>),
    outgoing: &Outgoing,
    answer: Answer,
) {
    match method {
        v1::PROCESS_START => with(session, params, answer, Session::start),
        v1::PROCESS_READ => with(session, params, answer, Session::read),
        v1::PROCESS_WRITE => with(session, params, answer, Session::write),
        v1::PROCESS_TERMINATE => with(session, params, answer, Session::terminate),
        v1::PROCESS_SIGNAL => with(session, params, answer, Session::signal),
        v0::method::EXEC => with(session, params, answer, Session::start_v0),
        v0::method::WRITE => with(session, params, answer, Session::write_v0),
        v0::method::TERMINATE => with(session, params, answer, Session::terminate_v0),
        v1::FS_READ_FILE => with(session, params, answer, Session::read_file),
        v1::FS_WRITE_FILE => with(session, params, answer, Session::write_file),
        v1::FS_CREATE_DIRECTORY => with(session, params, answer, Session::create_directory),
        v1::FS_GET_METADATA => with(session, params, answer, Session::metadata),
        v1::FS_READ_DIRECTORY => with(session, params, answer, Session::read_directory),
        v1::FS_REMOVE => with(session, params, answer, Session::remove),
        v1::FS_COPY => with(session, params, answer, Session::copy),
        v1::FS_CANONICALIZE => with(session, params, answer, Session::canonicalize),
        v1::FS_WALK => with(session, params, answer, Session::walk),
        v1::FS_OPEN => with(session, params, answer, Session::open),
        v1::FS_READ_BLOCK => with(session, params, answer, Session::read_block),
        v1::FS_WRITE_BLOCK => with(session, params, answer, Session::write_block),
        v1::FS_CLOSE => with(session, params, answer, Session::close_handle),
        v1::FS_WATCH_MISSING => with(session, params, answer, |session, params, answer| {
            session.watch_missing(params, outgoing, answer);
        }),
        HTTP_REQUEST => with(session, params, answer, |session, params, answer| {
            session.fetch(params, outgoing, answer);
        }),
        v1::ENVIRONMENT_INFO => session.reply(answer, Ok(environment::info(&session.service.roots))),
        v1::ENVIRONMENT_STATUS => {
            session.reply(answer, Ok(v1::EnvironmentStatus { status: "ready".to_owned() }));
        }
        _ => {
            let error = ErrorObject::new(code::METHOD_NOT_FOUND, format!("there is no method {method:?}"));
            session.reply(answer, Err::<(), _>(error));
        }
    }
}
