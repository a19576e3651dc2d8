//! Connection and Inbox: what every task that owns a link stands on, whatever is spoken there.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use link::{Incoming, Link};
use tokio::sync::mpsc;

/// Requests that wait for their answer; past it no more are taken.
const MOST_PENDING: usize = 512;
/// How long the end may take: as long as trees take to die, and a slow link.
const FAREWELL: Duration = Duration::from_secs(5);

/// A link, and the messages that it had no room for yet.
#[derive(Debug)]
pub(crate) struct Connection {
    link: Link,
    unsent: VecDeque<Bytes>,
    /// Whether what was not read when it ended comes again on another one.
    can_resume: bool,
}

/// What happened on a connection.
#[derive(Debug)]
pub(crate) enum Turn {
    /// A message came.
    Message(Bytes),
    /// A message came that is too long to be taken.
    TooLong(u64),
    /// Something that waited is on its way.
    Sent,
    /// The link has ended.
    Cut,
}

impl Connection {
    pub(crate) fn new(link: Link, can_resume: bool) -> Connection {
        Connection { link, unsent: VecDeque::new(), can_resume }
    }

    /// Whether another request may be sent while `pending` wait for their answers.
    pub(crate) fn takes_requests(&self, pending: usize) -> bool {
        self.unsent.is_empty() && pending < MOST_PENDING
    }

    /// Sends, as soon as there is room.
    pub(crate) fn send(&mut self, message: Bytes) {
        if !self.unsent.is_empty() {
            return self.unsent.push_back(message);
        }
        match self.link.outgoing.try_respond(message) {
            Err(link::TryRespondError::Full(message)) => self.unsent.push_back(message),
            // A link that is closed says so when it is read.
            Ok(()) | Err(link::TryRespondError::Closed) => {}
        }
    }

    /// What happens next; messages only if somebody `reads` them. Nothing is lost if this future is dropped.
    pub(crate) async fn next(&mut self, reads: bool) -> Turn {
        let stuck = self.unsent.front().cloned();
        let Link { incoming, outgoing, .. } = &mut self.link;
        tokio::select! {
            message = incoming.recv(), if reads => match message {
                Some(Incoming::Message(line)) => Turn::Message(line),
                Some(Incoming::TooLong { bytes }) => Turn::TooLong(bytes),
                None => Turn::Cut,
            },
            sent = outgoing.respond(stuck.clone().unwrap_or_default()), if stuck.is_some() => {
                self.unsent.pop_front();
                if sent.is_err() {
                    self.unsent.clear();
                }
                Turn::Sent
            }
            // Whoever reads sees the end itself. Whoever does not would see it when the server keeps nothing any more.
            () = outgoing.closed(), if !reads && self.can_resume => Turn::Cut,
            () = std::future::pending(), if !reads => Turn::Cut,
        }
    }

    /// Says what is left to say, and does what is `last`, if that does not take too long.
    pub(crate) async fn part(self, last: impl AsyncFnOnce(Link) -> Option<()>) {
        let Connection { link, unsent, .. } = self;
        let parting = async {
            // Nothing that was said is to be lost: a request that ends something may be the last of it.
            for message in unsent {
                link.outgoing.respond(message).await.ok()?;
            }
            last(link).await
        };
        tokio::time::timeout(FAREWELL, parting).await.ok();
    }
}

/// What handles write to the task: letters, which wait while the link takes no more, and farewells, which do not.
#[derive(Debug)]
pub(crate) struct Inbox<L, F> {
    letters: mpsc::Receiver<L>,
    farewells: mpsc::Receiver<F>,
}

/// What handles write with.
#[derive(Debug)]
pub(crate) struct Writers<L, F> {
    pub(crate) letters: mpsc::Sender<L>,
    pub(crate) farewells: mpsc::Sender<F>,
}

/// What came in.
#[derive(Debug)]
pub(crate) enum Post<L, F> {
    /// Something is wanted.
    Letter(L),
    /// The end is wanted; with nobody who waits for it if the last handle is gone.
    Farewell(Option<F>),
}

/// An inbox in which so many letters wait before whoever writes does.
pub(crate) fn inbox<L, F>(letters: usize) -> (Writers<L, F>, Inbox<L, F>) {
    let (to_letters, letters) = mpsc::channel(letters);
    let (to_farewells, farewells) = mpsc::channel(1);
    (Writers { letters: to_letters, farewells: to_farewells }, Inbox { letters, farewells })
}

impl<L, F> Inbox<L, F> {
    /// What comes next; letters only if the task `takes` them. Nothing is lost if this future is dropped.
    pub(crate) async fn next(&mut self, takes: bool) -> Post<L, F> {
        tokio::select! {
            biased;
            letter = self.letters.recv(), if takes => letter.map_or(Post::Farewell(None), Post::Letter),
            farewell = self.farewells.recv() => Post::Farewell(farewell),
        }
    }

    /// A letter that was written before the farewell that was read.
    pub(crate) fn left(&mut self) -> Option<L> {
        self.letters.try_recv().ok()
    }

    /// Takes no more, and gives what is there, letters first.
    pub(crate) async fn close(mut self) -> (Vec<L>, Vec<F>) {
        self.letters.close();
        self.farewells.close();
        let (mut letters, mut farewells) = (Vec::new(), Vec::new());
        while let Some(letter) = self.letters.recv().await {
            letters.push(letter);
        }
        while let Some(farewell) = self.farewells.recv().await {
            farewells.push(farewell);
        }
        (letters, farewells)
    }
}
