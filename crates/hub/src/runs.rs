//! Runs: the events of hosts, and how each changes the state of its run.

use bytes::Bytes;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use wire::hub::v1::{Envelope, RunLost, kind};

use crate::store::StoreError;

/// The limit on the length of an id that a peer chose, in bytes.
const MAX_ID_BYTES: usize = 256;
/// The largest number that every JSON parser reads exactly.
const MAX_SEQ: i64 = (1 << 53) - 1;
/// A time that a host gives is replaced with the hub's time if it is older than this, in milliseconds.
const OLDEST_MS: i64 = 30 * 24 * 3600 * 1000;

/// What a run is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// The program runs.
    Running,
    /// The program waits for text.
    AwaitingInput,
    /// The program waits for a decision.
    AwaitingApproval,
    /// The program has ended.
    Exited,
}

impl RunStatus {
    const ALL: [RunStatus; 4] =
        [RunStatus::Running, RunStatus::AwaitingInput, RunStatus::AwaitingApproval, RunStatus::Exited];

    /// The name in the database and in the API.
    pub fn word(self) -> &'static str {
        match self {
            RunStatus::Running => "running",
            RunStatus::AwaitingInput => "awaiting_input",
            RunStatus::AwaitingApproval => "awaiting_approval",
            RunStatus::Exited => "exited",
        }
    }

    /// The status with this stored name.
    pub(crate) fn stored(word: &str) -> Result<RunStatus, StoreError> {
        let found = RunStatus::ALL.into_iter().find(|status| status.word() == word);
        found.ok_or_else(|| StoreError::UnknownValue { column: "status of run", value: word.to_owned() })
    }
}

/// What a run waits for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PendingInput {
    /// The event that asked.
    pub seq: i64,
    /// The request for permission, if it is one.
    pub request_id: Option<String>,
    /// `permission`, `choice`, `prompt` or `unknown`.
    pub reason: Option<String>,
    /// The prompt on the screen.
    pub prompt: Option<String>,
    /// The operation that waits in the host; none for a prompt on the screen.
    pub op_tool: Option<String>,
    /// Its arguments in short.
    pub op_args_summary: Option<String>,
}

impl PendingInput {
    /// What the event with this number and this data waits for.
    pub(crate) fn of(seq: i64, fields: &Map<String, Value>) -> PendingInput {
        PendingInput {
            seq,
            request_id: text(fields, "request_id").filter(|id| is_usable_id(id)),
            reason: text(fields, "reason"),
            prompt: text(fields, "prompt"),
            op_tool: text(fields, "op_tool"),
            op_args_summary: text(fields, "op_args_summary"),
        }
    }
}

/// A program on a host, and its state after all stored events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// The id that the host chose.
    pub id: String,
    /// The host that sent the first event; no other host can send one.
    pub host_id: String,
    /// The tool, such as `codex`.
    pub tool: Option<String>,
    /// The working directory.
    pub cwd: Option<String>,
    /// The command line.
    pub command: Option<String>,
    /// What it is doing.
    pub status: RunStatus,
    /// When it started, in milliseconds since 1970.
    pub started_ms: i64,
    /// When its last event was stored.
    pub active_ms: i64,
    /// When it ended.
    pub ended_ms: Option<i64>,
    /// The exit code; 128 plus the number of a signal.
    pub exit_code: Option<i64>,
    /// What it waits for.
    pub pending: Option<PendingInput>,
    /// The last event before the first gap.
    pub last_seq: i64,
    /// The last event.
    pub highest_seq: i64,
    /// The event that set the status.
    pub state_seq: i64,
    /// The size of its events.
    pub bytes: i64,
}

/// A change of the requests for permission that an event causes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApprovalChange {
    /// A new request.
    Requested {
        /// The request.
        request_id: String,
        /// The event.
        seq: i64,
        /// Whether a decision is typed; otherwise the operation waits in the host.
        is_typed: bool,
        /// When the host stops waiting, in milliseconds since 1970.
        expires_ms: Option<i64>,
    },
    /// The operation of a request is over, so the request is settled too.
    Done {
        /// The request.
        request_id: String,
        /// `approve` or `deny`, for a request that no user has decided.
        decision: &'static str,
    },
    /// The host has settled a request.
    Decided {
        /// The request.
        request_id: String,
        /// `approve`, `deny`, `timeout`, …
        decision: String,
        /// Who decided, if the host says so.
        user: Option<String>,
        /// Why, if the host says so.
        reason: Option<String>,
    },
    /// Text was typed: requests whose decision is typed are settled.
    Typed,
    /// The run has ended and accepts no input. Operations that wait in the host until a deadline are not affected: an
    /// ended run still answers requests about its files.
    Withdrawn,
}

/// Why a message of a host is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EventRejected {
    /// The run belongs to another host.
    #[error("the run belongs to another host")]
    NotYourRun,
    /// The event has no `run_id`, or an unusable one.
    #[error("an event needs a run_id of 1 to {MAX_ID_BYTES} bytes")]
    RunId,
    /// The event has no `seq`, or one below 1.
    #[error("an event needs a seq from 1 to {MAX_SEQ}")]
    Seq,
    /// The event is too far behind the last stored one.
    #[error("the seq is more than {0} beyond the last stored event")]
    TooFarAhead(i64),
    /// The data does not match the type.
    #[error("the data is invalid: {0}")]
    Data(String),
}

impl EventRejected {
    /// The word for programs in `hub.error`.
    pub fn code(&self) -> &'static str {
        match self {
            EventRejected::NotYourRun => "not_your_run",
            EventRejected::Seq | EventRejected::TooFarAhead(_) => "bad_seq",
            EventRejected::RunId | EventRejected::Data(_) => "bad_message",
        }
    }
}

/// One event of a host, checked.
#[derive(Debug, Clone)]
pub struct HostEvent {
    /// The run it belongs to.
    pub run_id: String,
    /// Its number in the run.
    pub seq: i64,
    /// The first number that it stands for: less than `seq` for `run.lost`.
    pub first_seq: i64,
    /// When the host made it, RFC 3339.
    pub ts: String,
    /// Its type.
    pub kind: String,
    /// Its data as received.
    pub data: Option<Box<RawValue>>,
    /// The members of its data.
    pub fields: Map<String, Value>,
    /// The message for apps.
    pub frame: Bytes,
}

impl HostEvent {
    /// Checks a message of a host. `now` replaces a missing or invalid time.
    pub fn parse(envelope: Envelope, host_id: &str, now: &str) -> Result<HostEvent, EventRejected> {
        HostEvent::parse_at(envelope, host_id, || now.to_owned())
    }

    /// Like [`HostEvent::parse`]; `now` is called only if the time is missing or invalid.
    pub(crate) fn parse_at(
        envelope: Envelope,
        host_id: &str,
        now: impl FnOnce() -> String,
    ) -> Result<HostEvent, EventRejected> {
        let run_id = envelope.run_id.filter(|id| is_usable_id(id)).ok_or(EventRejected::RunId)?;
        let seq = envelope.seq.filter(|seq| (1..=MAX_SEQ).contains(seq)).ok_or(EventRejected::Seq)?;
        let raw = envelope.data.as_deref().map_or("null", RawValue::get);
        let invalid = |error: serde_json::Error| EventRejected::Data(error.to_string());
        let fields: Option<Map<String, Value>> = serde_json::from_str(raw).map_err(invalid)?;
        let first_seq = match envelope.kind.as_str() {
            kind::RUN_LOST => {
                let lost: RunLost = serde_json::from_str(raw).map_err(invalid)?;
                if lost.first_seq < 1 || lost.first_seq > lost.last_seq || lost.last_seq != seq {
                    return Err(EventRejected::Data("first_seq..=last_seq must end with seq".to_owned()));
                }
                lost.first_seq
            }
            _ => seq,
        };
        let ts = envelope.ts.filter(|ts| ts.parse::<jiff::Timestamp>().is_ok());
        let ts = ts.unwrap_or_else(now);
        let data = envelope.data;
        let frame = event_frame(&envelope.kind, &ts, host_id, (&run_id, seq), data.as_deref());
        let fields = fields.unwrap_or_default();
        Ok(HostEvent { run_id, seq, first_seq, ts, kind: envelope.kind, data, fields, frame })
    }

    fn text(&self, name: &str) -> Option<String> {
        text(&self.fields, name)
    }

    /// The host's time, or the hub's if the host's clock is wrong.
    fn time_ms(&self, now_ms: i64) -> i64 {
        let given = self.ts.parse::<jiff::Timestamp>().map(jiff::Timestamp::as_millisecond);
        given.ok().filter(|given| (now_ms - OLDEST_MS..=now_ms).contains(given)).unwrap_or(now_ms)
    }

    /// When a request expires: as long after its event as the host says, also if the host's clock is wrong.
    fn expires_ms(&self, now_ms: i64) -> Option<i64> {
        let time_ms = |text: &str| text.parse().ok().map(jiff::Timestamp::as_millisecond);
        let expires = time_ms(&self.text("expires_at")?)?;
        let wait = expires.saturating_sub(time_ms(&self.ts)?);
        Some(self.time_ms(now_ms).saturating_add(wait))
    }
}

/// True if an id that a peer chose can be stored: not empty, not long, no control characters.
pub fn is_usable_id(id: &str) -> bool {
    !id.is_empty() && id.len() <= MAX_ID_BYTES && !id.chars().any(char::is_control)
}

/// A member of the data of an event.
fn text(fields: &Map<String, Value>, name: &str) -> Option<String> {
    fields.get(name).and_then(Value::as_str).map(clean)
}

/// A text for a column: databases do not store the character NUL.
pub(crate) fn clean(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

/// The message for apps about an event.
pub fn event_frame(
    kind: &str,
    ts: &str,
    host_id: &str,
    (run_id, seq): (&str, i64),
    data: Option<&RawValue>,
) -> Bytes {
    #[derive(Serialize)]
    struct Frame<'a> {
        r#type: &'a str,
        ts: &'a str,
        host_id: &'a str,
        run_id: &'a str,
        seq: i64,
        data: Option<&'a RawValue>,
    }
    // Strings, a number and valid JSON: this cannot fail.
    serde_json::to_vec(&Frame { r#type: kind, ts, host_id, run_id, seq, data }).unwrap_or_default().into()
}

impl Run {
    /// A run before its first event.
    pub fn new(id: &str, host_id: &str, now_ms: i64) -> Run {
        Run {
            id: id.to_owned(),
            host_id: host_id.to_owned(),
            tool: None,
            cwd: None,
            command: None,
            status: RunStatus::Running,
            started_ms: now_ms,
            active_ms: now_ms,
            ended_ms: None,
            exit_code: None,
            pending: None,
            last_seq: 0,
            highest_seq: 0,
            state_seq: 0,
            bytes: 0,
        }
    }

    /// Applies a new event. An event that is older than the one that set the status does not change the status.
    pub fn apply(&mut self, event: &HostEvent, now_ms: i64) -> Vec<ApprovalChange> {
        self.active_ms = now_ms;
        self.highest_seq = self.highest_seq.max(event.seq);
        self.bytes += i64::try_from(event.frame.len()).unwrap_or(i64::MAX / 2);
        match event.kind.as_str() {
            kind::RUN_STARTED => self.started(event, now_ms),
            kind::RUN_AWAITING_INPUT => self.awaits(event, pending(event)),
            kind::RUN_PERMISSION_REQUESTED => return self.requested(event, now_ms),
            kind::RUN_PERMISSION_DECIDED => return self.decided(event),
            kind::TOOL_RESULT => return self.done(event),
            kind::RUN_INPUT => return self.typed(event),
            kind::RUN_CONTINUED => self.continued(event),
            kind::RUN_EXITED => return self.exited(event, now_ms),
            _ => {}
        }
        Vec::new()
    }

    /// Sets the status, unless a later event has set it or the run has ended.
    fn set(&mut self, seq: i64, status: RunStatus, pending: Option<PendingInput>) {
        if seq > self.state_seq && self.status != RunStatus::Exited {
            (self.state_seq, self.status, self.pending) = (seq, status, pending);
        }
    }

    fn started(&mut self, event: &HostEvent, now_ms: i64) {
        (self.tool, self.cwd, self.command) = (event.text("tool"), event.text("cwd"), event.text("command"));
        self.started_ms = event.time_ms(now_ms);
        self.set(event.seq, RunStatus::Running, None);
    }

    fn awaits(&mut self, event: &HostEvent, new: PendingInput) {
        let status = match new.request_id {
            Some(_) => RunStatus::AwaitingApproval,
            None => RunStatus::AwaitingInput,
        };
        // The request for permission before it says more.
        let same = self
            .pending
            .take_if(|pending| pending.request_id.is_some() && pending.request_id == new.request_id);
        self.set(event.seq, status, Some(same.unwrap_or(new)));
    }

    fn requested(&mut self, event: &HostEvent, now_ms: i64) -> Vec<ApprovalChange> {
        let new = pending(event);
        let Some(request_id) = new.request_id.clone() else { return Vec::new() };
        let is_typed = event.text("approve_text").is_some_and(|text| !text.is_empty());
        let expires_ms = event.expires_ms(now_ms);
        self.set(event.seq, RunStatus::AwaitingApproval, Some(new));
        let requested = ApprovalChange::Requested { request_id, seq: event.seq, is_typed, expires_ms };
        // A request from before the end that arrives late. A later one is about an ended run, which is answered too.
        match self.status == RunStatus::Exited && event.seq < self.state_seq {
            true => vec![requested, ApprovalChange::Withdrawn],
            false => vec![requested],
        }
    }

    fn decided(&mut self, event: &HostEvent) -> Vec<ApprovalChange> {
        let Some(decision) = event.text("decision") else { return Vec::new() };
        let (user, reason) = (event.text("user"), event.text("reason"));
        let change = |request_id| ApprovalChange::Decided { request_id, decision, user, reason };
        self.settled(event).map(change).into_iter().collect()
    }

    fn done(&mut self, event: &HostEvent) -> Vec<ApprovalChange> {
        let is_ok = event.fields.get("ok").and_then(Value::as_bool).unwrap_or(false);
        let decision = if is_ok { "approve" } else { "deny" };
        self.settled(event)
            .map(|request_id| ApprovalChange::Done { request_id, decision })
            .into_iter()
            .collect()
    }

    /// The request that an event settles. The run does not wait for it any more.
    fn settled(&mut self, event: &HostEvent) -> Option<String> {
        let request_id = event.text("request_id")?;
        let pending = self.pending.as_ref().and_then(|pending| pending.request_id.as_ref());
        if pending == Some(&request_id) {
            self.set(event.seq, RunStatus::Running, None);
        }
        Some(request_id)
    }

    fn typed(&mut self, event: &HostEvent) -> Vec<ApprovalChange> {
        // An operation that waits in the host is not answered by typing.
        if self.pending.as_ref().is_none_or(|pending| pending.op_tool.is_none()) {
            self.set(event.seq, RunStatus::Running, None);
        }
        vec![ApprovalChange::Typed]
    }

    /// The program does not wait for input any more; a request for permission is settled by its own event.
    fn continued(&mut self, event: &HostEvent) {
        if self.pending.as_ref().is_none_or(|pending| pending.request_id.is_none()) {
            self.set(event.seq, RunStatus::Running, None);
        }
    }

    fn exited(&mut self, event: &HostEvent, now_ms: i64) -> Vec<ApprovalChange> {
        self.set(event.seq, RunStatus::Exited, None);
        self.ended_ms = Some(event.time_ms(now_ms));
        self.exit_code = event.fields.get("exit_code").and_then(Value::as_i64);
        vec![ApprovalChange::Withdrawn]
    }
}

fn pending(event: &HostEvent) -> PendingInput {
    PendingInput::of(event.seq, &event.fields)
}

#[cfg(test)]
mod tests;
