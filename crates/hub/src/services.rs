//! What the routes and connections of a running hub share.

use std::sync::Arc;

use bytes::Bytes;
use link::ByteBudget;
use link::task::Tasks;
use link::websocket::{Close, Settings};
use serde::Serialize;
use tokio_util::sync::CancellationToken;
use wire::hub::v1::Envelope;

use crate::audit::AuditLog;
use crate::auth::{Credential, Tokens};
use crate::browser::Site;
use crate::config::{Enrolment, Limits};
use crate::feed::Feed;
use crate::hosts::{Hosts, RpcWaiter};
use crate::ingest::Ingest;
use crate::notices::Notifier;
use crate::passwords::PasswordChecker;
use crate::rendezvous::Rendezvous;
use crate::store::{AuditEntry, Store};
use crate::wakeups::NodeWakeups;

/// The parts of a running hub.
#[derive(Debug)]
pub(crate) struct Services {
    pub(crate) store: Store,
    pub(crate) tokens: Tokens,
    pub(crate) feed: Feed,
    pub(crate) hosts: Hosts,
    pub(crate) ingest: Ingest,
    pub(crate) rendezvous: Arc<Rendezvous>,
    pub(crate) passwords: PasswordChecker,
    pub(crate) limits: Arc<Limits>,
    pub(crate) budget: ByteBudget,
    pub(crate) enrolment: Enrolment,
    /// How browsers reach the hub.
    pub(crate) site: Site,
    /// Notices to browsers and webhooks.
    pub(crate) notifier: Notifier,
    /// Whether a proxy is in front, whose header has the address of a client.
    pub(crate) is_behind_proxy: bool,
    pub(crate) audit_log: AuditLog,
    pub(crate) wakeups: NodeWakeups,
    pub(crate) stop: CancellationToken,
    pub(crate) tasks: Tasks,
}

impl Services {
    /// Waits until a connection with this credential has to end, and returns the close frame.
    pub(crate) async fn ended(&self, credential: &Credential) -> Close {
        tokio::select! {
            () = self.stop.cancelled() => Close::new(Close::GOING_AWAY, "the hub stops"),
            () = self.tokens.removed(credential) => Close::new(Close::REVOKED, "the access was revoked"),
        }
    }

    /// How WebSockets of hosts and apps are kept alive.
    pub(crate) fn keepalive(&self) -> Settings {
        Settings { ping_every: self.limits.ping, deadline: self.limits.silence }
    }

    /// The limits of such a WebSocket.
    pub(crate) fn link_limits(&self, message_bytes: usize) -> link::Limits {
        link::Limits { line_bytes: message_bytes, budget: self.budget.clone(), ..link::Limits::default() }
    }

    /// Delivers a response to a client that waits for it.
    pub(crate) fn deliver(&self, waiter: RpcWaiter, frame: &Bytes) {
        match waiter {
            RpcWaiter::App(app) => self.feed.respond(app, frame.clone()),
            RpcWaiter::Hub(sender) => drop(sender.send(frame.clone())),
        }
    }

    /// Appends to the audit, and waits until the entry is stored. A failure is logged: the action itself has happened or
    /// will fail for the same reason.
    pub(crate) async fn audit(&self, entry: AuditEntry) {
        self.audit_log.append(entry).await;
        self.audit_log.flush().await;
    }
}

/// The current time as in a message.
pub(crate) fn timestamp() -> String {
    jiff::Timestamp::now().to_string()
}

/// A message of the hub.
pub(crate) fn message(kind: &str, data: &impl Serialize) -> Bytes {
    addressed(kind, data, None, None)
}

/// A message of the hub about a host or a run.
pub(crate) fn addressed(
    kind: &str,
    data: &impl Serialize,
    host_id: Option<&str>,
    run_id: Option<&str>,
) -> Bytes {
    let envelope = Envelope::new(kind, timestamp(), data).map(|envelope| Envelope {
        host_id: host_id.map(str::to_owned),
        run_id: run_id.map(str::to_owned),
        ..envelope
    });
    // Types of `wire` without maps of other keys than text: this cannot fail.
    envelope.and_then(|envelope| serde_json::to_vec(&envelope)).unwrap_or_default().into()
}
