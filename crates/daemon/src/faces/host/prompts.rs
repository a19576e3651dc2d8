//! Prompts of a run: found on its screen when output pauses, reported once, and withdrawn when the program goes on.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use engine::process::{Item, LogReader};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until, timeout};
use wire::hub::v1::{
    AwaitReason, ChoiceOption, PermissionDecided, PermissionRequested, RunAwaitingInput, RunContinued, kind,
};

use super::identity::uuid;
use super::input::{InputCommand, InputPurpose, PromptDecision, Typist};
use super::journal::{NewEvent, PromptChange, StoredPrompt};
use super::output::MAX_EVENT_BYTES;
use super::run::{Run, new_event};
use super::screen::Observation;
use crate::core::state::to_ms;
use crate::core::terminal::{IDLE_WHILE_POLLING, IDLE_WHILE_READING, Prompt, PromptKind};

/// When the screen is observed after the last output or input; then every minute, because a program may begin to read
/// without any output.
const OBSERVED_AFTER: [Duration; 7] = [
    IDLE_WHILE_READING,
    IDLE_WHILE_POLLING,
    Duration::from_secs(3),
    Duration::from_secs(6),
    Duration::from_secs(12),
    Duration::from_secs(30),
    Duration::from_secs(60),
];
/// How long output that is under way is waited for after the terminal was examined.
const CONFIRM: Duration = Duration::from_millis(30);
/// How long a viewer's terminal has time to answer a query of the program before the host does.
const REPLY_WAIT: Duration = Duration::from_millis(300);

/// When the screen of a run is observed next.
#[derive(Debug)]
pub(super) struct PromptWatch {
    /// The last output or input.
    since: Instant,
    /// How often it was observed since then.
    count: usize,
    /// An expired request is not denied again before this time.
    next_expiry: Instant,
}

impl Default for PromptWatch {
    fn default() -> PromptWatch {
        PromptWatch { since: Instant::now(), count: 0, next_expiry: Instant::now() }
    }
}

impl PromptWatch {
    fn restart(&mut self) {
        (self.since, self.count) = (Instant::now(), 0);
    }

    fn due(&self) -> Instant {
        let last = OBSERVED_AFTER.len() - 1;
        let beyond = u32::try_from(self.count.saturating_sub(last)).unwrap_or(u32::MAX);
        let after = OBSERVED_AFTER.get(self.count.min(last)).copied().unwrap_or_default();
        self.since + after + Duration::from_secs(60).saturating_mul(beyond)
    }
}

impl Run {
    /// The next item of the log; `None` after an observation of the screen.
    pub(super) async fn watch(
        self: &Arc<Run>,
        reader: &mut LogReader,
        watch: &mut PromptWatch,
    ) -> Option<Item> {
        if self.screen().is_none() {
            return Some(reader.next(MAX_EVENT_BYTES).await);
        }
        let expiry = self.prompt_expiry().map(|at| at.max(watch.next_expiry));
        let replies = self.replies_due();
        let item = tokio::select! {
            biased;
            item = reader.next(MAX_EVENT_BYTES) => Some(item),
            () = self.has_typed.notified() => {
                watch.restart();
                None
            }
            () = sleep_until(replies.unwrap_or_else(Instant::now)), if replies.is_some() => {
                self.reply();
                None
            }
            () = sleep_until(expiry.unwrap_or_else(Instant::now)), if expiry.is_some() => {
                watch.next_expiry = Instant::now() + Duration::from_secs(1);
                self.expire_prompt();
                None
            }
            () = sleep_until(watch.due()) => {
                watch.count += 1;
                self.observe(reader).await
            }
        };
        if item.is_some() {
            watch.restart();
        }
        item
    }

    /// Observes the screen, and reports a change. Returns output that came meanwhile: the screen has changed then.
    async fn observe(self: &Arc<Run>, reader: &mut LogReader) -> Option<Item> {
        let process = self.process().ok()?;
        let state = self.terminal_state(&process).await.ok()?;
        if let Ok(item) = timeout(CONFIRM, reader.next(MAX_EVENT_BYTES)).await {
            return Some(item);
        }
        let run = self.clone();
        let observe = move || {
            let mut screen = run.screen();
            let screen = screen.as_mut()?;
            if let Some(state) = state {
                screen.resize(state.size);
            }
            let idle = screen.idle();
            Some(screen.observe(state, idle))
        };
        let observed = tokio::task::spawn_blocking(observe).await.ok().flatten()?;
        self.report(observed).await;
        None
    }

    /// Appends the events of an observation with one write.
    async fn report(self: &Arc<Run>, Observation { new, is_over }: Observation) {
        let mut events = Vec::new();
        if is_over {
            events.extend(self.over_event());
        }
        if let Some(prompt) = new {
            events.extend(self.prompt_events(prompt));
        }
        if !events.is_empty() {
            self.append_all(events).await;
        }
    }

    /// The event of a prompt that is not shown any more, unless its answer was one.
    fn over_event(&self) -> Option<NewEvent> {
        let prompt = self.journal().prompt().cloned()?;
        let event = match prompt.request_id {
            Some(request_id) => {
                let decided = PermissionDecided {
                    request_id,
                    decision: "withdrawn".to_owned(),
                    actor: Some("system".to_owned()),
                    user: None,
                    reason: Some("the program does not ask any more".to_owned()),
                };
                new_event(kind::RUN_PERMISSION_DECIDED, &decided)
            }
            None if prompt.answered_at.is_none() => new_event(kind::RUN_CONTINUED, &RunContinued {}),
            None => None,
        }?;
        Some(NewEvent { prompt: Some(PromptChange::Over), ..event })
    }

    /// Withdraws the prompt that waits, because the program is gone or has gone on.
    pub(super) async fn end_prompt(self: &Arc<Run>) {
        if let Some(event) = self.over_event() {
            self.append_all(vec![event]).await;
        }
        if let Some(screen) = &mut *self.screen() {
            screen.forget_prompt();
        }
    }

    /// Whether a prompt waits for the decision about this request.
    pub(super) fn asks(&self, request_id: &str) -> bool {
        self.journal().prompt().is_some_and(|prompt| prompt.request_id.as_deref() == Some(request_id))
    }

    /// The prompt that waits for a decision, for the person who takes it.
    pub(super) async fn shown_prompt(&self) -> Value {
        let state = match self.process() {
            Ok(process) => self.terminal_state(&process).await.ok().flatten(),
            Err(_ended) => None,
        };
        let (request_id, expires_at_ms) =
            self.journal().prompt().map(|prompt| (prompt.request_id.clone(), prompt.expires_at_ms)).unzip();
        let prompt = self.screen().as_ref().and_then(|screen| screen.current(state));
        let text = prompt.as_ref().map(|prompt| prompt.text.clone());
        let expires_at = expires_at_ms.flatten().and_then(|ms| i64::try_from(ms).ok());
        let expires_at = expires_at.and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
        json!({
            "approval_id": request_id.clone().flatten(),
            "request_id": request_id.flatten(),
            "method": "prompt",
            "summary": text,
            "operation": { "kind": "prompt", "text": text,
                "approve_text": prompt.as_ref().and_then(|prompt| prompt.approve_text.clone()),
                "deny_text": prompt.as_ref().and_then(|prompt| prompt.deny_text.clone()) },
            "cwd": self.record.cwd,
            "requester": self.record.tool,
            "expires_at": expires_at.map(|time| time.to_string()),
        })
    }

    fn prompt_events(&self, prompt: Prompt) -> Vec<NewEvent> {
        let reason = match prompt.kind {
            PromptKind::Permission => AwaitReason::Permission,
            PromptKind::Choice => AwaitReason::Choice,
            PromptKind::Prompt => AwaitReason::Prompt,
            PromptKind::Unknown => AwaitReason::Unknown,
        };
        let texts = prompt.approve_text.zip(prompt.deny_text);
        let request_id = texts.as_ref().and_then(|_| uuid().ok());
        let expires_at =
            request_id.as_ref().and(self.context.prompt_timeout).map(|wait| SystemTime::now() + wait);
        let requested = texts.zip(request_id.clone()).map(|((approve_text, deny_text), request_id)| {
            PermissionRequested {
                request_id,
                reason,
                prompt: prompt.text.clone(),
                op_tool: None,
                op_args: None,
                op_args_summary: None,
                approve_text,
                deny_text,
                risk: None,
                cwd: Some(self.record.cwd.clone()),
                requester: Some(self.record.tool.clone()),
                expires_at: expires_at
                    .and_then(|at| jiff::Timestamp::try_from(at).ok())
                    .map(|time| time.to_string()),
            }
        });
        let options = prompt.options.into_iter();
        let awaiting = RunAwaitingInput {
            reason,
            prompt: Some(prompt.text).filter(|text| !text.is_empty()),
            request_id: request_id.clone(),
            echo: prompt.echoes.filter(|echoes| !echoes),
            options: options.map(|option| ChoiceOption { label: option.label, text: option.text }).collect(),
        };
        let stored = StoredPrompt {
            identity: prompt.mark.identity,
            takes_keys: prompt.mark.takes_keys,
            answered_at: None,
            request_id,
            expires_at_ms: expires_at.map(to_ms),
        };
        let awaiting = new_event(kind::RUN_AWAITING_INPUT, &awaiting)
            .map(|event| NewEvent { prompt: Some(PromptChange::Shown(stored)), ..event });
        requested
            .and_then(|event| new_event(kind::RUN_PERMISSION_REQUESTED, &event))
            .into_iter()
            .chain(awaiting)
            .collect()
    }

    /// When the request for permission is denied without a decision.
    fn prompt_expiry(&self) -> Option<Instant> {
        let wait = self.context.prompt_timeout?;
        let expires_at_ms =
            self.journal().prompt().filter(|prompt| prompt.request_id.is_some())?.expires_at_ms?;
        // A clock that was set does not make it longer than it is configured.
        let left = Duration::from_millis(expires_at_ms.saturating_sub(to_ms(SystemTime::now())));
        Some(Instant::now() + left.min(wait))
    }

    fn expire_prompt(&self) {
        let request_id = self.journal().prompt().and_then(|prompt| prompt.request_id.clone());
        let Some(request_id) = request_id else { return };
        let decision = PromptDecision { request_id, is_approved: false, word: "timeout", reason: None };
        self.type_for_itself(InputPurpose::Decision(decision), String::new());
    }

    /// When the host answers the queries of the program; `None` for programs of other faces, which have their own viewers.
    fn replies_due(&self) -> Option<Instant> {
        let asked_at = self.screen().as_ref()?.asked_at();
        asked_at.filter(|_| self.record.is_own).map(|at| at + REPLY_WAIT)
    }

    fn reply(&self) {
        let replies = self.screen().as_mut().map(|screen| screen.take_replies()).unwrap_or_default();
        self.type_for_itself(InputPurpose::Reply, String::from_utf8_lossy(&replies).into_owned());
    }

    /// Queues input of the host itself. A queue that is full belongs to a program that reads nothing.
    fn type_for_itself(&self, purpose: InputPurpose, text: String) {
        let (done, _not_awaited) = oneshot::channel();
        let by = Typist { actor: "system".to_owned(), user: None };
        if let Err(error) = self.queue_input(InputCommand { purpose, text, by, done }) {
            tracing::debug!(%error, run = self.record.run_id, "cannot type");
        }
    }
}
