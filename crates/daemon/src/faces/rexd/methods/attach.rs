//! `exec.attach`: follows a process that another session, or an earlier one, has started.

use engine::process::{Cursor, Process, ProcessId, ProcessState};
use wire::rexd::v1;

use super::processes::{adopt_attached, follow, may_see};
use super::{Context, Params, PrepareResult, RexdPrepared};
use crate::core::request::AuthorizedRequest;
use crate::core::responder::Responder;
use crate::core::session::SessionMessage;
use crate::faces::rexd::convert::{exit_code, exit_signal, pty_id, status};
use crate::faces::rexd::errors::{invalid, process_not_found};
use crate::faces::rexd::session::Session;

/// Where a reader starts, and how many bytes before that are lost.
#[derive(Debug, Clone, Copy)]
pub(super) struct Position {
    at: u64,
    lost: u64,
}

/// `exec.attach`: answered with the position, then the usual events.
pub(crate) fn attach(params: &Params<v1::ExecAttach>, _: &Context<'_>) -> PrepareResult {
    let from = u64::try_from(params.cursor).map_err(|_negative| invalid("cursor", "must not be negative"))?;
    let id = ProcessId(params.process_id.clone());
    Ok(RexdPrepared::new(move |session, request| {
        let own =
            session.engine.process(&id).ok().filter(|process| !process.description().is_detached).cloned();
        match own {
            Some(own) => attach_to(session, own, from, request.responder, Owner::ThisSession),
            None => look_up(session, id, from, request),
        }
    }))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owner {
    ThisSession,
    Another,
}

fn attach_to(session: &mut Session, process: Process, from: u64, responder: Responder, owner: Owner) {
    if owner == Owner::Another {
        session.state.attach(process.clone());
    }
    let at = process.first().0.max(from).min(process.state().end.0);
    let reader = match owner {
        Owner::ThisSession => process.primary_reader(Cursor(at)),
        Owner::Another => process.reader(Cursor(at)),
    };
    let position = Position { at, lost: at.saturating_sub(from) };
    let result = attach_result(&process, &process.state(), position);
    let follow = follow(session, (process, reader), None);
    session.spawn(async move {
        responder.send(Ok(result)).await;
        follow.await;
    });
}

/// Looks among the processes of all sessions, then among the detached ones.
fn look_up(session: &mut Session, id: ProcessId, from: u64, request: AuthorizedRequest) {
    let (core, handle) = (session.core.clone(), session.handle());
    let (caller, roots) = (session.requester.caller.clone(), session.roots.clone());
    let responder = request.responder;
    session.spawn(async move {
        let here = core.engine.processes().await.into_iter().find(|process| *process.id() == id);
        if let Some(process) = here.filter(|found| may_see(&caller, &roots, found.description())) {
            let attach = move |session: &mut Session, responder: Responder| {
                attach_to(session, process, from, responder, Owner::Another);
            };
            return handle.send(SessionMessage::complete(responder, attach)).await;
        }
        let kept = match &core.keepers {
            Some(keepers) => match keepers.find(&id).await {
                Ok(listed) if may_see(&caller, &roots, &listed.description) => {
                    keepers.kept(&id, Cursor(from)).await.ok().map(|kept| (kept, listed))
                }
                _ => None,
            },
            None => None,
        };
        let Some(((kept, lost), listed)) = kept else {
            return responder.reject(process_not_found(&id.0)).await;
        };
        let position = Position { at: kept.from.0, lost };
        let adopt = move |session: &mut Session, responder: Responder| {
            adopt_attached(session, kept, (listed, position), responder);
        };
        handle.send(SessionMessage::complete(responder, adopt)).await;
    });
}

pub(super) fn attach_result(
    process: &Process,
    facts: &ProcessState,
    position: Position,
) -> v1::ExecAttachResult {
    let exit = facts.closed.as_ref().map(|closed| closed.exit);
    v1::ExecAttachResult {
        process_id: process.id().0.clone(),
        pty_id: process.description().has_terminal.then(|| pty_id(process.id())),
        status: status(facts).to_owned(),
        exit_code: exit.map(exit_code),
        signal: exit.and_then(exit_signal),
        cursor: position.at,
        lost: position.lost,
    }
}
