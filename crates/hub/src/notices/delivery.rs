//! Delivery of notices: one at a time to each recipient, in order, repeated with increasing delays.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use http::header::RETRY_AFTER;
use link::dial::{self, DialError};
use tokio::task::JoinSet;

use super::push::PushOptions;
use super::{Notice, NoticeKind, operation, webhook};
use crate::auth::UserRole;
use crate::runs::RunStatus;
use crate::services::Services;
use crate::store::{
    ApprovalStatus, NoticeChoice, PushSubscription, StoreError, SubscriptionId, UserId, Webhook,
};

/// Deliveries at a time; further ones wait.
const ACTIVE: usize = 32;
/// Notices that wait for one recipient; the oldest ones are dropped.
const QUEUED_PER_RECIPIENT: usize = 32;
/// Attempts for one notice.
const ATTEMPTS: u32 = 5;
/// The time for one request.
const REQUEST: Duration = Duration::from_secs(20);
/// The longest delay that a server can request.
const MAX_DELAY: Duration = Duration::from_secs(600);
/// How long push services keep a notice for a browser that is offline, in seconds.
const LIFETIME: u32 = 12 * 3600;

/// Who receives a notice.
#[derive(Debug, Clone)]
enum Recipient {
    Browser(Box<PushSubscription>),
    Webhook(Box<Webhook>),
}

/// The identity of a recipient.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum RecipientKey {
    Browser(SubscriptionId),
    Webhook(String),
}

impl Recipient {
    fn key(&self) -> RecipientKey {
        match self {
            Recipient::Browser(browser) => RecipientKey::Browser(browser.id),
            Recipient::Webhook(webhook) => RecipientKey::Webhook(webhook.name.clone()),
        }
    }

    fn choice(&self) -> NoticeChoice {
        match self {
            Recipient::Browser(browser) => browser.choice,
            Recipient::Webhook(webhook) => webhook.choice,
        }
    }

    fn wants(&self, kind: NoticeKind) -> bool {
        match kind {
            NoticeKind::Approval | NoticeKind::Input => self.choice().waits,
            NoticeKind::Ended => self.choice().ends,
            // A message in a chat stays.
            NoticeKind::Close => self.choice().waits && matches!(self, Recipient::Browser(_)),
            NoticeKind::Test => true,
        }
    }
}

/// What came of one attempt.
enum Attempt {
    Done,
    /// The recipient does not exist any more.
    Gone,
    /// No attempt can succeed.
    Rejected(String),
    /// Try again, not before this time.
    Failed(String, Option<Duration>),
}

/// The deliveries of a node.
pub(super) struct Delivery {
    services: Arc<Services>,
    active: JoinSet<RecipientKey>,
    /// Notices of recipients with an active delivery, or beyond the limit of those.
    waiting: HashMap<RecipientKey, VecDeque<(Recipient, Notice)>>,
    /// Recipients with an active delivery.
    busy: std::collections::HashSet<RecipientKey>,
}

impl Delivery {
    pub(super) fn new(services: Arc<Services>) -> Delivery {
        Delivery { services, active: JoinSet::new(), waiting: HashMap::new(), busy: Default::default() }
    }

    /// Sends a notice to everyone who wants it.
    pub(super) async fn publish(&mut self, notice: Notice) -> Result<(), StoreError> {
        let store = self.services.store.clone();
        let browsers = store.subscriptions(None).await?.into_iter();
        let webhooks = store.webhooks().await?.into_iter();
        let browsers = browsers.map(|browser| Recipient::Browser(Box::new(browser)));
        let webhooks = webhooks.map(|webhook| Recipient::Webhook(Box::new(webhook)));
        for recipient in browsers.chain(webhooks).filter(|recipient| recipient.wants(notice.kind)) {
            self.queue(recipient, notice.clone());
        }
        Ok(())
    }

    /// Sends a test to the browsers of a user.
    pub(super) async fn test_browsers(&mut self, user: UserId) -> Result<(), StoreError> {
        for browser in self.services.store.subscriptions(Some(user)).await? {
            self.queue(Recipient::Browser(Box::new(browser)), Notice::test());
        }
        Ok(())
    }

    /// Sends a test to a webhook.
    pub(super) async fn test_webhook(&mut self, name: &str) -> Result<(), StoreError> {
        for webhook in
            self.services.store.webhooks().await?.into_iter().filter(|webhook| webhook.name == name)
        {
            self.queue(Recipient::Webhook(Box::new(webhook)), Notice::test());
        }
        Ok(())
    }

    fn queue(&mut self, recipient: Recipient, notice: Notice) {
        let queue = self.waiting.entry(recipient.key()).or_default();
        if queue.len() >= QUEUED_PER_RECIPIENT {
            queue.pop_front();
            tracing::warn!("a recipient of notices is slow: its oldest notice is dropped");
        }
        queue.push_back((recipient, notice));
        self.start();
    }

    fn start(&mut self) {
        while self.active.len() < ACTIVE {
            let Some(key) = self.waiting.keys().find(|key| !self.busy.contains(key)).cloned() else { return };
            let Some(queue) = self.waiting.get_mut(&key) else { return };
            let next = queue.pop_front();
            if queue.is_empty() {
                self.waiting.remove(&key);
            }
            if let Some((recipient, notice)) = next {
                self.busy.insert(key.clone());
                let services = self.services.clone();
                self.active.spawn(async move {
                    deliver(&services, &recipient, notice).await;
                    key
                });
            }
        }
    }

    /// Waits for the end of a delivery and starts the next ones.
    pub(super) async fn progress(&mut self) {
        match self.active.join_next().await {
            Some(Ok(key)) => {
                self.busy.remove(&key);
                self.start();
            }
            Some(Err(error)) => {
                tracing::error!(%error, "a delivery failed");
                if self.active.is_empty() {
                    // Its recipient is not known any more; otherwise it would stay busy.
                    self.busy.clear();
                }
            }
            None => std::future::pending().await,
        }
    }
}

/// Delivers a notice, with several attempts.
async fn deliver(services: &Services, recipient: &Recipient, mut notice: Notice) {
    prepare(services, recipient, &mut notice).await;
    let mut delay = services.limits.notice_retry;
    for attempt in 1..=ATTEMPTS {
        match is_outdated(services, &notice).await {
            Ok(false) => {}
            Ok(true) => return,
            Err(error) => {
                tracing::error!(error = &error as &dyn std::error::Error, "a notice failed");
                return;
            }
        }
        match send(services, recipient, &notice).await {
            Attempt::Done => return,
            Attempt::Gone => return forget(services, recipient).await,
            Attempt::Rejected(reason) => {
                tracing::warn!(recipient = ?recipient.key(), reason, "a notice was rejected");
                return;
            }
            Attempt::Failed(reason, wanted) => {
                tracing::info!(recipient = ?recipient.key(), reason, attempt, "a notice was not delivered");
                if attempt < ATTEMPTS {
                    tokio::time::sleep(wanted.unwrap_or(delay).clamp(delay, MAX_DELAY)).await;
                    delay = (delay * 4).min(MAX_DELAY);
                }
            }
        }
    }
}

/// Puts the whole operation into the notice of a browser whose user may decide, if it fits.
async fn prepare(services: &Services, recipient: &Recipient, notice: &mut Notice) {
    let (Recipient::Browser(browser), NoticeKind::Approval) = (recipient, notice.kind) else { return };
    let (Some(host), Some(run), Some(request)) = (&notice.host_id, &notice.run_id, &notice.request_id) else {
        return;
    };
    if browser.role >= UserRole::Operator
        && let Some(whole) = operation::whole(services, (host, run, request), &browser.user).await
    {
        notice.body = whole;
        notice.actions = true;
    }
}

/// True if the question is answered meanwhile.
async fn is_outdated(services: &Services, notice: &Notice) -> Result<bool, StoreError> {
    let store = &services.store;
    Ok(match (notice.kind, &notice.run_id, &notice.request_id) {
        (NoticeKind::Approval, Some(run), Some(request)) => {
            store.approval(run, request).await?.is_none_or(|found| found.status != ApprovalStatus::Pending)
        }
        (NoticeKind::Input, Some(run), _) => {
            store.run(run).await?.is_none_or(|run| run.status != RunStatus::AwaitingInput)
        }
        _ => false,
    })
}

async fn send(services: &Services, recipient: &Recipient, notice: &Notice) -> Attempt {
    let (key, rules) = (&services.notifier.key, services.notifier.rules);
    let request = match recipient {
        Recipient::Browser(browser) => {
            let payload = serde_json::to_vec(notice).unwrap_or_default();
            let options =
                PushOptions { topic: &notice.tag, lifetime: LIFETIME, is_urgent: notice.is_urgent() };
            key.request(browser, &payload, options)
        }
        Recipient::Webhook(to) => webhook::request(to, notice, &services.site.url(None)),
    };
    let mut request = match request {
        Ok(request) => request,
        Err(reason) => return Attempt::Rejected(reason),
    };
    match rules.resolve(&request.url).await {
        Ok(address) => request.address = Some(address),
        Err(error @ super::address::AddressError::Unresolved(_)) => {
            return Attempt::Failed(error.to_string(), None);
        }
        Err(error) => return Attempt::Rejected(error.to_string()),
    }
    request.timeout = Some(REQUEST);
    match dial::http(request).await {
        Ok(response) => outcome(response.status, response.headers.get(RETRY_AFTER)),
        Err(error) => failure(&error),
    }
}

fn outcome(status: StatusCode, retry_after: Option<&http::HeaderValue>) -> Attempt {
    match status {
        status if status.is_success() => Attempt::Done,
        StatusCode::NOT_FOUND | StatusCode::GONE => Attempt::Gone,
        StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT => {
            let seconds = retry_after.and_then(|value| value.to_str().ok()?.parse().ok());
            Attempt::Failed(status.to_string(), seconds.map(Duration::from_secs))
        }
        status if status.is_server_error() => Attempt::Failed(status.to_string(), None),
        status => Attempt::Rejected(status.to_string()),
    }
}

/// The URL of a webhook can contain a secret, so that only the kind of an error is logged.
fn failure(error: &DialError) -> Attempt {
    let reason = match error {
        DialError::Url { .. } => return Attempt::Rejected("the URL is invalid".to_owned()),
        DialError::Header(_) => return Attempt::Rejected("a header is invalid".to_owned()),
        DialError::Reach { .. } => "the server cannot be reached",
        DialError::Tls { .. } => "the TLS handshake failed",
        DialError::Refused { .. } | DialError::Broken(_) => "the response is invalid",
        DialError::Late(_) => "no response in time",
    };
    Attempt::Failed(reason.to_owned(), None)
}

/// Removes a browser whose push service says that it is gone. A webhook stays, for its admin to see.
async fn forget(services: &Services, recipient: &Recipient) {
    match recipient {
        Recipient::Browser(browser) => {
            tracing::info!(user = browser.user, "a push subscription is gone and is removed");
            if let Err(error) = services.store.remove_subscription(browser.id, None).await {
                tracing::error!(
                    error = &error as &dyn std::error::Error,
                    "removing a push subscription failed"
                );
            }
        }
        Recipient::Webhook(webhook) => {
            tracing::warn!(webhook = webhook.name, "a webhook does not exist any more");
        }
    }
}
