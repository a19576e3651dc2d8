//! The open topics: their state, and the queue of commands of each.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{Instant, sleep_until};
use wire::stringd::v0_1::Meta;

use super::commands::bash::ShellSlot;
use super::convert::{TopicName, TopicType};
use super::documents::DocumentState;
use super::session::TopicSession;
use super::users::{RegisteredUser, Users, now};

/// What a topic keeps between commands. The command that has the turn owns it.
#[derive(Debug, Default)]
pub(super) struct TopicState {
    /// Of document topics.
    pub documents: DocumentState,
    /// Of bash topics.
    pub shell: ShellSlot,
}

/// An open topic of a user.
#[derive(Debug)]
pub(super) struct Topic {
    /// Its user, as it was when the topic was opened.
    pub user: Arc<RegisteredUser>,
    /// Its name.
    pub name: TopicName,
    /// When it was opened.
    pub created: String,
    turn: Arc<Semaphore>,
    /// True while a request of the topic waits for an approver.
    asks: watch::Sender<bool>,
    queue: Mutex<QueueState>,
}

#[derive(Debug)]
struct QueueState {
    /// The state; `None` while a command runs.
    state: Option<Box<TopicState>>,
    /// The session in the core that owns the processes of this state.
    session: Arc<TopicSession>,
    /// How often the topic was closed. The state of a command that began before is not kept.
    closed: u64,
    /// Whether a command has run since the topic was opened or closed.
    is_live: bool,
    waiting: usize,
    /// The document after the last command.
    meta: Option<Meta>,
}

/// Why a command does not run.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum QueueError {
    /// Too many commands wait.
    Full,
    /// It waited too long.
    Late,
}

/// The limits of a queue.
#[derive(Debug, Clone, Copy)]
pub struct QueueLimits {
    /// Commands of one topic that wait; one more is refused.
    pub size: usize,
    /// How long a command waits; then it is refused.
    pub wait: Duration,
}

impl Topic {
    fn new(user: &Arc<RegisteredUser>, name: &TopicName) -> Topic {
        let asks = watch::Sender::new(false);
        let queue = QueueState {
            state: Some(Box::default()),
            session: Arc::new(TopicSession::new(user, name, asks.clone())),
            closed: 0,
            is_live: false,
            waiting: 0,
            meta: None,
        };
        Topic {
            user: user.clone(),
            name: name.clone(),
            created: now(),
            turn: Arc::new(Semaphore::new(1)),
            asks,
            queue: Mutex::new(queue),
        }
    }

    fn queue(&self) -> MutexGuard<'_, QueueState> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a command runs, how many wait, and the document after the last one.
    pub(super) fn status(&self) -> (bool, usize, Option<Meta>) {
        let queue = self.queue();
        (self.is_busy(), queue.waiting, queue.meta.clone())
    }

    /// Whether a command runs.
    pub(super) fn is_busy(&self) -> bool {
        self.turn.available_permits() == 0
    }

    /// Whether it has the state of a command that has run or runs.
    fn is_live(&self) -> bool {
        self.queue().is_live
    }

    /// Forgets the state and ends the shell; the topic stays open. A command in flight finishes on the state that it has.
    fn close(&self) {
        let new = Arc::new(TopicSession::new(&self.user, &self.name, self.asks.clone()));
        let mut queue = self.queue();
        let before = (queue.state.as_mut().map(std::mem::take), std::mem::replace(&mut queue.session, new));
        (queue.is_live, queue.meta) = (false, None);
        queue.closed += 1;
        drop(queue);
        self.end_shell(&before.1);
    }

    /// Commands of other topics finish; their session ends with the last of them.
    fn end_shell(&self, session: &TopicSession) {
        if self.name.kind() == TopicType::Bash {
            session.end();
        }
    }

    /// Ends the shell of the topic, which is not open any more.
    fn removed(&self) {
        let session = self.queue().session.clone();
        self.end_shell(&session);
    }

    /// Ends the processes of the topic, because the face ends.
    fn end(&self) {
        let session = self.queue().session.clone();
        session.end();
    }

    /// Waits for the turn of a command, in the order of arrival. Dropping this leaves the queue.
    pub(super) async fn turn(self: &Arc<Topic>, limits: QueueLimits) -> Result<TopicTurn, QueueError> {
        let (place, free) = {
            let mut queue = self.queue();
            match self.turn.clone().try_acquire_owned() {
                // A new command must not overtake one that waits.
                Ok(permit) if queue.waiting == 0 => (None, Some(permit)),
                _ if queue.waiting >= limits.size => return Err(QueueError::Full),
                _ => {
                    queue.waiting += 1;
                    (Some(WaitingPlace(self)), None)
                }
            }
        };
        let permit = match free {
            Some(permit) => permit,
            None => self.wait(limits.wait).await?,
        };
        drop(place);
        let mut queue = self.queue();
        queue.is_live = true;
        let state = queue.state.take().unwrap_or_default();
        let (session, closed) = (queue.session.clone(), queue.closed);
        Ok(TopicTurn { topic: self.clone(), session, state, closed, _permit: permit })
    }

    /// Waits for the permit. Time during which the running command waits for an approver does not count.
    async fn wait(&self, most: Duration) -> Result<OwnedSemaphorePermit, QueueError> {
        let mut asks = self.asks.subscribe();
        let acquired = self.turn.clone().acquire_owned();
        tokio::pin!(acquired);
        let mut left = most;
        loop {
            let (is_asking, since) = (*asks.borrow_and_update(), Instant::now());
            tokio::select! {
                biased;
                // The semaphore is never closed.
                permit = &mut acquired => return permit.map_err(|_closed| QueueError::Late),
                // The sender lives as long as the topic.
                _changed = asks.changed() => {}
                () = sleep_until(since + left), if !is_asking => return Err(QueueError::Late),
            }
            if !is_asking {
                left = left.saturating_sub(since.elapsed());
            }
        }
    }
}

/// A place among the waiting commands; dropping it frees it.
struct WaitingPlace<'a>(&'a Topic);

impl Drop for WaitingPlace<'_> {
    fn drop(&mut self) {
        self.0.queue().waiting -= 1;
    }
}

/// The turn of one command: it owns the topic's state until it is dropped.
#[derive(Debug)]
pub(super) struct TopicTurn {
    /// The topic.
    pub topic: Arc<Topic>,
    /// Its session.
    pub session: Arc<TopicSession>,
    /// Its state.
    pub state: Box<TopicState>,
    closed: u64,
    _permit: OwnedSemaphorePermit,
}

impl TopicTurn {
    /// The current document; none if the topic was closed meanwhile.
    pub(super) fn meta(&self) -> Option<Meta> {
        let is_kept = self.topic.queue().closed == self.closed;
        if is_kept { self.state.documents.meta() } else { None }
    }
}

impl Drop for TopicTurn {
    fn drop(&mut self) {
        let state = std::mem::take(&mut self.state);
        let mut queue = self.topic.queue();
        queue.state = Some(match queue.closed == self.closed {
            true => {
                queue.meta = state.documents.meta();
                state
            }
            false => Box::default(),
        });
    }
}

/// The locks of the files that all topics with one home share.
#[derive(Debug, Default)]
pub(super) struct StoreLocks(Mutex<HashMap<PathBuf, Weak<tokio::sync::Mutex<()>>>>);

impl StoreLocks {
    /// The lock of a home. It is kept as long as a command uses it.
    pub(super) fn of(&self, home: &Path) -> Arc<tokio::sync::Mutex<()>> {
        let mut locks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lock) = locks.get(home).and_then(Weak::upgrade) {
            return lock;
        }
        locks.retain(|_, lock| lock.strong_count() > 0);
        let lock = Arc::default();
        locks.insert(home.to_owned(), Arc::downgrade(&lock));
        lock
    }
}

/// The open topics of all users, in the order in which they were opened.
#[derive(Debug, Default)]
pub(super) struct Topics(Mutex<Vec<Arc<Topic>>>);

impl Topics {
    fn open(&self) -> MutexGuard<'_, Vec<Arc<Topic>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The topic of a user, opened if it is not; true if it is new. `None` if there is no such user.
    ///
    /// The user is read under the lock: a change of a user removes its topics afterwards, so no topic of its earlier home
    /// remains.
    pub(super) fn ensure(&self, users: &Users, user: &str, name: &TopicName) -> Option<(Arc<Topic>, bool)> {
        let mut open = self.open();
        let user = users.get(user)?;
        let found = open.iter().find(|topic| topic.user == user && topic.name == *name);
        if let Some(topic) = found {
            return Some((topic.clone(), false));
        }
        let topic = Arc::new(Topic::new(&user, name));
        open.push(topic.clone());
        Some((topic, true))
    }

    /// All topics, or those of one user.
    pub(super) fn list(&self, user: Option<&str>) -> Vec<Arc<Topic>> {
        let is_wanted = |topic: &&Arc<Topic>| user.is_none_or(|user| topic.user.id == user);
        self.open().iter().filter(is_wanted).cloned().collect()
    }

    /// The names of a user's topics that have a state.
    pub(super) fn live_names_of(&self, user: &str) -> Vec<String> {
        let topics = self.list(Some(user));
        topics.iter().filter(|topic| topic.is_live()).map(|topic| topic.name.as_str().to_owned()).collect()
    }

    /// Closes a topic that has a state, unless it is the user's only one; false if it is not closed. It stays open, as a
    /// topic that has run no command.
    pub(super) fn close(&self, user: &str, name: &str) -> bool {
        let open = self.open();
        let live: Vec<_> = open.iter().filter(|topic| topic.user.id == user && topic.is_live()).collect();
        match live.iter().find(|topic| topic.name.as_str() == name) {
            Some(topic) if live.len() > 1 => topic.close(),
            _ => return false,
        }
        true
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.open().len()
    }

    /// Removes a topic and ends its shell. Commands in flight finish on the closed topic; its session ends with the last.
    pub(super) fn remove(&self, user: &str, name: &str) -> Option<Arc<Topic>> {
        let mut open = self.open();
        let at = open.iter().position(|topic| topic.user.id == user && topic.name.as_str() == name)?;
        let topic = open.remove(at);
        drop(open);
        topic.removed();
        Some(topic)
    }

    /// Removes the topics that belong to an earlier home of a user, or to a user that was deleted. A request may have
    /// opened topics of the new home meanwhile.
    pub(super) fn remove_stale(&self, users: &Users, user: &str) {
        let stale: Vec<Arc<Topic>> = {
            let mut open = self.open();
            let current = users.get(user);
            let is_stale =
                |topic: &mut Arc<Topic>| topic.user.id == user && Some(&topic.user) != current.as_ref();
            open.extract_if(.., is_stale).collect()
        };
        for topic in stale {
            topic.removed();
        }
    }

    /// Removes every topic, because the face ends.
    pub(super) fn clear(&self) {
        for topic in std::mem::take(&mut *self.open()) {
            topic.end();
        }
    }
}

#[cfg(test)]
mod tests {
    use engine::files::Durability;

    use super::super::users::Registration;
    use super::*;

    #[test]
    fn a_moved_user_loses_the_topics_of_its_earlier_home_only() {
        let dir = tempfile::tempdir().unwrap();
        let users = Users::load(dir.path(), Durability::Relaxed).unwrap();
        let register = |id: &str, home: &str| {
            users.register(&Registration { id: id.to_owned(), home: home.to_owned(), allowed_paths: None })
        };
        let (topics, name) = (Topics::default(), TopicName::parse("bash:a").unwrap());
        let open = |id: &str| topics.ensure(&users, id, &name).unwrap();
        register("u", "/first");
        register("other", "/first");
        let (first, _) = open("u");
        open("other");
        register("u", "/second");
        // A request that arrives before the topics are removed opens one of the new home.
        let (second, is_new) = open("u");
        assert!(is_new && !Arc::ptr_eq(&first, &second));
        topics.remove_stale(&users, "u");
        let left = topics.list(None);
        assert_eq!((left.len(), left[0].user.id.as_str()), (2, "other"));
        assert!(Arc::ptr_eq(&left[1], &second), "the topic of the new home stays");
        users.remove("u");
        topics.remove_stale(&users, "u");
        assert_eq!(topics.len(), 1);
    }
}
