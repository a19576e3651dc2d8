//! Notices: a run waits for a person, or has ended. They go to browsers by Web Push and to webhooks, whether or not an app is
//! connected, and are withdrawn once the question is answered.

mod address;
mod delivery;
mod observer;
mod operation;
mod push;
mod webhook;

use std::sync::Arc;

use serde::Serialize;
use tokio::sync::mpsc;

use crate::browser::Site;
use crate::services::timestamp;
use crate::store::{Store, StoreError, UserId};

use address::AddressRules;
pub(crate) use observer::run;
use push::PushKey;
pub(crate) use push::decode_keys;
pub(crate) use webhook::check as check_webhook;

/// Messages that wait for the notifier; further ones are dropped.
const QUEUED_MESSAGES: usize = 1024;

/// What a notice is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum NoticeKind {
    /// A request for permission.
    Approval,
    /// A prompt.
    Input,
    /// The end of a run.
    Ended,
    /// An earlier notice is settled: it is removed from the screen.
    Close,
    /// A test of a recipient.
    Test,
}

/// A notice as browsers and webhooks receive it.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Notice {
    pub(crate) kind: NoticeKind,
    /// The same for a notice and its withdrawal.
    pub(crate) tag: String,
    pub(crate) title: String,
    pub(crate) body: String,
    /// The address in the app.
    pub(crate) url: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) run_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) request_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) host_id: Option<String>,
    /// Whether the body is the whole operation, so that a person can decide on it.
    pub(crate) actions: bool,
    pub(crate) ts: String,
}

impl Notice {
    fn new(kind: NoticeKind, tag: String, title: String) -> Notice {
        Notice {
            kind,
            tag,
            title,
            body: String::new(),
            url: "/".to_owned(),
            run_id: None,
            request_id: None,
            host_id: None,
            actions: false,
            ts: timestamp(),
        }
    }

    fn close(tag: String) -> Notice {
        Notice::new(NoticeKind::Close, tag, String::new())
    }

    fn test() -> Notice {
        let mut notice = Notice::new(NoticeKind::Test, "test".to_owned(), "Test of rexhub".to_owned());
        notice.body = "Notices arrive here".to_owned();
        notice
    }

    fn is_urgent(&self) -> bool {
        matches!(self.kind, NoticeKind::Approval | NoticeKind::Input)
    }
}

fn approval_tag(run: &str, request: &str) -> String {
    format!("approval:{run}:{request}")
}

fn input_tag(run: &str) -> String {
    format!("input:{run}")
}

/// A message to the notifier.
#[derive(Debug)]
pub(crate) enum NotifierMessage {
    /// A question is answered.
    Settled(String),
    /// A test of the browsers of a user.
    TestBrowsers(UserId),
    /// A test of a webhook.
    TestWebhook(String),
}

/// Sends messages to the notifier.
#[derive(Debug, Clone)]
pub(crate) struct Notifier {
    inbox: mpsc::Sender<NotifierMessage>,
    pub(crate) key: Arc<PushKey>,
    pub(crate) rules: AddressRules,
}

impl Notifier {
    /// The notifier of this node. Pass the receiver to [`run`].
    pub(crate) async fn open(
        store: &Store,
        site: &Site,
        allows_private: bool,
    ) -> Result<(Notifier, mpsc::Receiver<NotifierMessage>), StoreError> {
        let contact = match site.is_secure() {
            true => site.url(None),
            // Push services expect some address; this domain is reserved for examples.
            false => "mailto:rexhub@example.com".to_owned(),
        };
        let key = Arc::new(PushKey::open(store, contact).await?);
        let (inbox, messages) = mpsc::channel(QUEUED_MESSAGES);
        Ok((Notifier { inbox, key, rules: AddressRules { allows_private } }, messages))
    }

    /// Withdraws the notice of a request that a user has decided.
    pub(crate) fn settled(&self, run: &str, request: &str) {
        self.send(NotifierMessage::Settled(approval_tag(run, request)));
    }

    /// Queues a message. False if the notifier is overloaded.
    pub(crate) fn send(&self, message: NotifierMessage) -> bool {
        let is_queued = self.inbox.try_send(message).is_ok();
        if !is_queued {
            tracing::warn!("the notifier is overloaded: a message is dropped");
        }
        is_queued
    }
}
