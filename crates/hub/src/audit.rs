//! Writing the audit: entries of all requests are stored in common transactions, in order.

use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use crate::store::{AuditEntry, Store};

/// Entries that wait for the writer; senders wait when it is full.
const QUEUED_ENTRIES: usize = 1024;
/// Entries of one transaction.
const ENTRIES_PER_TRANSACTION: usize = 256;
/// How long entries are collected for one transaction: its sync would delay the requests that they are about.
const COLLECTING: Duration = Duration::from_millis(20);

/// Sends entries to the writer of the audit.
#[derive(Debug, Clone)]
pub struct AuditLog {
    requests: mpsc::Sender<AuditRequest>,
}

#[derive(Debug)]
enum AuditRequest {
    Entry(AuditEntry),
    /// Notified when everything before it is stored.
    Flush(oneshot::Sender<()>),
}

impl AuditLog {
    /// The writer of this node. The future runs it until every [`AuditLog`] is dropped; run it on a task.
    pub fn new(store: Store) -> (AuditLog, impl Future<Output = ()> + Send + 'static) {
        let (requests, inbox) = mpsc::channel(QUEUED_ENTRIES);
        (AuditLog { requests }, write(store, inbox))
    }

    /// Appends an entry without waiting until it is stored.
    pub async fn append(&self, entry: AuditEntry) {
        // The writer runs as long as this sender exists.
        self.requests.send(AuditRequest::Entry(entry)).await.ok();
    }

    /// Waits until every entry that was appended before is stored, or has failed.
    pub async fn flush(&self) {
        let (sender, stored) = oneshot::channel();
        self.requests.send(AuditRequest::Flush(sender)).await.ok();
        stored.await.ok();
    }
}

async fn write(store: Store, mut inbox: mpsc::Receiver<AuditRequest>) {
    let mut requests = Vec::new();
    while let Some(first) = inbox.recv().await {
        requests.push(first);
        // After a timeout, what was received stays in `requests`.
        tokio::time::timeout(COLLECTING, collect(&mut inbox, &mut requests)).await.ok();
        let (mut entries, mut waiting) = (Vec::new(), Vec::new());
        for request in requests.drain(..) {
            match request {
                AuditRequest::Entry(entry) => entries.push(entry),
                AuditRequest::Flush(sender) => waiting.push(sender),
            }
        }
        let count = entries.len();
        // A failure is logged: the actions have happened or will fail for the same reason.
        if let Err(error) = store.append_audit(entries).await {
            tracing::error!(
                error = &error as &dyn std::error::Error,
                entries = count,
                "writing the audit failed"
            );
        }
        for sender in waiting {
            // The request may have been cancelled.
            sender.send(()).ok();
        }
    }
}

/// Receives requests until a transaction is full, or one waits for it.
async fn collect(inbox: &mut mpsc::Receiver<AuditRequest>, requests: &mut Vec<AuditRequest>) {
    while requests.len() < ENTRIES_PER_TRANSACTION
        && !matches!(requests.last(), Some(AuditRequest::Flush(_)))
        && let Some(next) = inbox.recv().await
    {
        requests.push(next);
    }
}
