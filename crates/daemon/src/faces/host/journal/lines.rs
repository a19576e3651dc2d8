//! The lines of a journal file.

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// A run, as its journal describes it. Fields are only ever added.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunRecord {
    /// The id of the run at every hub.
    pub run_id: String,
    /// The process.
    pub process: String,
    /// Whether a keeper owns the process, so that it outlives the daemon.
    pub is_kept: bool,
    /// The tool; for a process of another face, the face.
    pub tool: String,
    /// The working directory.
    pub cwd: String,
    /// The command line.
    pub command: String,
    /// Whether it has a terminal.
    pub has_terminal: bool,
    /// Whether this face started it.
    pub is_own: bool,
    /// When it was started, RFC 3339.
    pub started_at: String,
    /// The boot of the machine: after another one, numbers that were not written may have been sent.
    pub boot: String,
    /// The request that started it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

/// A range of output in the log of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputRange {
    /// Whether it is standard error.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_stderr: bool,
    /// The cursor of the first byte.
    pub from: u64,
    /// The cursor behind the last byte.
    pub to: u64,
}

/// The prompt that a run shows, so that a restarted host does not report it again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredPrompt {
    /// Its normalised text.
    pub identity: String,
    /// Whether a single key answers it.
    pub takes_keys: bool,
    /// The end of the log when it was answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered_at: Option<u64>,
    /// The request for permission that waits for a decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// When that request is denied without a decision, in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at_ms: Option<u64>,
}

/// What an event changes about the prompt of its run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PromptChange {
    /// This prompt is shown.
    Shown(StoredPrompt),
    /// No prompt is shown.
    Over,
}

/// The first line: the state before the events that follow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct JournalState {
    pub(super) record: RunRecord,
    /// The number of the next event.
    pub(super) next: i64,
    /// The cursor behind the output of all events.
    #[serde(default)]
    pub(super) cursor: u64,
    /// The last event that each hub has.
    #[serde(default)]
    pub(super) acks: BTreeMap<String, i64>,
    /// The ids of inputs that took effect, the oldest first.
    #[serde(default)]
    pub(super) inputs: VecDeque<String>,
    /// The exit code, once the run has ended.
    #[serde(default)]
    pub(super) ended: Option<i64>,
    /// Bytes of output of events that were dropped.
    #[serde(default)]
    pub(super) lost_bytes: u64,
    /// The prompt on the screen.
    #[serde(default)]
    pub(super) prompt: Option<StoredPrompt>,
}

impl JournalState {
    pub(super) fn new(record: RunRecord) -> JournalState {
        JournalState {
            record,
            next: 1,
            cursor: 0,
            acks: BTreeMap::new(),
            inputs: VecDeque::new(),
            ended: None,
            lost_bytes: 0,
            prompt: None,
        }
    }
}

/// One line; which members it has says what it is.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct JournalLine {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) base: Option<JournalState>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) seq: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) ts: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "type")]
    pub(super) kind: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) data: Option<Box<RawValue>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) out: Option<OutputRange>,
    /// The exit code, with the event that ends the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) exit: Option<i64>,
    /// What changes about the prompt, with the event that reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) prompt: Option<PromptChange>,
    /// The id of an input that takes effect now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) input: Option<String>,
    /// A hub, and the last event that it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) ack: Option<(String, i64)>,
    /// The numbers before this one are taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) next: Option<i64>,
}

/// The whole lines of a text with their start and end; stops at the first one that cannot be parsed.
pub(super) fn split(text: &[u8]) -> impl Iterator<Item = (u64, JournalLine, u64)> + '_ {
    let mut at = 0;
    std::iter::from_fn(move || {
        let rest = text.get(at..)?;
        let length = rest.iter().position(|byte| *byte == b'\n')?;
        let line = serde_json::from_slice(rest.get(..length)?).ok()?;
        let start = at;
        at += length + 1;
        Some((start as u64, line, at as u64))
    })
}
