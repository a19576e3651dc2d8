//! `exec.attach`: following a process that another session, or an earlier one, has started.

use engine::Roots;
use engine::process::{Cursor, Description, Process, ProcessId, ProcessState};
use wire::rexd::v1;

use super::super::answer::Answer;
use super::super::convert::{exit_code, exit_signal, pty_id, status};
use super::super::errors::{invalid, process_not_found};
use super::super::mailbox::{Letter, Notice};
use super::super::session::Session;
use super::detached::{Adopting, Then};
use super::exec::follow;
use crate::net::auth::Caller;

/// Where a reader begins, and how many bytes before that are gone.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct Position {
    pub(in super::super) at: u64,
    pub(in super::super) lost: u64,
}

impl Session {
    /// `exec.attach`: answered with where it goes on and what is gone, then the usual events.
    pub(super) fn exec_attach(&mut self, params: v1::ExecAttach, answer: Answer) {
        let Ok(from) = u64::try_from(params.cursor) else {
            return self.refuse(answer, invalid("cursor", "must not be negative"));
        };
        let id = ProcessId(params.process_id);
        match self.engine.process(&id).ok().filter(|process| !process.description().is_detached).cloned() {
            Some(own) => self.attach_here(own, from, answer, Whose::Own),
            None => self.look_for(id, from, answer),
        }
    }

    fn attach_here(&mut self, process: Process, from: u64, answer: Answer, whose: Whose) {
        let (events, letters) = (self.events(), self.letters());
        self.spawn(async move {
            if whose == Whose::Anothers {
                // Within reach before it is answered: the next request may type into it.
                letters.send(Letter::Notice(Notice::Found(process.clone()))).await.ok();
            }
            let at = process.first().0.max(from).min(process.state().end.0);
            let reader = match whose {
                Whose::Own => process.primary_reader(Cursor(at)),
                Whose::Anothers => process.reader(Cursor(at)),
            };
            let position = Position { at, lost: at.saturating_sub(from) };
            answer.send(Ok(attached(&process, &process.state(), position))).await;
            follow(&events, (process, reader), None, None).await;
        });
    }

    /// Looks among the processes of all sessions, then among those that keepers have.
    fn look_for(&mut self, id: ProcessId, from: u64, answer: Answer) {
        let (engine, keepers, letters) =
            (self.service.engine.clone(), self.service.keepers.clone(), self.letters());
        let (caller, roots) = (self.asker.caller.clone(), self.roots.clone());
        self.spawn(async move {
            let here = engine.processes().await.into_iter().find(|process| *process.id() == id);
            if let Some(process) = here.filter(|found| may_see(&caller, &roots, found.description())) {
                let notice = Notice::Attach { process, from, answer: Box::new(answer) };
                return drop(letters.send(Letter::Notice(notice)).await);
            }
            let kept = match &keepers {
                Some(keepers) => match keepers.find(&id).await {
                    Ok(listed) if may_see(&caller, &roots, &listed.description) => {
                        keepers.kept(&id, Cursor(from)).await.ok().map(|kept| (kept, listed))
                    }
                    _ => None,
                },
                None => None,
            };
            let Some(((kept, lost), listed)) = kept else {
                return answer.send(Err::<(), _>(process_not_found(&id.0))).await;
            };
            let position = Position { at: kept.from.0, lost };
            let then = Then::Attached { answer, listed: Box::new(listed), position };
            letters.send(Letter::Notice(Notice::Adopt(Box::new(Adopting { kept, then })))).await.ok();
        });
    }

    /// A process of another session was found.
    pub(in super::super) fn attach_found(&mut self, process: Process, from: u64, answer: Answer) {
        self.attach_here(process, from, answer, Whose::Anothers);
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whose {
    Own,
    Anothers,
}

/// Whether a caller who may see only some directories may see this process.
pub(super) fn may_see(caller: &Caller, roots: &Roots, process: &Description) -> bool {
    caller.roots.is_none() || roots.paths().iter().any(|root| process.cwd.starts_with(root))
}

pub(super) fn attached(process: &Process, facts: &ProcessState, position: Position) -> v1::ExecAttachResult {
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
