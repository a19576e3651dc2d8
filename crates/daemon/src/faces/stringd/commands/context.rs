//! What a command runs with: its user, its topic, and the operations that the operator's configuration applies to.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OwnedMutexGuard;

use super::super::convert::TopicName;
use super::super::session::TopicSession;
use super::super::users::RegisteredUser;
use super::super::{AccessMode, Stringd};

/// What a command runs with.
#[derive(Debug, Clone)]
pub struct CommandContext {
    pub(super) face: Arc<Stringd>,
    pub(super) user: Arc<RegisteredUser>,
    pub(super) topic: TopicName,
    pub(super) session: Arc<TopicSession>,
}

impl CommandContext {
    pub(in crate::faces::stringd) fn new(
        face: &Arc<Stringd>,
        user: &Arc<RegisteredUser>,
        topic: &TopicName,
        session: &Arc<TopicSession>,
    ) -> CommandContext {
        CommandContext {
            face: face.clone(),
            user: user.clone(),
            topic: topic.clone(),
            session: session.clone(),
        }
    }

    /// The name of the user.
    pub fn user_id(&self) -> &str {
        &self.user.id
    }

    /// The user's home directory, absolute.
    pub fn home(&self) -> &Path {
        &self.user.home
    }

    /// The topic of the command.
    pub fn topic(&self) -> &TopicName {
        &self.topic
    }

    /// Whether paths are confined to the home. Every operation checks that itself.
    pub fn access(&self) -> AccessMode {
        self.face.settings.access
    }

    /// The longest time that a program or request of a command takes.
    pub fn timeout(&self) -> Duration {
        self.face.settings.command_timeout
    }

    /// The value of a variable that commands inherit; others do not exist for a template.
    pub fn variable(&self, name: &str) -> Option<String> {
        let policy = self.face.core.policy.current();
        let found = policy.environment.iter().find(|(known, _)| known == name);
        found.and_then(|(_, value)| value.to_str().map(str::to_owned))
    }

    /// The home of the OS user of the daemon.
    pub fn daemon_home(&self) -> Option<&Path> {
        self.face.settings.daemon_home.as_deref()
    }

    /// The permission to change the files that all topics of the user share, so that two topics do not undo each other's
    /// changes. A change may wait for an approver, so as there, the time of this wait does not count for the queue.
    pub(in crate::faces::stringd) async fn change_stores(&self) -> OwnedMutexGuard<()> {
        let lock = self.face.stores.of(self.home());
        match lock.clone().try_lock_owned() {
            Ok(change) => change,
            Err(_held) => self.session.while_asking(lock.lock_owned()).await,
        }
    }

    /// The user's topics that have a state, in the order in which they were opened.
    pub(super) fn topics(&self) -> Vec<String> {
        self.face.topics.live_names_of(&self.user.id)
    }

    /// Closes a topic of the user; false if it has no state or is the only one that has.
    pub(super) fn close_topic(&self, topic: &str) -> bool {
        self.face.topics.close(&self.user.id, topic)
    }
}
