//! Input: written once, however often a client that lost its connection asks.

use std::collections::{HashSet, VecDeque};

use engine::Error;
use wire::exec_server::{ErrorObject, v0, v1};

use super::answer::Answer;
use super::errors::failed;
use super::pump::Words;
use super::session::Session;

/// Names of writes that are remembered per process.
const REMEMBERED: usize = 4_096;

/// The names of the latest writes to one process.
#[derive(Debug, Default)]
pub(super) struct WriteIds {
    known: HashSet<String>,
    order: VecDeque<String>,
}

impl WriteIds {
    /// Notes a write; false if there was one of this name before.
    fn is_new(&mut self, id: &str) -> bool {
        if !self.known.insert(id.to_owned()) {
            return false;
        }
        self.order.push_back(id.to_owned());
        if self.order.len() > REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
        true
    }
}

impl Session {
    /// `process/write`.
    pub(super) fn write(&mut self, params: v1::WriteParams, answer: Answer) {
        let status = |status| Ok::<_, ErrorObject>(v1::WriteResponse { status });
        if params.write_id.as_deref() == Some("") {
            return self
                .reply(answer, Err::<(), _>(ErrorObject::invalid_params("writeId must not be empty")));
        }
        if self.asked.contains_key(&params.process_id) {
            return self.reply(answer, status(v1::WriteStatus::Starting));
        }
        let Some(managed) = self.managed(&params.process_id).filter(|managed| managed.words == Words::V1)
        else {
            return self.reply(answer, status(v1::WriteStatus::UnknownProcess));
        };
        if !managed.takes_input {
            return self.reply(answer, status(v1::WriteStatus::StdinClosed));
        }
        if params.write_id.as_deref().is_some_and(|id| !managed.write_ids.is_new(id)) {
            return self.reply(answer, status(v1::WriteStatus::Accepted));
        }
        let process = managed.process.clone();
        self.spawn(async move {
            let written = process.input(params.chunk.into_inner(), false).await;
            answer
                .send(match written {
                    // Accepted never meant read: a client that types while the process ends must hear of the end, not of
                    // its input.
                    Ok(_) | Err(Error::Gone | Error::InputClosed) => status(v1::WriteStatus::Accepted),
                    Err(error) => Err(failed(error)),
                })
                .await;
        });
    }

    /// `command/exec/write`.
    pub(super) fn write_v0(&mut self, params: v0::WriteParams, answer: Answer) {
        let id = &params.process_id;
        let refuse = |message: String| Err::<(), _>(ErrorObject::invalid_request(message));
        let Some(managed) = self.managed(id).filter(|managed| managed.words == Words::V0) else {
            return self.reply(answer, refuse(format!("there is no process {id:?}")));
        };
        if !managed.takes_input {
            let message = format!("the standard input of process {id:?} is closed: it has no terminal");
            return self.reply(answer, refuse(message));
        }
        let process = managed.process.clone();
        self.spawn(async move {
            let written = process.input(params.chunk.into_inner(), false).await;
            let accepted = written.map(|_bytes| v0::WriteResponse { accepted: true });
            answer.send(accepted.map_err(|error| ErrorObject::internal(error.to_string()))).await;
        });
    }
}
