//! Every method of both vocabularies, and who does it.

use bytes::Bytes;
use link::Outgoing;
use serde::de::DeserializeOwned;
use wire::codex::http::HTTP_REQUEST;
use wire::codex::{ErrorObject, code, v0, v1};

use super::answer::Answer;
use super::environment;
use super::pump::Words;
use super::session::Session;

/// Decodes the params of a request.
pub(super) fn decode<T: DeserializeOwned>(params: Option<&Bytes>) -> Result<T, ErrorObject> {
    let text: &[u8] = params.map_or(b"null", |text| text);
    serde_json::from_slice(text).map_err(|error| ErrorObject::invalid_params(error.to_string()))
}

/// Does what a request asks for within its session.
pub(super) fn perform(
    session: &mut Session,
    (method, params): (&str, Option<&Bytes>),
    outgoing: &Outgoing,
    answer: Answer,
) {
    /// Decodes and goes on, or says what is wrong.
    macro_rules! with {
        ($act:expr) => {
            match decode(params) {
                Ok(params) => $act(params, answer),
                Err(error) => session.reply(answer, Err::<(), _>(error)),
            }
        };
    }
    match method {
        v1::PROCESS_START => with!(|params, answer| session.start(params, answer)),
        v1::PROCESS_READ => with!(|params, answer| session.read(params, answer)),
        v1::PROCESS_WRITE => with!(|params, answer| session.write(params, answer)),
        v1::PROCESS_TERMINATE => {
            with!(|params: v1::TerminateParams, answer| session.terminate(
                &params.process_id,
                Words::V1,
                answer
            ))
        }
        v1::PROCESS_SIGNAL => with!(|params: v1::SignalParams, answer| session.signal(&params, answer)),
        v0::method::EXEC => with!(|params, answer| session.start_v0(params, answer)),
        v0::method::WRITE => with!(|params, answer| session.write_v0(params, answer)),
        v0::method::TERMINATE => {
            with!(|params: v0::TerminateParams, answer| session.terminate(
                &params.process_id,
                Words::V0,
                answer
            ))
        }
        v1::FS_READ_FILE => with!(|params, answer| session.read_file(params, answer)),
        v1::FS_WRITE_FILE => with!(|params, answer| session.write_file(params, answer)),
        v1::FS_CREATE_DIRECTORY => with!(|params, answer| session.create_directory(params, answer)),
        v1::FS_GET_METADATA => with!(|params, answer| session.metadata(params, answer)),
        v1::FS_READ_DIRECTORY => with!(|params, answer| session.read_directory(params, answer)),
        v1::FS_REMOVE => with!(|params, answer| session.remove(params, answer)),
        v1::FS_COPY => with!(|params, answer| session.copy(params, answer)),
        v1::FS_CANONICALIZE => with!(|params, answer| session.canonicalize(params, answer)),
        v1::FS_WALK => with!(|params, answer| session.walk(params, answer)),
        v1::FS_OPEN => with!(|params, answer| session.open(params, answer)),
        v1::FS_READ_BLOCK => {
            with!(|params: v1::FsReadBlockParams, answer| session.read_block(&params, answer))
        }
        v1::FS_WRITE_BLOCK => with!(|params, answer| session.write_block(params, answer)),
        v1::FS_CLOSE => with!(|params: v1::FsHandle, answer| session.close_handle(&params, answer)),
        v1::FS_WATCH_MISSING => {
            with!(|params: v1::FsWatchMissingParams, answer| session.watch_missing(&params, outgoing, answer))
        }
        HTTP_REQUEST => with!(|params, answer| session.fetch(params, outgoing, answer)),
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
