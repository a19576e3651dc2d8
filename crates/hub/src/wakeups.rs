//! Wake-ups: a node informs all nodes that the store has changed.
//!
//! A wake-up carries no truth: a node that receives one reads the store. A lost one delays a change until the next check or
//! wake-up, and a subscriber learns that it has missed some. One process has [`LocalWakeups`]; several nodes need an
//! implementation that sends them over a network.

use std::fmt;
use std::sync::Arc;

use tokio::sync::broadcast;

/// Wake-ups that wait for a subscriber; one that lags further misses some.
const QUEUED: usize = 4096;

/// The part of the store that has changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Topic {
    /// The revision: a token, user, sign-in or host was removed.
    Revision,
    /// Events of these runs can be shown.
    Runs(Arc<[RunRange]>),
    /// A host has connected to a node or disconnected from it.
    Host(Arc<str>),
}

/// New events of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunRange {
    /// The run.
    pub run_id: Arc<str>,
    /// Its host.
    pub host_id: Arc<str>,
    /// The event before the first of them.
    pub after: i64,
    /// The last of them.
    pub last_seq: i64,
}

/// A change, and the node that caused it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wakeup {
    /// The node that has stored the change.
    pub node: Arc<str>,
    /// What has changed.
    pub topic: Topic,
}

/// Carries wake-ups between all nodes.
pub trait Wakeups: fmt::Debug + Send + Sync + 'static {
    /// Sends a wake-up to every subscriber, also those of the same node. Never waits.
    fn publish(&self, wakeup: Wakeup);

    /// Wake-ups from now on.
    fn subscribe(&self) -> broadcast::Receiver<Wakeup>;
}

/// Wake-ups within one process.
#[derive(Debug)]
pub struct LocalWakeups(broadcast::Sender<Wakeup>);

impl Default for LocalWakeups {
    fn default() -> LocalWakeups {
        LocalWakeups(broadcast::Sender::new(QUEUED))
    }
}

impl Wakeups for LocalWakeups {
    fn publish(&self, wakeup: Wakeup) {
        // Fails only without subscribers.
        self.0.send(wakeup).ok();
    }

    fn subscribe(&self) -> broadcast::Receiver<Wakeup> {
        self.0.subscribe()
    }
}

/// The wake-ups of one node.
#[derive(Debug, Clone)]
pub struct NodeWakeups {
    /// The name of the node; a new one at each start.
    pub node: Arc<str>,
    wakeups: Arc<dyn Wakeups>,
}

impl NodeWakeups {
    /// The wake-ups of a node with this name.
    pub fn new(node: impl Into<Arc<str>>, wakeups: Arc<dyn Wakeups>) -> NodeWakeups {
        NodeWakeups { node: node.into(), wakeups }
    }

    /// Announces a change of this node.
    pub fn publish(&self, topic: Topic) {
        self.wakeups.publish(Wakeup { node: self.node.clone(), topic });
    }

    /// Wake-ups of all nodes from now on.
    pub fn subscribe(&self) -> broadcast::Receiver<Wakeup> {
        self.wakeups.subscribe()
    }
}
