//! Every process of this engine, across sessions: one task owns the list, everyone else asks it.

use tokio::sync::{mpsc, oneshot};
use tokio_util::task::TaskTracker;

use crate::process::{Process, WeakProcess};

/// Notices that wait for the registry; past it a supervisor waits, after its process runs already.
const MAX_PENDING_MESSAGES: usize = 256;

/// A way to the task that knows all processes.
#[derive(Debug, Clone)]
pub(crate) struct Registry {
    messages: mpsc::Sender<RegistryMessage>,
}

#[derive(Debug)]
enum RegistryMessage {
    Started(WeakProcess),
    List(oneshot::Sender<Vec<Process>>),
}

impl Registry {
    pub(crate) fn start(tasks: &TaskTracker) -> Registry {
        let (messages, inbox) = mpsc::channel(MAX_PENDING_MESSAGES);
        tasks.spawn(keep(inbox));
        Registry { messages }
    }

    /// Adds a process. It is listed for as long as somebody remembers it.
    pub(crate) async fn add(&self, process: WeakProcess) {
        // Only a runtime that shuts down has no registry, and it lists nothing any more.
        let _added = self.messages.send(RegistryMessage::Started(process)).await;
    }

    pub(crate) async fn list(&self) -> Vec<Process> {
        let (reply, answer) = oneshot::channel();
        if self.messages.send(RegistryMessage::List(reply)).await.is_err() {
            return Vec::new();
        }
        answer.await.unwrap_or_default()
    }
}

/// Ends when the last way to it is gone.
async fn keep(mut inbox: mpsc::Receiver<RegistryMessage>) {
    let mut known: Vec<WeakProcess> = Vec::new();
    let mut sweep_at = 64;
    while let Some(message) = inbox.recv().await {
        match message {
            RegistryMessage::Started(process) => known.push(process),
            RegistryMessage::List(reply) => {
                let _sent = reply.send(known.iter().filter_map(WeakProcess::upgrade).collect());
            }
        }
        if known.len() >= sweep_at {
            known.retain(|process| process.upgrade().is_some());
            sweep_at = (known.len() * 2).max(64);
        }
    }
}
