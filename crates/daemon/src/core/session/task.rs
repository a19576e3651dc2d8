//! The task of a session: receives messages until the session is over, then ends what it started.

use std::time::Duration;

use futures_util::future::OptionFuture;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use super::{Face, Session, SessionMessage};
use crate::core::events::PublisherMessage;
use crate::core::sandbox::remove_temp_dir;

/// How long scheduled requests may take at the end of a session before its processes are ended.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(500);

/// Why a session ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EndReason {
    /// Its client or connection ended it, or no client resumed it in time.
    Closed,
    /// The daemon ends.
    Shutdown,
}

/// Drives a session to its end. Returns when nothing of it is left.
pub(super) async fn run<F: Face>(mut session: Box<Session<F>>, mut inbox: mpsc::Receiver<SessionMessage<F>>) {
    let (face, id) = (session.face.clone(), session.id.clone());
    let reason = session.receive(&mut inbox).await;
    face.sessions().remove(&id);
    if reason == EndReason::Shutdown {
        session.publish_shutdown();
    }
    let is_large = reason == EndReason::Closed && session.engine.retains_many();
    // Boxed: an open session does not carry the space that its end needs.
    Box::pin(session.end(inbox)).await;
    if is_large {
        face.core().engine.release_memory().await;
    }
}

impl<F: Face> Session<F> {
    async fn receive(&mut self, inbox: &mut mpsc::Receiver<SessionMessage<F>>) -> EndReason {
        let stop = self.core.stop.clone();
        let face = self.face.clone();
        loop {
            let expiry = self.connections.liveness.expires_at(&face.sessions().retention);
            let is_disposable = !self.is_subscribed() && F::is_disposable(self);
            tokio::select! {
                biased;
                message = inbox.recv() => match message {
                    // Its connection may have noticed the end of the daemon first.
                    Some(SessionMessage::End) | None if stop.is_cancelled() => return EndReason::Shutdown,
                    Some(SessionMessage::End) | None => return EndReason::Closed,
                    Some(message) => self.handle_message(message),
                },
                () = stop.cancelled() => return EndReason::Shutdown,
                () = self.connections.liveness.idle(), if is_disposable => return EndReason::Closed,
                Some(()) = OptionFuture::from(expiry.map(sleep_until)) => {
                    if !self.connections.liveness.is_busy() {
                        tracing::info!(session = &*self.id, "not resumed in time: ending the session");
                        return EndReason::Closed;
                    }
                }
            }
            if self.closing.is_some() || self.exceeds_retention() {
                return EndReason::Closed;
            }
        }
    }

    /// Whether it lost its connection while too many others wait for theirs.
    fn exceeds_retention(&self) -> bool {
        let limit = self.face.sessions().retention.max_disconnected;
        limit != usize::MAX && !self.is_subscribed() && self.face.sessions().disconnected() > limit
    }

    fn handle_message(&mut self, message: SessionMessage<F>) {
        match message {
            SessionMessage::Request(request) => self.schedule(request),
            SessionMessage::Scheduled(request, guard) => self.begin(request, guard),
            SessionMessage::Update(update) => update(self),
            SessionMessage::Complete(responder, complete) => complete(self, *responder),
            SessionMessage::Disconnected(id) => self.disconnect(id),
            SessionMessage::End => {}
        }
    }

    /// Publishes that the daemon ends, and the session with it.
    fn publish_shutdown(&mut self) {
        if !self.is_subscribed() {
            return;
        }
        if let Some(encode) = F::shutdown_event(self) {
            // A client that does not read does not delay the end.
            let publish = self.events().send(PublisherMessage::Publish(encode));
            self.spawn(publish);
        }
    }

    /// Finishes the requests that were received, ends every process, and waits for all tasks.
    async fn end(mut self, mut inbox: mpsc::Receiver<SessionMessage<F>>) {
        self.drain(&mut inbox).await;
        self.release();
        let temp = self.sandbox.used_temp();
        let Session { id, engine, tasks, handle, closing, over, approver, .. } = self;
        drop((handle, approver));
        tasks.close();
        // Tasks that still report results must not wait for ever; the results are not needed.
        let receive = async {
            while let Some(message) = inbox.recv().await {
                reject::<F>(message, &id).await;
            }
        };
        let wait = async {
            engine.close().await;
            over.cancel();
            if let Some(temp) = temp {
                // No process that could write there is left.
                tokio::task::spawn_blocking(move || remove_temp_dir(&temp)).await.ok();
            }
            if let Some((responder, result)) = closing {
                responder.send(Ok(result)).await;
            }
            tasks.wait().await;
        };
        tokio::select! {
            () = wait => {}
            () = async { receive.await; std::future::pending().await } => {}
        }
        inbox.close();
        while let Ok(message) = inbox.try_recv() {
            reject::<F>(message, &id).await;
        }
    }

    /// Lets every scheduled request run.
    async fn drain(&mut self, inbox: &mut mpsc::Receiver<SessionMessage<F>>) {
        let scheduler = self.scheduler.clone();
        let drained = scheduler.drained();
        // Requests that arrived before the end run, but a long copy does not keep processes alive.
        let timeout = if self.core.stop.is_cancelled() { Duration::ZERO } else { DRAIN_TIMEOUT };
        let (stop_at, mut is_stopping) = (Instant::now() + timeout, false);
        tokio::pin!(drained);
        loop {
            tokio::select! {
                Some(message) = inbox.recv() => self.handle_message(message),
                () = &mut drained => break,
                () = sleep_until(stop_at), if !is_stopping => {
                    is_stopping = true;
                    self.engine.stop();
                }
            }
        }
        while let Ok(message) = inbox.try_recv() {
            self.handle_message(message);
        }
    }

    /// Releases everything but what a client may still read.
    fn release(&mut self) {
        F::close(self);
        self.registration = None;
        self.core.approvals.remove_session(&self.id);
        self.events = None;
        self.connections.release();
    }
}

/// Responds to a request that arrived too late.
async fn reject<F: Face>(message: SessionMessage<F>, id: &str) {
    let responder = match message {
        SessionMessage::Request(request) | SessionMessage::Scheduled(request, _) => request.responder,
        SessionMessage::Complete(responder, _) => *responder,
        SessionMessage::Update(_) | SessionMessage::Disconnected(_) | SessionMessage::End => return,
    };
    responder.reject(F::session_closed(id)).await;
}
