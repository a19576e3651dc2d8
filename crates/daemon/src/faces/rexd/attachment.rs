//! Coming back to a session: resumed on another link, listened to, or cut off.

use std::sync::atomic::Ordering;

use link::Outgoing;
use sha2::{Digest as _, Sha256};
use tokio::sync::oneshot;
use wire::rexd::v1::{self, RpcError};

use super::answer::Answer;
use super::errors::{invalid, still_attached, unknown_session};
use super::events::{Change, Changes, Gap};
use super::kept::NotYet;
use super::listener::Listener;
use super::mailbox::{Listen, OnLink, Resume};
use super::methods::welcome;
use super::session::Session;
use super::web::Told;

impl Session {
    /// `session.resume`: the answer first, then every event after the last that was seen.
    pub(super) fn resume(&mut self, resume: Resume) {
        let Resume { seen, token, link, mut answer, verdict } = resume;
        if !self.is_proven_by(&token) {
            return self.refuse(answer, unknown_session(&self.id));
        }
        answer.belongs_to(self.asker.clone());
        if self.presence.is_on_link() && !self.may_be_taken_by(link.as_ref()) {
            return self.refuse(answer, still_attached(&self.id));
        }
        let result = self.opened();
        let Some(OnLink { outgoing, hang_up }) = link else {
            self.counted.set_resumed();
            return self.rewind(seen, result, answer, verdict);
        };
        let attachment = self.presence.number();
        self.presence.heard(attachment, true);
        let replaced = self.links.clone();
        self.links.extend(hang_up.map(|hang_up| (attachment, hang_up)));
        self.silent_since.store(0, Ordering::Relaxed);
        self.counted.set_resumed();
        let compressing = self.manners.wants_zstd.then(|| outgoing.clone());
        let heard = self.hear(attachment, Listener::Link(outgoing), Some(seen));
        self.spawn(async move {
            let heard = heard.await;
            // Known before it is answered: what the client asks next finds the session on its new link.
            let may_stay = matches!(heard, Some(Ok(_)));
            if may_stay {
                replaced.iter().for_each(|(_, hang_up)| hang_up.cancel());
            }
            verdict.send(may_stay.then_some(attachment)).ok();
            respond(answer, result, heard, compressing).await;
        });
    }

    /// Whether a client on this link may have the session although another link has it: nobody can find out whether
    /// standard streams are still held by somebody, and who has the session's token is believed.
    fn may_be_taken_by(&self, link: Option<&OnLink>) -> bool {
        let is_taken_easily = |now: u64| self.links.iter().any(|(number, _)| *number == now);
        link.is_some_and(|link| link.hang_up.is_some())
            && self.presence.heard_by().is_some_and(is_taken_easily)
    }

    /// Whether nothing would be lost if the session ended now: nobody hears it, nothing has happened in it, and its client
    /// can as well open another. Only where a whole daemon would have to stay for it.
    pub(super) fn has_nothing_to_wait_for(&self) -> bool {
        self.service.lingering.is_some()
            && !self.presence.is_heard()
            && self.changes().is_none()
            && self.watches.is_empty()
            && self.reaching.is_empty()
            && self.keys.is_empty()
    }

    /// A client without a link comes back: what it listens to next begins after the last event it saw.
    fn rewind(
        &mut self,
        seen: u64,
        result: v1::SessionOpenResult,
        answer: Answer,
        verdict: oneshot::Sender<Option<u64>>,
    ) {
        let attachment = self.presence.number();
        // Whoever listened so far no longer does; that this one does not either is noticed at once.
        self.presence.heard(attachment, false);
        let (to, _hears_nothing) = tokio::sync::mpsc::channel(1);
        let heard = self.hear(attachment, Listener::Stream(to), Some(seen));
        verdict.send(None).ok();
        self.spawn(async move { respond(answer, result, heard.await, None).await });
    }

    /// Somebody wants to hear the events from now on; whoever heard them so far without a link no longer does.
    pub(super) fn listen(&mut self, listen: Listen) {
        let Listen { seen, to, verdict } = listen;
        if self.presence.is_on_link() {
            verdict.send(Err(still_attached(&self.id))).ok();
            return;
        }
        let attachment = self.presence.number();
        self.presence.heard(attachment, false);
        self.counted.set_attached();
        self.silent_since.store(0, Ordering::Relaxed);
        let heard = self.hear(attachment, Listener::Stream(to.clone()), seen);
        let session_id = self.id.to_string();
        self.spawn(async move {
            let answer = match heard.await {
                Some(Ok(gap)) => {
                    if gap.lost > 0 {
                        let (lost, event_id) = (gap.lost, gap.last_lost);
                        let line = v1::encode_event(&v1::SessionLost { session_id, lost, event_id });
                        to.send(Told { event_id: Some(event_id), line: line.into() }).await.ok();
                    }
                    drop(gap);
                    Ok(())
                }
                Some(Err(NotYet)) => Err(not_yet()),
                None => Err(unknown_session(&session_id)),
            };
            verdict.send(answer).ok();
        });
    }

    /// Nobody hears the session through this link or stream any more.
    pub(super) fn left(&mut self, attachment: u64) {
        self.presence.left(attachment);
        self.forget_link(attachment);
        self.may_be_silent();
    }

    /// This link or stream may not hear it; whoever did before still does.
    pub(super) fn refused(&mut self, attachment: u64, before: Option<(u64, bool)>) {
        self.presence.refused(attachment, before);
        self.forget_link(attachment);
        self.may_be_silent();
    }

    fn forget_link(&mut self, attachment: u64) {
        self.links.retain(|(number, _)| *number != attachment);
    }

    fn may_be_silent(&mut self) {
        if !self.presence.is_heard() {
            self.silent_since.store(self.service.sessions.next_silence(), Ordering::Relaxed);
            self.counted.set_waiting();
        }
    }

    /// The link with this number is gone.
    pub(super) fn cut(&mut self, attachment: u64) {
        self.left(attachment);
        match self.changes() {
            Some(changes) => self.spawn(async move {
                changes.send(Change::Cut { attachment }).await.ok();
            }),
            None => self.drop_link(),
        }
    }

    /// Has the events go to a listener; hears what it will miss. Nothing if the session is over.
    fn hear(
        &mut self,
        attachment: u64,
        listener: Listener,
        seen: Option<u64>,
    ) -> impl Future<Output = Option<Result<Gap, NotYet>>> + Send + 'static {
        let changes: Changes = self.events_and_changes().1.clone();
        let metrics = self.service.metrics.clone();
        let (verdict, heard) = oneshot::channel();
        async move {
            changes.send(Change::Listen { attachment, listener, seen, verdict }).await.ok()?;
            let heard = heard.await.ok()?;
            if let Ok(gap) = &heard {
                metrics.lost_events(gap.lost);
            }
            Some(heard)
        }
    }

    /// Compared by digest, so that the time it takes says nothing about how much of a guess is right.
    fn is_proven_by(&self, token: &str) -> bool {
        self.resume_token.as_ref().is_some_and(|ours| Sha256::digest(ours) == Sha256::digest(token))
    }
}

/// Answers who came back; its events follow.
async fn respond(
    answer: Answer,
    mut result: v1::SessionOpenResult,
    heard: Option<Result<Gap, NotYet>>,
    compressing: Option<Outgoing>,
) {
    match heard {
        Some(Ok(gap)) => {
            result.lost = Some(gap.lost);
            welcome(answer, result, compressing).await;
            drop(gap);
        }
        Some(Err(NotYet)) => answer.send(Err::<(), _>(not_yet())).await,
        None => answer.send(Err::<(), _>(unknown_session(&result.session_id))).await,
    }
}

fn not_yet() -> RpcError {
    invalid("last_event_id", "no event with this number has happened yet")
}
