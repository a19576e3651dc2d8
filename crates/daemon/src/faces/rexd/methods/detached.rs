//! Detached processes: started under a keeper, found again, and brought within reach of a session.

use std::time::SystemTime;

use engine::process::{Cursor, KeptProcess, ProcessId, ProcessSpec};
use wire::rexd::v1::{self, RpcError};

use super::super::answer::Answer;
use super::super::call::Call;
use super::super::convert::{process_of_pty, pty_id, timestamp};
use super::super::errors::{process_not_found, pty_not_found, rpc_error, unsupported, with_hint};
use super::super::keys;
use super::super::mailbox::{Asked, Letter, Notice};
use super::super::order::Turn;
use super::super::session::Session;
use super::attach::{Position, attached, may_see};
use super::exec::follow;
use super::launch::remember;
use crate::keeper::{Keepers, ListedProcess};
use crate::observe::metrics::ProcessOwner;

/// A kept process that a session takes up, and what follows from it.
pub(in super::super) struct Adopting {
    pub(in super::super) kept: KeptProcess,
    pub(in super::super) then: Then,
}

/// What is done with a process once it is within reach.
pub(in super::super) enum Then {
    /// It was started just now.
    Started { answer: Answer, key: Option<keys::Kept>, started_at: SystemTime },
    /// Somebody follows it.
    Attached { answer: Answer, listed: Box<ListedProcess>, position: Position },
}

impl Adopting {
    /// The answer that is due.
    pub(in super::super) fn into_answer(self) -> Answer {
        match self.then {
            Then::Started { answer, .. } | Then::Attached { answer, .. } => answer,
        }
    }
}

/// A start that is to be answered.
pub(super) struct Detaching {
    pub(super) answer: Answer,
    pub(super) turn: Turn,
    pub(super) key: Option<keys::Kept>,
}

impl Session {
    /// The keepers of this user, if there is a place for them.
    pub(super) fn keepers(&self) -> Result<Keepers, RpcError> {
        let reason = "there is no state folder to keep it in: set HOME or XDG_STATE_HOME";
        self.service.keepers.clone().ok_or_else(|| unsupported("detach", reason))
    }

    /// Starts a process that outlives the session, and follows it.
    pub(super) fn start_detached(&mut self, spec: ProcessSpec, detaching: Detaching) {
        let Detaching { answer, turn, key } = detaching;
        let keepers = match self.keepers() {
            Ok(keepers) => keepers,
            Err(error) => return self.refuse(answer, error),
        };
        let (letters, by) = (self.letters(), self.asker.caller.name.clone());
        let (hint, has_terminal) = (self.service.no_roots.clone(), spec.terminal.is_some());
        self.spawn(async move {
            let started = keepers.start(spec, &by).await;
            match started {
                Ok(started) => match keepers.kept(&started.id, Cursor(0)).await {
                    Ok((kept, _)) => {
                        let then = Then::Started { answer, key, started_at: started.started_at };
                        let adopting = Box::new(Adopting { kept, then });
                        letters.send(Letter::Notice(Notice::Adopt(adopting))).await.ok();
                    }
                    // It runs, or has run: that it cannot be followed from here changes nothing about it.
                    Err(_unseen) if has_terminal => {
                        told(answer, key, opened(&started.id, started.started_at)).await
                    }
                    Err(_unseen) => told(answer, key, began(&started.id, started.started_at)).await,
                },
                Err(error) => {
                    let result: Result<(), _> = Err(with_hint(rpc_error(error), hint.as_deref()));
                    remember(key, &result);
                    answer.send(result).await;
                }
            }
            // Only now: a session that ends meanwhile still hears that the process runs, and answers.
            drop(turn);
        });
    }

    /// Takes up a kept process.
    pub(in super::super) fn adopt(&mut self, adopting: Adopting) {
        let Adopting { kept, then } = adopting;
        let (process, reader) = self.engine.adopt(kept);
        let (events, metrics) = (self.events(), self.service.metrics.clone());
        match then {
            Then::Started { answer, key, started_at } => self.spawn(async move {
                let counted = metrics.process_started(ProcessOwner::Detached);
                match process.description().has_terminal {
                    true => told(answer, key, opened(process.id(), started_at)).await,
                    false => told(answer, key, began(process.id(), started_at)).await,
                }
                follow(&events, (process, reader), None, Some(counted)).await;
            }),
            Then::Attached { answer, listed, position } => self.spawn(async move {
                answer.send(Ok(attached(&process, &listed.facts, position))).await;
                follow(&events, (process, reader), None, None).await;
            }),
        }
    }

    /// Takes a request on a process that this session does not know: if somebody keeps it, it comes within reach.
    /// Others that name it meanwhile wait behind this one, so that all are done in their order.
    pub(in super::super) fn reach(&mut self, asked: Asked, id: ProcessId) {
        let Some(keepers) = self.service.keepers.clone() else { return self.refuse_unknown(asked) };
        let waiting = self.reaching.entry(id.clone()).or_default();
        waiting.push(asked);
        if waiting.len() > 1 {
            return;
        }
        let (letters, caller, roots) = (self.letters(), self.asker.caller.clone(), self.roots.clone());
        self.spawn(async move {
            let found = match keepers.find(&id).await {
                Ok(listed) if may_see(&caller, &roots, &listed.description) => {
                    keepers.kept(&id, listed.facts.end).await.ok()
                }
                _ => None,
            };
            let kept = found.map(|(kept, _)| Box::new(kept));
            letters.send(Letter::Notice(Notice::Reached { id, kept })).await.ok();
        });
    }

    /// A process was looked for: whoever named it goes on, or hears that there is none.
    pub(in super::super) fn reached(&mut self, id: &ProcessId, kept: Option<Box<KeptProcess>>) {
        let waiting = self.reaching.remove(id).unwrap_or_default();
        if let Some(kept) = kept
            && self.engine.process(id).is_err()
        {
            // Nobody follows it here: its output passes unread.
            drop(self.engine.adopt(*kept));
        }
        let is_known = self.engine.process(id).is_ok();
        for asked in waiting {
            match is_known {
                true => self.take(Box::new(asked)),
                false => self.refuse_unknown(asked),
            }
        }
    }

    fn refuse_unknown(&self, asked: Asked) {
        self.spawn(refuse_unknown(asked));
    }

    /// The process a request is about, if this session does not know it.
    pub(in super::super) fn unknown_process(&self, call: &Call) -> Option<ProcessId> {
        let id = match call {
            Call::ExecWait(params) => ProcessId(params.process_id.clone()),
            Call::ExecKill(params) => ProcessId(params.process_id.clone()),
            Call::ExecInput(params) => ProcessId(params.process_id.clone()),
            Call::PtyInput(params) => process_of_pty(&params.pty_id)?,
            Call::PtyResize(params) => process_of_pty(&params.pty_id)?,
            Call::PtyClose(params) => process_of_pty(&params.pty_id)?,
            _ => return None,
        };
        self.process(&id.0).is_err().then_some(id)
    }
}

async fn refuse_unknown(asked: Asked) {
    let error = match &asked.call {
        Call::PtyInput(params) => pty_not_found(&params.pty_id),
        Call::PtyResize(params) => pty_not_found(&params.pty_id),
        Call::PtyClose(params) => pty_not_found(&params.pty_id),
        Call::ExecWait(params) => process_not_found(&params.process_id),
        Call::ExecKill(params) => process_not_found(&params.process_id),
        Call::ExecInput(params) => process_not_found(&params.process_id),
        _ => process_not_found(""),
    };
    asked.answer.send(Err::<(), _>(error)).await;
}

async fn told<T: serde::Serialize>(answer: Answer, key: Option<keys::Kept>, result: T) {
    let result = Ok(result);
    remember(key, &result);
    answer.send(result).await;
}

fn began(id: &ProcessId, started_at: SystemTime) -> v1::ExecStartResult {
    v1::ExecStartResult { process_id: id.0.clone(), started_at: timestamp(started_at) }
}

fn opened(id: &ProcessId, started_at: SystemTime) -> v1::PtyOpenResult {
    v1::PtyOpenResult {
        pty_id: pty_id(id),
        process_id: id.0.clone(),
        started_at: Some(timestamp(started_at)),
    }
}
