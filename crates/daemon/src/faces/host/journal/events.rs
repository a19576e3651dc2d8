//! Events as they are appended to a journal, and as they are read back.

use serde_json::value::RawValue;

use super::lines::{JournalLine, OutputRange, PromptChange};

/// The content of an event.
#[derive(Debug, Clone)]
pub enum EventContent {
    /// An event with its data.
    Data {
        /// The type of the event.
        kind: &'static str,
        /// Its data, encoded.
        data: Box<RawValue>,
    },
    /// Output, which is in the log of the process.
    Output(OutputRange),
}

/// An event to append, and what changes with it.
#[derive(Debug, Clone)]
pub struct NewEvent {
    /// What happened.
    pub content: EventContent,
    /// The exit code, if the event ends the run.
    pub exit: Option<i64>,
    /// The id of the input that took effect.
    pub input: Option<String>,
    /// What changes about the prompt on the screen.
    pub prompt: Option<PromptChange>,
}

impl From<EventContent> for NewEvent {
    fn from(content: EventContent) -> NewEvent {
        NewEvent { content, exit: None, input: None, prompt: None }
    }
}

impl NewEvent {
    pub(super) fn line(&self, seq: i64, ts: &str) -> JournalLine {
        let (kind, data, out) = match &self.content {
            EventContent::Data { kind, data } => (Some((*kind).to_owned()), Some(data.clone()), None),
            EventContent::Output(range) => (None, None, Some(*range)),
        };
        JournalLine {
            seq: Some(seq),
            ts: Some(ts.to_owned()),
            kind,
            data,
            out,
            exit: self.exit,
            prompt: self.prompt.clone(),
            input: self.input.clone(),
            ..JournalLine::default()
        }
    }
}

/// An event as it is read back.
#[derive(Debug, Clone)]
pub struct StoredEvent {
    /// Its number.
    pub seq: i64,
    /// When it happened.
    pub ts: String,
    /// What happened.
    pub content: StoredContent,
}

/// The content of an event that was read back.
#[derive(Debug, Clone)]
pub enum StoredContent {
    /// An event with its data.
    Data {
        /// The type of the event.
        kind: String,
        /// Its data, encoded.
        data: Option<Box<RawValue>>,
    },
    /// Output, which is in the log of the process.
    Output(OutputRange),
}
