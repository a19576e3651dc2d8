//! One stream as a link: its two directions, and the notifications between its user and the driver.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{Notify, Semaphore, mpsc};
use tokio_util::sync::CancellationToken;

use super::Key;
use crate::lanes::{BinaryMessages, Lanes, MaxMessage, Outbound, lanes};
use crate::{Incoming, Link, Receiver, Writing};

/// Received messages between the driver and the user of a stream.
const INBOX: usize = 4;

/// A request of a stream's user to the driver.
#[derive(Debug)]
pub(super) enum StreamCommand {
    /// Send a message.
    Send(Key, Outbound),
    /// Close the stream after all queued messages.
    Finish(Key),
}

/// The driver's end of a stream's link.
#[derive(Debug)]
pub(super) struct Handle {
    /// `None` after the last message.
    pub(super) inbox: Option<mpsc::Sender<Incoming>>,
    /// One permit for each message that may be queued.
    pub(super) slots: Arc<Semaphore>,
    /// Set while the inbox is full; its user reports when it is not.
    pub(super) is_full: Arc<AtomicBool>,
    /// The limit on messages to the peer.
    pub(super) max_message: MaxMessage,
    /// Cancelled at the end of the stream.
    pub(super) ended: CancellationToken,
}

impl Drop for Handle {
    /// Without its driver a stream is over, also when the driver's task was aborted.
    fn drop(&mut self) {
        self.ended.cancel();
    }
}

/// The streams that need the driver. At most two entries per stream: one for its reader, one for its end.
#[derive(Debug, Default)]
pub(super) struct ReadyList {
    ready: Mutex<Vec<ReadyReason>>,
    notify: Notify,
}

/// Why a stream needs the driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReadyReason {
    /// Its inbox has capacity, or its receiver was dropped.
    InboxFree(Key),
    /// Its user dropped or aborted the writing half.
    Abandoned(Key),
}

impl ReadyList {
    fn push(&self, reason: ReadyReason) {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner).push(reason);
        self.notify.notify_one();
    }

    /// Waits for entries and takes them. Nothing is lost if this future is dropped.
    pub(super) async fn take(&self) -> Vec<ReadyReason> {
        loop {
            let ready = std::mem::take(&mut *self.ready.lock().unwrap_or_else(PoisonError::into_inner));
            if !ready.is_empty() {
                return ready;
            }
            self.notify.notified().await;
        }
    }
}

/// A link for the stream `key`. Must be called within a tokio runtime.
pub(super) fn open(
    key: Key,
    queued: usize,
    limits: &crate::Limits,
    commands: mpsc::Sender<StreamCommand>,
    ready: &Arc<ReadyList>,
) -> (Link, Handle) {
    let (outgoing, ends) = lanes(limits);
    let outgoing = outgoing.with_binary(BinaryMessages::default());
    let (inbox, messages) = mpsc::channel(INBOX);
    let handle = Handle {
        inbox: Some(inbox),
        slots: Arc::new(Semaphore::new(queued.max(1))),
        is_full: Arc::default(),
        max_message: outgoing.max_message(),
        ended: CancellationToken::new(),
    };
    let inbox = StreamInbox { key, messages, is_full: handle.is_full.clone(), ready: ready.clone() };
    let source = futures_util::stream::unfold(inbox, async |mut inbox| Some((inbox.recv().await?, inbox)));
    let writer = StreamWriter {
        key,
        commands,
        slots: handle.slots.clone(),
        ended: handle.ended.clone(),
        abandon: AbandonGuard { key, ready: Some(ready.clone()) },
    };
    let link = Link { incoming: Receiver::new(source), outgoing, writing: Writing::spawn(writer.run(ends)) };
    (link, handle)
}

/// The receiving half of a stream.
struct StreamInbox {
    key: Key,
    messages: mpsc::Receiver<Incoming>,
    is_full: Arc<AtomicBool>,
    ready: Arc<ReadyList>,
}

impl StreamInbox {
    async fn recv(&mut self) -> Option<Incoming> {
        let incoming = self.messages.recv().await?;
        if self.is_full.swap(false, Ordering::AcqRel) {
            self.ready.push(ReadyReason::InboxFree(self.key));
        }
        Some(incoming)
    }
}

impl Drop for StreamInbox {
    fn drop(&mut self) {
        self.messages.close();
        self.ready.push(ReadyReason::InboxFree(self.key));
    }
}

/// The writing half of a stream: passes messages to the driver at the speed of the stream.
struct StreamWriter {
    key: Key,
    commands: mpsc::Sender<StreamCommand>,
    slots: Arc<Semaphore>,
    ended: CancellationToken,
    abandon: AbandonGuard,
}

impl StreamWriter {
    async fn run(mut self, mut lanes: Lanes) -> io::Result<()> {
        let ended = self.ended.clone();
        tokio::select! {
            biased;
            () = ended.cancelled() => Err(io::ErrorKind::BrokenPipe.into()),
            passed = self.pass_on(&mut lanes) => {
                passed?;
                self.abandon.ready = None;
                // A message counts as written when the peer has it, or the stream has ended.
                ended.cancelled().await;
                Ok(())
            }
        }
    }

    async fn pass_on(&mut self, lanes: &mut Lanes) -> io::Result<()> {
        let broken = || io::Error::from(io::ErrorKind::BrokenPipe);
        while let Some(outbound) = lanes.recv().await {
            if !outbound.bytes.is_empty() {
                // The driver releases it when the message has left.
                self.slots.acquire().await.map_err(|_| broken())?.forget();
            }
            self.commands.send(StreamCommand::Send(self.key, outbound)).await.map_err(|_| broken())?;
        }
        self.commands.send(StreamCommand::Finish(self.key)).await.map_err(|_| broken())
    }
}

/// Reports to the driver when the writing half is dropped early.
struct AbandonGuard {
    key: Key,
    ready: Option<Arc<ReadyList>>,
}

impl Drop for AbandonGuard {
    fn drop(&mut self) {
        if let Some(ready) = &self.ready {
            ready.push(ReadyReason::Abandoned(self.key));
        }
    }
}
