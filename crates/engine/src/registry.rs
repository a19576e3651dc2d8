//! The registry of all processes of an engine, across sessions: one task owns the list and answers queries.

use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::task::TaskTracker;

use crate::process::{Process, WeakProcess};

/// Messages queued for the registry: 256; senders wait when it is full, which delays no running process.
const MAX_PENDING_MESSAGES: usize = 256;

/// A handle to the task that owns the list of processes.
#[derive(Debug, Clone)]
pub(crate) struct Registry {
    messages: mpsc::Sender<RegistryMessage>,
    /// The number of processes that were ever listed.
    starts: watch::Receiver<u64>,
}

#[derive(Debug)]
enum RegistryMessage {
    Started(WeakProcess),
    List(oneshot::Sender<Vec<Process>>),
    Sweep(oneshot::Sender<()>),
}

impl Registry {
    pub(crate) fn start(tasks: &TaskTracker) -> Registry {
        let (messages, inbox) = mpsc::channel(MAX_PENDING_MESSAGES);
        let (count, starts) = watch::channel(0);
        tasks.spawn(keep(inbox, count));
        Registry { messages, starts }
    }

    /// Changes when another process is listed.
    pub(crate) fn starts(&self) -> watch::Receiver<u64> {
        self.starts.clone()
    }

    /// Adds a process. It is listed for as long as a session holds it.
    pub(crate) async fn add(&self, process: WeakProcess) {
        // Fails only while the runtime shuts down, when nothing is listed any more.
        let _added = self.messages.send(RegistryMessage::Started(process)).await;
    }

    /// Removes processes that no session holds any more.
    pub(crate) async fn sweep(&self) {
        let (reply, swept) = oneshot::channel();
        // Fails only while the runtime shuts down, when nothing is listed any more.
        if self.messages.send(RegistryMessage::Sweep(reply)).await.is_ok() {
            let _swept = swept.await;
        }
    }

    pub(crate) async fn list(&self) -> Vec<Process> {
        let (reply, answer) = oneshot::channel();
        if self.messages.send(RegistryMessage::List(reply)).await.is_err() {
            return Vec::new();
        }
        answer.await.unwrap_or_default()
    }
}

/// Runs until the last handle is dropped.
async fn keep(mut inbox: mpsc::Receiver<RegistryMessage>, starts: watch::Sender<u64>) {
    let mut known: Vec<WeakProcess> = Vec::new();
    let mut sweep_at = 64;
    while let Some(message) = inbox.recv().await {
        match message {
            RegistryMessage::Started(process) => {
                known.push(process);
                starts.send_modify(|count| *count += 1);
            }
            RegistryMessage::List(reply) => {
                let _sent = reply.send(known.iter().filter_map(WeakProcess::upgrade).collect());
            }
            RegistryMessage::Sweep(reply) => {
                sweep(&mut known);
                known.shrink_to_fit();
                let _sent = reply.send(());
            }
        }
        if known.len() >= sweep_at {
            sweep(&mut known);
            sweep_at = (known.len() * 2).max(64);
        }
    }
}

/// A weak handle keeps the memory of its process, though not its contents.
fn sweep(known: &mut Vec<WeakProcess>) {
    known.retain(|process| process.upgrade().is_some());
}
