//! The task that turns events of runs into notices.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use serde_json::{Map, Value};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use wire::hub::v1::{Envelope, kind};

use super::delivery::Delivery;
use super::{Notice, NoticeKind, NotifierMessage, approval_tag, input_tag};
use crate::auth::now_ms;
use crate::feed::LiveEvent;
use crate::runs::{Run, RunStatus};
use crate::services::Services;
use crate::store::{ApprovalStatus, StoreError};

/// Notices that can be withdrawn; beyond it, all are forgotten and stay on the screens.
const REMEMBERED_NOTICES: usize = 10_000;
/// Prompts whose notice is delayed; further ones get none.
const DELAYED_PROMPTS: usize = 4096;
/// The end of a run that was stored later than this has no notice, in milliseconds: its host was away.
const LATE_MS: i64 = 3_600_000;
/// Requests and prompts of earlier processes whose notices can be withdrawn.
const PENDING: i64 = 500;
/// The limit on the text of a title, in characters.
const MAX_TITLE: usize = 120;
/// The limit on the text of a body, in characters.
const MAX_BODY: usize = 600;

/// Runs until the hub stops.
pub(crate) async fn run(
    services: Arc<Services>,
    mut messages: mpsc::Receiver<NotifierMessage>,
    mut events: mpsc::Receiver<LiveEvent>,
) {
    let stop = services.stop.clone();
    let delivery = Delivery::new(services.clone());
    let mut observer = Observer { services, delivery, open: HashSet::new(), delayed: VecDeque::new() };
    if let Err(error) = observer.read_pending().await {
        log(&error);
    }
    loop {
        let due = observer.delayed.front().map(|(due, ..)| *due);
        let done = tokio::select! {
            () = stop.cancelled() => return,
            Some(event) = events.recv() => observer.event(&event).await,
            Some(message) = messages.recv() => observer.message(message).await,
            () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => observer.send_delayed().await,
            () = observer.delivery.progress() => Ok(()),
        };
        if let Err(error) = done {
            log(&error);
        }
    }
}

fn log(error: &StoreError) {
    tracing::error!(error = error as &dyn std::error::Error, "a notice failed");
}

struct Observer {
    services: Arc<Services>,
    delivery: Delivery,
    /// The tags of notices that are not settled.
    open: HashSet<String>,
    /// Prompts and when their notices are due. A person who types answers most of them before.
    delayed: VecDeque<(Instant, String, i64)>,
}

impl Observer {
    /// Notices of an earlier process can be withdrawn too.
    async fn read_pending(&mut self) -> Result<(), StoreError> {
        let store = &self.services.store;
        for approval in store.approvals(ApprovalStatus::Pending, None, PENDING).await? {
            self.open.insert(approval_tag(&approval.run_id, &approval.request_id));
        }
        for run in store.waiting_runs(PENDING).await? {
            self.open.insert(input_tag(&run.id));
        }
        Ok(())
    }

    async fn event(&mut self, event: &LiveEvent) -> Result<(), StoreError> {
        let envelope = std::str::from_utf8(&event.frame).ok().and_then(|text| Envelope::parse(text).ok());
        let Some(envelope) = envelope else { return Ok(()) };
        let is_considered = matches!(
            envelope.kind.as_str(),
            kind::RUN_PERMISSION_REQUESTED
                | kind::RUN_PERMISSION_DECIDED
                | kind::RUN_AWAITING_INPUT
                | kind::RUN_INPUT
                | kind::RUN_EXITED
        );
        if !is_considered || self.is_of_other_node(envelope.host_id.as_deref()).await? {
            return Ok(());
        }
        let data: Map<String, Value> = envelope.decode().unwrap_or_default();
        let request = data.get("request_id").and_then(Value::as_str);
        match (envelope.kind.as_str(), request) {
            (kind::RUN_PERMISSION_REQUESTED, Some(request)) => {
                self.requested(&event.run_id, request, &data).await
            }
            (kind::RUN_PERMISSION_DECIDED, Some(request)) => {
                self.settle(approval_tag(&event.run_id, request)).await
            }
            (kind::RUN_AWAITING_INPUT, None) if self.delayed.len() < DELAYED_PROMPTS => {
                let due = Instant::now() + self.services.limits.prompt_notice;
                self.delayed.push_back((due, event.run_id.to_string(), event.seq));
                Ok(())
            }
            (kind::RUN_INPUT, _) => self.settle(input_tag(&event.run_id)).await,
            (kind::RUN_EXITED, _) => self.ended(&event.run_id).await,
            _ => Ok(()),
        }
    }

    /// True if another node serves the host: that node sends the notices about its runs.
    async fn is_of_other_node(&self, host: Option<&str>) -> Result<bool, StoreError> {
        let Some(host) = host else { return Ok(false) };
        let stored = self.services.store.host(host, now_ms()).await?;
        Ok(stored.and_then(|host| host.node).is_some_and(|node| *node != *self.services.wakeups.node))
    }

    async fn message(&mut self, message: NotifierMessage) -> Result<(), StoreError> {
        match message {
            NotifierMessage::Settled(tag) => self.settle(tag).await,
            NotifierMessage::TestBrowsers(user) => self.delivery.test_browsers(user).await,
            NotifierMessage::TestWebhook(name) => self.delivery.test_webhook(&name).await,
        }
    }

    async fn requested(
        &mut self,
        run: &str,
        request: &str,
        data: &Map<String, Value>,
    ) -> Result<(), StoreError> {
        let approval = self.services.store.approval(run, request).await?;
        let is_pending = approval.is_some_and(|approval| approval.status == ApprovalStatus::Pending);
        let Some(stored) = self.services.store.run(run).await?.filter(|_| is_pending) else { return Ok(()) };
        let text = |member: &str| data.get(member).and_then(Value::as_str).unwrap_or_default();
        let summary = match (text("op_tool"), text("op_args_summary")) {
            ("", "") => text("prompt").to_owned(),
            (tool, arguments) => format!("{tool} {arguments}"),
        };
        let title = format!("Approve on {}?", self.host_name(&stored).await?);
        let segments = (wire::exec_server::uri::name_part(run), wire::exec_server::uri::name_part(request));
        let notice = Notice {
            body: cut(summary.trim(), MAX_BODY),
            url: format!("/approvals?run={}&request={}", segments.0, segments.1),
            request_id: Some(request.to_owned()),
            ..about(&stored, NoticeKind::Approval, approval_tag(run, request), title)
        };
        self.publish(notice).await
    }

    async fn send_delayed(&mut self) -> Result<(), StoreError> {
        let Some((_, run, seq)) = self.delayed.pop_front() else { return Ok(()) };
        let Some(stored) = self.services.store.run(&run).await? else { return Ok(()) };
        let is_waiting = stored.status == RunStatus::AwaitingInput;
        let Some(pending) = stored.pending.clone().filter(|pending| is_waiting && pending.seq == seq) else {
            return Ok(());
        };
        let title = format!("{} waits for input", self.host_name(&stored).await?);
        let prompt = pending.prompt.unwrap_or_default();
        let body = format!("{}\n{}", stored.command.as_deref().unwrap_or_default(), prompt);
        let notice = about(&stored, NoticeKind::Input, input_tag(&run), title);
        self.publish(Notice { body: cut(body.trim(), MAX_BODY), ..notice }).await
    }

    async fn ended(&mut self, run: &str) -> Result<(), StoreError> {
        let approvals = approval_tag(run, "");
        let requests: Vec<String> =
            self.open.iter().filter_map(|tag| tag.strip_prefix(&approvals)).map(str::to_owned).collect();
        for request in requests {
            // An operation that waits in the host can still be approved.
            let approval = self.services.store.approval(run, &request).await?;
            if approval.is_none_or(|approval| approval.status != ApprovalStatus::Pending) {
                self.settle(approval_tag(run, &request)).await?;
            }
        }
        self.settle(input_tag(run)).await?;
        let Some(stored) = self.services.store.run(run).await? else { return Ok(()) };
        let is_late = stored.ended_ms.is_none_or(|ended| ended < now_ms() - LATE_MS);
        if stored.status != RunStatus::Exited || is_late {
            return Ok(());
        }
        let title = match stored.exit_code {
            Some(0) | None => format!("Finished on {}", self.host_name(&stored).await?),
            Some(code) => format!("Failed on {} with status {code}", self.host_name(&stored).await?),
        };
        let body = cut(stored.command.as_deref().unwrap_or_default(), MAX_BODY);
        let notice = about(&stored, NoticeKind::Ended, format!("ended:{run}"), title);
        self.delivery.publish(Notice { body, ..notice }).await
    }

    async fn host_name(&self, run: &Run) -> Result<String, StoreError> {
        let host = self.services.store.host(&run.host_id, 0).await?;
        let name = host.and_then(|host| host.name).filter(|name| !name.is_empty());
        Ok(cut(&name.unwrap_or_else(|| run.host_id.clone()), MAX_TITLE / 2))
    }

    async fn publish(&mut self, notice: Notice) -> Result<(), StoreError> {
        if self.open.len() >= REMEMBERED_NOTICES {
            self.open.clear();
        }
        self.open.insert(notice.tag.clone());
        self.delivery.publish(notice).await
    }

    async fn settle(&mut self, tag: String) -> Result<(), StoreError> {
        match self.open.remove(&tag) {
            true => self.delivery.publish(Notice::close(tag)).await,
            false => Ok(()),
        }
    }
}

/// A notice about a run.
fn about(run: &Run, kind: NoticeKind, tag: String, title: String) -> Notice {
    Notice {
        url: format!("/runs/{}/terminal", wire::exec_server::uri::name_part(&run.id)),
        run_id: Some(run.id.clone()),
        host_id: Some(run.host_id.clone()),
        ..Notice::new(kind, tag, cut(&title, MAX_TITLE))
    }
}

fn cut(text: &str, characters: usize) -> String {
    match text.char_indices().nth(characters) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
