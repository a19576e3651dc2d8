//! Every process of this engine, across sessions: one task owns the list, everyone else asks it.

use tokio::sync::{mpsc, oneshot};
use tokio_util::task::TaskTracker;

use crate::process::{Process, WeakProcess};

/// Notices that wait for the registry; past it a supervisor waits, after its process runs already.
const NOTICES_WAITING: usize = 256;

/// A way to the task that knows all processes.
#[derive(Debug, Clone)]
pub(crate) struct Registry {
    notices: mpsc::Sender<Notice>,
}

#[derive(Debug)]
enum Notice {
    Started(WeakProcess),
    List(oneshot::Sender<Vec<Process>>),
}

impl Registry {
    pub(crate) fn start(tasks: &TaskTracker) -> Registry {
        let (notices, inbox) = mpsc::channel(NOTICES_WAITING);
        tasks.spawn(keep(inbox));
        Registry { notices }
    }

    /// Adds a process. It is listed for as long as somebody remembers it.
    pub(crate) async fn add(&self, process: WeakProcess) {
        // Only a runtime that shuts down has no registry, and it lists nothing any more.
        let _added = self.notices.send(Notice::Started(process)).await;
    }

    pub(crate) async fn list(&self) -> Vec<Process> {
        let (reply, answer) = oneshot::channel();
        if self.notices.send(Notice::List(reply)).await.is_err() {
            return Vec::new();
        }
        answer.await.unwrap_or_default()
    }
}

/// Ends when the last way to it is gone.
async fn keep(mut inbox: mpsc::Receiver<Notice>) {
    let mut known: Vec<WeakProcess> = Vec::new();
    let mut sweep_at = 64;
    while let Some(notice) = inbox.recv().await {
        match notice {
            Notice::Started(process) => known.push(process),
            Notice::List(reply) => {
                let _heard = reply.send(known.iter().filter_map(WeakProcess::upgrade).collect());
            }
        }
        if known.len() >= sweep_at {
            known.retain(|process| process.upgrade().is_some());
            sweep_at = (known.len() * 2).max(64);
        }
    }
}
