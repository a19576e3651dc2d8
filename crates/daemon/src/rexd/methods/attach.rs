//! `exec.attach`: following a process that another session, or an earlier one, has started.

use engine::process::{Cursor, Process, ProcessId};
use wire::rexd::v1;

use super::super::answer::Answer;
use super::super::convert::{exit_code, exit_signal, pty_id, status};
use super::super::errors::{invalid, process_not_found};
use super::super::mailbox::{Letter, Notice};
use super::super::session::Session;
use super::exec::follow;

impl Session {
    /// `exec.attach`: answered with where it goes on and what is gone, then the usual events.
    pub(super) fn exec_attach(&mut self, params: v1::ExecAttach, answer: Answer) {
        let Ok(from) = u64::try_from(params.cursor) else {
            return self.refuse(answer, invalid("cursor", "must not be negative"));
        };
        let own = self.engine.process(&ProcessId(params.process_id.clone())).ok().cloned();
        let (engine, events, letters) = (self.service.engine.clone(), self.events(), self.letters());
        let roots = self.asker.caller.roots.is_some().then(|| self.roots.clone());
        self.spawn(async move {
            let is_own = own.is_some();
            let found = match own {
                Some(process) => Some(process),
                None => {
                    let all = engine.processes().await;
                    let is_meant = |process: &Process| process.id().0 == params.process_id;
                    all.into_iter().find(is_meant).filter(|process| is_within(process, roots.as_ref()))
                }
            };
            let Some(process) = found else {
                return answer.send(Err::<(), _>(process_not_found(&params.process_id))).await;
            };
            if !is_own {
                // Within reach before it is answered: the next request may type into it.
                letters.send(Letter::Notice(Notice::Found(process.clone()))).await.ok();
            }
            let at = process.first().0.max(from).min(process.facts().end.0);
            let reader = match is_own {
                true => process.primary_reader(Cursor(at)),
                false => process.reader(Cursor(at)),
            };
            answer.send(Ok(attached(&process, from, at))).await;
            follow(&events, (process, reader), None, None).await;
        });
    }
}

/// Whether a caller who may see only some directories may see this process.
pub(super) fn is_within(process: &Process, roots: Option<&engine::Roots>) -> bool {
    let cwd = &process.description().cwd;
    roots.is_none_or(|roots| roots.paths().iter().any(|root| cwd.starts_with(root)))
}

fn attached(process: &Process, from: u64, at: u64) -> v1::ExecAttachResult {
    let facts = process.facts();
    let exit = facts.closed.as_ref().map(|closed| closed.exit);
    v1::ExecAttachResult {
        process_id: process.id().0.clone(),
        pty_id: process.description().has_terminal.then(|| pty_id(process.id())),
        status: status(&facts).to_owned(),
        exit_code: exit.map(exit_code),
        signal: exit.and_then(exit_signal),
        cursor: at,
        lost: at.saturating_sub(from),
    }
}
