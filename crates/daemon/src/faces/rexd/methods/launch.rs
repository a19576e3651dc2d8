//! From a start that was begun to its answer: the same for commands and terminals.

use engine::process::{Cursor, LogReader, PendingStart, Process};
use serde::Serialize;
use tokio::sync::mpsc;
use wire::rexd::v1::RpcError;

use super::super::answer::Answer;
use super::super::call::Call;
use super::super::errors::{rpc_error, with_hint};
use super::super::events::Events;
use super::super::fingerprint::Fingerprint;
use super::super::keys::{Claim, Kept, KeyState, Seen};
use super::super::mailbox::{Letter, Notice};
use super::super::order::Turn;
use super::super::session::Session;
use super::exec::tell_failure;

/// A start under way.
pub(super) struct Launch {
    starting: PendingStart,
    /// Taken before the program runs: what it writes while its start is still being answered is kept for it.
    reader: LogReader,
    session_id: std::sync::Arc<str>,
    events: Events,
    letters: mpsc::Sender<Letter>,
    hint: Option<String>,
}

/// Whether the answer must have left before anything else may be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Saying {
    Queued,
    Written,
}

impl Session {
    pub(super) fn launch(&mut self, starting: PendingStart) -> Launch {
        let events = self.events();
        let hint = self.service.no_roots.clone();
        let reader = starting.process().primary_reader(Cursor(0));
        Launch { starting, reader, session_id: self.id.clone(), events, letters: self.letters(), hint }
    }

    /// What the idempotency key of a request says about it.
    pub(in super::super) fn key_state(&self, call: &Call) -> KeyState {
        key_of(call).map_or(KeyState::Free, |key| self.keys.state(key, || request_of(call)))
    }

    /// Holds the idempotency key of a request, if it has one.
    pub(in super::super) fn claim(&self, call: &Call) -> Option<Claim> {
        key_of(call).map(|key| self.keys.claim(key))
    }

    /// Sorts out a request with an idempotency key: nothing comes back when it was answered from memory.
    pub(super) fn once<P: Fingerprint>(
        &self,
        answer: Answer,
        key: Option<&str>,
        params: &P,
    ) -> Option<(Answer, Option<Kept>)> {
        let Some(key) = key else { return Some((answer, None)) };
        match self.keys.look(key, params.fingerprint()) {
            Ok(Seen::First(kept)) => Some((answer, Some(kept))),
            Ok(Seen::Answered(result)) => {
                self.reply(answer, result);
                None
            }
            Err(error) => {
                self.refuse(answer, error);
                None
            }
        }
    }
}

impl Launch {
    /// Waits until the program runs and answers; a failure is answered, told as an event, and forgotten.
    pub(super) async fn running<T: Serialize>(
        self,
        answer: Answer,
        turn: Turn,
        kept: Option<Kept>,
        result: impl FnOnce(&Process) -> T,
        saying: Saying,
    ) -> Option<(Process, LogReader)> {
        let id = self.starting.process().id().clone();
        let outcome = self.starting.running().await;
        drop(turn);
        match outcome {
            Ok(process) => {
                let result = Ok(result(&process));
                remember(kept, &result);
                match saying {
                    Saying::Queued => answer.send(result).await,
                    Saying::Written => answer.send_written(result).await,
                }
                Some((process, self.reader))
            }
            Err(error) => {
                let error = with_hint(rpc_error(error), self.hint.as_deref());
                let result: Result<T, RpcError> = Err(error.clone());
                remember(kept, &result);
                answer.send(result).await;
                tell_failure(&self.events, self.session_id.to_string(), id.0.clone(), error).await;
                self.letters.send(Letter::Notice(Notice::NeverRan(id))).await.ok();
                None
            }
        }
    }
}

/// Keeps an answer under its key.
pub(super) fn remember<T: Serialize>(kept: Option<Kept>, result: &Result<T, RpcError>) {
    if let Some(kept) = kept {
        let value = match result {
            Ok(result) => serde_json::to_value(result).map_err(|error| RpcError::internal(error.to_string())),
            Err(error) => Err(error.clone()),
        };
        kept.answered(value);
    }
}

/// The idempotency key of a request.
fn key_of(call: &Call) -> Option<&str> {
    let key = match call {
        Call::ExecStart(params) => &params.idempotency_key,
        Call::PtyOpen(params) => &params.idempotency_key,
        Call::ExecInput(params) => &params.idempotency_key,
        Call::PtyInput(params) => &params.idempotency_key,
        Call::FsWrite(params) => &params.idempotency_key,
        Call::FsEdit(params) => &params.idempotency_key,
        Call::FsPatch(params) => &params.idempotency_key,
        Call::FsMkdir(params) => &params.idempotency_key,
        Call::FsRemove(params) => &params.idempotency_key,
        Call::FsRename(params) => &params.idempotency_key,
        Call::FsCopy(params) => &params.idempotency_key,
        _ => return None,
    };
    key.as_deref()
}

/// The fingerprint of a request that can have a key.
fn request_of(call: &Call) -> u64 {
    match call {
        Call::ExecStart(params) => params.fingerprint(),
        Call::PtyOpen(params) => params.fingerprint(),
        Call::ExecInput(params) => params.fingerprint(),
        Call::PtyInput(params) => params.fingerprint(),
        Call::FsWrite(params) => params.fingerprint(),
        Call::FsEdit(params) => params.fingerprint(),
        Call::FsPatch(params) => params.fingerprint(),
        Call::FsMkdir(params) => params.fingerprint(),
        Call::FsRemove(params) => params.fingerprint(),
        Call::FsRename(params) => params.fingerprint(),
        Call::FsCopy(params) => params.fingerprint(),
        _ => 0,
    }
}
