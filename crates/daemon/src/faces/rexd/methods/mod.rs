//! What each method does, one file per family.

mod approvals;
mod attach;
mod content;
mod detached;
mod details;
mod exec;
mod files;
mod launch;
mod mode_string;
mod pty;
mod scans;
mod session;
mod watches;

pub(super) use detached::Adopting;
pub(super) use details::details;
pub(super) use session::{open, ping, welcome};

use super::call::Call;
use super::errors::session_not_found;
use super::mailbox::Asked;
use super::order::Turn;
use super::session::Session;

impl Session {
    /// Does what was asked for and may be done; `turn` is held for as long as others must wait for it.
    pub(super) fn perform(&mut self, asked: Asked, turn: Turn) {
        let Asked { call, answer, permit, claim: _ } = asked;
        self.permit = permit.unwrap_or_default();
        match call {
            Call::SessionInfo(_) => self.info(answer),
            Call::SessionSetCwd(params) => self.set_cwd(params, answer, turn),
            Call::SessionClose(_) if self.closing.is_some() => {
                self.refuse(answer, session_not_found(&self.id));
            }
            // Its task sees that it is over, and answers when it is.
            Call::SessionClose(_) => self.closing = Some(answer),
            Call::ExecStart(params) => self.exec_start(params, answer, turn),
            Call::ExecWait(params) => self.exec_wait(params, answer),
            Call::ExecKill(params) => self.exec_kill(params, answer),
            Call::ExecInput(params) => self.exec_input(params, answer),
            Call::ExecList(_) => self.exec_list(answer),
            Call::ExecAttach(params) => self.exec_attach(params, answer),
            Call::PtyOpen(params) => self.pty_open(params, answer, turn),
            Call::PtyInput(params) => self.pty_input(params, answer),
            Call::PtyResize(params) => self.pty_resize(params, answer),
            Call::PtyClose(params) => self.pty_close(params, answer),
            Call::FsRead(params) => self.fs_read(params, answer, turn),
            Call::FsWrite(params) => self.fs_write(params, answer, turn),
            Call::FsEdit(params) => self.fs_edit(params, answer, turn),
            Call::FsPatch(params) => self.fs_patch(params, answer, turn),
            Call::FsStat(params) => self.fs_stat(params, answer, turn),
            Call::FsMkdir(params) => self.fs_mkdir(params, answer, turn),
            Call::FsRemove(params) => self.fs_remove(params, answer, turn),
            Call::FsRename(params) => self.fs_rename(params, answer, turn),
            Call::FsCopy(params) => self.fs_copy(params, answer, turn),
            Call::FsList(params) => self.fs_list(params, answer),
            Call::FsGlob(params) => self.fs_glob(params, answer),
            Call::FsGrep(params) => self.fs_grep(params, answer),
            Call::FsWatch(params) => self.fs_watch(params, answer, turn),
            Call::FsUnwatch(params) => self.fs_unwatch(&params, answer),
            Call::ApprovalList(_) => self.approval_list(answer),
            Call::ApprovalAnswer(params) => self.approval_answer(params, answer),
            // These are answered before a session is looked for.
            Call::SessionOpen(_) | Call::SessionResume(_) | Call::ServerPing(_) => {
                self.refuse(answer, session_not_found(&self.id));
            }
        }
    }
}
