//! How a session lives: its task opens letters until it is over, then ends what it started.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use wire::rexd::v1::{self, encode_event};

use super::Service;
use super::errors::{session_not_found, unknown_session};
use super::events::EventOrder;
use super::mailbox::{Letter, Notice};
use super::session::Session;
use crate::core::sandbox::remove_temp_dir;

/// How long requests in line may take at the end of a session before its processes are ended.
const SETTLE: Duration = Duration::from_millis(500);

/// Why a session is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Over {
    /// Its client or its link said so, or nobody came back in time.
    Done,
    /// The daemon ends.
    Stopped,
}

/// Drives a session to its end. Returns when nothing of it is left.
pub(super) async fn live(mut session: Box<Session>, mut inbox: mpsc::Receiver<Letter>) {
    let (service, id) = (session.service.clone(), session.id.clone());
    let over = session.open_letters(&mut inbox).await;
    service.sessions.remove(&id);
    // Boxed: a session that is open does not carry the room that its end will need.
    if over == Over::Stopped {
        session.say_goodbye();
    }
    Box::pin(session.end(inbox)).await;
}

impl Session {
    async fn open_letters(&mut self, inbox: &mut mpsc::Receiver<Letter>) -> Over {
        let service: Arc<Service> = self.service.clone();
        loop {
            let until = self.presence.gives_up_at(&service.retention);
            tokio::select! {
                biased;
                letter = inbox.recv() => match letter {
                    // Its connection may have heard of the daemon's end first.
                    Some(Letter::End) | None if service.stop.is_cancelled() => return Over::Stopped,
                    Some(Letter::End) | None => return Over::Done,
                    Some(letter) => self.read(letter),
                },
                () = service.stop.cancelled() => return Over::Stopped,
                () = self.presence.idle(), if self.has_nothing_to_wait_for() => return Over::Done,
                () = wait_until(until) => {
                    if !self.presence.is_busy() {
                        tracing::info!(session = &*self.id, "nobody came back in time: the session ends");
                        return Over::Done;
                    }
                }
            }
            if self.closing.is_some() {
                return Over::Done;
            }
        }
    }

    fn read(&mut self, letter: Letter) {
        match letter {
            Letter::Call(asked) => self.take(asked),
            Letter::Notice(notice) => self.heed(notice),
            Letter::Resume(resume) => self.resume(*resume),
            Letter::Listen(listen) => self.listen(*listen),
            Letter::Cut(attachment) => self.cut(attachment),
            Letter::End => {}
        }
    }

    fn heed(&mut self, notice: Notice) {
        match notice {
            Notice::Finished(process) => self.finished(&process),
            Notice::NeverRan(process) => self.engine.remove(&process),
            Notice::Turn { asked, turn } => self.act(*asked, turn),
            Notice::Watching { watch_id, watch } => drop(self.watches.insert(watch_id, watch)),
            Notice::Cwd { path, turn } => {
                self.cwd = path;
                // Only now may the next in line go on: it finds the new directory.
                drop(turn);
            }
            Notice::Found(process) => self.welcome_guest(process),
            Notice::Attach { process, from, answer } => self.attach_found(process, from, *answer),
            Notice::Reached { id, kept } => self.reached(&id, kept),
            Notice::Adopt(adopting) => self.adopt(*adopting),
            Notice::ApprovalUpdate(news) => self.tell_news(&news),
            Notice::Unheard(attachment) => self.left(attachment),
            Notice::Refused { attachment, before } => self.refused(attachment, before),
        }
    }

    /// Tells whoever listens that the daemon ends, and the session with it.
    fn say_goodbye(&mut self) {
        if !self.presence.is_heard() {
            return;
        }
        let (events, session_id) = (self.events(), self.id.to_string());
        let encode = move |event_id| {
            encode_event(&v1::SessionClosing { session_id, reason: "shutdown".to_owned(), event_id })
        };
        // A client that does not read delays nobody's end.
        self.spawn(async move {
            events.send(EventOrder::Tell(Box::new(encode))).await.ok();
        });
    }

    /// Finishes what was received, ends every process, and waits until all is said.
    async fn end(mut self, mut inbox: mpsc::Receiver<Letter>) {
        self.settle(&mut inbox).await;
        self.let_go();
        let temp = self.confining.used_temp();
        let Session { id, engine, tasks, letters, closing, over, .. } = self;
        drop(letters);
        tasks.close();
        // Whoever still has something to say must be heard, or it would wait for ever; nothing has to be done about it.
        let listen = async {
            while let Some(letter) = inbox.recv().await {
                refuse(letter, &id).await
            }
        };
        let wait = async {
            engine.close().await;
            over.cancel();
            if let Some(temp) = temp {
                // Nothing that could write there is left.
                let _removed = tokio::task::spawn_blocking(move || remove_temp_dir(&temp)).await;
            }
            if let Some(answer) = closing {
                answer.send(Ok(v1::OkResult::DONE)).await;
            }
            tasks.wait().await;
        };
        tokio::select! {
            () = wait => {}
            () = async { listen.await; std::future::pending().await } => {}
        }
        inbox.close();
        while let Ok(letter) = inbox.try_recv() {
            refuse(letter, &id).await;
        }
    }

    /// Lets every request that is in line have its turn.
    async fn settle(&mut self, inbox: &mut mpsc::Receiver<Letter>) {
        let order = self.order.clone();
        let settled = order.settled();
        // What was asked before the end is done, but a long copy does not keep trees alive.
        let patience = if self.service.stop.is_cancelled() { Duration::ZERO } else { SETTLE };
        let (stop_at, mut is_stopping) = (Instant::now() + patience, false);
        tokio::pin!(settled);
        loop {
            tokio::select! {
                Some(letter) = inbox.recv() => self.read(letter),
                () = &mut settled => break,
                () = sleep_until(stop_at), if !is_stopping => {
                    is_stopping = true;
                    self.engine.stop();
                }
            }
        }
        while let Ok(letter) = inbox.try_recv() {
            self.read(letter);
        }
    }
}

async fn wait_until(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

/// Answers who comes too late.
async fn refuse(letter: Letter, id: &str) {
    let (answer, error) = match letter {
        Letter::Call(asked) | Letter::Notice(Notice::Turn { asked, .. }) => {
            (asked.answer, session_not_found(id))
        }
        Letter::Notice(Notice::Attach { answer, .. }) => (*answer, session_not_found(id)),
        Letter::Notice(Notice::Adopt(adopting)) => (adopting.into_answer(), session_not_found(id)),
        Letter::Resume(resume) => (resume.answer, unknown_session(id)),
        Letter::Notice(_) | Letter::Listen(_) | Letter::Cut(_) | Letter::End => return,
    };
    answer.send(Err::<(), _>(error)).await;
}
