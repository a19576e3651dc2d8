//! Input of a run: written in the order of arrival, each once, and recorded without secrets.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use engine::Error;
use engine::process::{Process, ProcessId, TerminalState};
use sha2::{Digest as _, Sha256};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use wire::hub::v1::{PermissionDecided, RunInput, kind};
use wire::keeper::{MAX_INPUT_BYTES, MAX_KEY_BYTES};

use super::journal::{NewEvent, PromptChange, StoredPrompt};
use super::run::{Run, new_event};

/// Inputs that wait for the program to read; one more is refused.
pub(super) const MAX_INPUTS_WAITING: usize = 64;
/// The pause in typing after which keys become an event.
const KEYS_PAUSE: Duration = Duration::from_secs(1);
/// Keys in one event.
const MAX_KEYS_BYTES: usize = 4 * 1024;

/// Input for a run.
#[derive(Debug)]
pub(super) struct InputCommand {
    pub(super) purpose: InputPurpose,
    /// What is typed.
    pub(super) text: String,
    pub(super) by: Typist,
    pub(super) done: oneshot::Sender<Result<(), Error>>,
}

/// Why something is typed.
#[derive(Debug)]
pub(super) enum InputPurpose {
    /// Text that takes effect once per id.
    Once(String),
    /// Keys, without an id.
    Keys,
    /// The decision about a prompt.
    Decision(PromptDecision),
    /// The answer of a terminal to a query of the program.
    Reply,
}

/// A decision about the prompt on the screen. Its text replaces that of the prompt, unless it is empty.
#[derive(Debug)]
pub(super) struct PromptDecision {
    pub(super) request_id: String,
    pub(super) is_approved: bool,
    /// The word for it in the event.
    pub(super) word: &'static str,
    pub(super) reason: Option<String>,
}

/// The person or program that types.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Typist {
    pub(super) actor: String,
    /// The user of the hub.
    pub(super) user: Option<String>,
}

/// Keys that were typed and have no event yet.
#[derive(Debug)]
pub(super) struct TypedKeys {
    text: String,
    is_masked: bool,
    by: Typist,
}

impl Run {
    /// Queues input; it is written in the order of arrival. Fails at once if the program has not read much input before.
    pub(super) fn queue_input(&self, input: InputCommand) -> Result<(), Error> {
        self.inputs.try_send(input).map_err(|refused| match refused {
            mpsc::error::TrySendError::Full(_) => Error::LimitReached {
                what: "inputs that wait for the program",
                limit: MAX_INPUTS_WAITING as u64,
            },
            mpsc::error::TrySendError::Closed(_) => Error::Gone,
        })
    }

    /// Writes queued inputs, each once, and their events. Keys become one event per line, or per pause in typing.
    pub(super) async fn write_inputs(self: Arc<Run>, mut inputs: mpsc::Receiver<InputCommand>) {
        loop {
            let pause = if self.typed.lock().await.is_some() { KEYS_PAUSE } else { Duration::MAX };
            let command = match timeout(pause, inputs.recv()).await {
                Ok(Some(command)) => command,
                Ok(None) => return,
                Err(_paused) => {
                    self.append_keys(&mut *self.typed.lock().await).await;
                    continue;
                }
            };
            let InputCommand { purpose, text, by, done } = command;
            let mut typed = self.typed.lock().await;
            let written = match purpose {
                InputPurpose::Keys => self.write_keys(&mut typed, text, by).await,
                InputPurpose::Reply => self.write_reply(text).await,
                InputPurpose::Once(id) => {
                    self.append_keys(&mut typed).await;
                    self.write_once(id, &text, by).await
                }
                InputPurpose::Decision(decision) => {
                    self.append_keys(&mut typed).await;
                    self.write_decision(decision, text, by).await
                }
            };
            drop(typed);
            self.has_typed.notify_one();
            // The requester may have stopped waiting.
            done.send(written).ok();
        }
    }

    async fn write_reply(&self, text: String) -> Result<(), Error> {
        self.running()?.input(Bytes::from(text), false).await.map(drop)
    }

    async fn write_keys(
        self: &Arc<Run>,
        typed: &mut Option<TypedKeys>,
        text: String,
        by: Typist,
    ) -> Result<(), Error> {
        let process = self.running()?;
        let is_masked = self.is_masked(&self.input_state(&process).await);
        if typed.as_ref().is_some_and(|keys| keys.by != by || keys.is_masked != is_masked) {
            self.append_keys(typed).await;
        }
        self.note_reply(&text);
        self.note_typing();
        process.input(Bytes::copy_from_slice(text.as_bytes()), false).await?;
        let is_line = text.contains(['\r', '\n']);
        let change = self.note_typed(&text);
        let keys = typed.get_or_insert_with(|| TypedKeys { text: String::new(), is_masked, by });
        keys.text.push_str(&text);
        if is_line || change.is_some() || keys.text.len() > MAX_KEYS_BYTES {
            self.append_typed(typed, change).await;
        }
        Ok(())
    }

    /// Appends the event of the keys that were typed.
    pub(super) async fn append_keys(self: &Arc<Run>, typed: &mut Option<TypedKeys>) {
        self.append_typed(typed, None).await;
    }

    async fn append_typed(self: &Arc<Run>, typed: &mut Option<TypedKeys>, change: Option<TypedPrompt>) {
        if let Some(TypedKeys { text, is_masked, by }) = typed.take() {
            let input = self.input_event(by, String::new(), (&text, is_masked));
            self.append_input(new_event(kind::RUN_INPUT, &input), change).await;
        }
    }

    /// Writes an input unless its id is known.
    async fn write_once(self: &Arc<Run>, id: String, text: &str, by: Typist) -> Result<(), Error> {
        if self.journal().has_input(&id) {
            return Ok(());
        }
        let process = self.running()?;
        let state = self.input_state(&process).await;
        let is_masked = self.is_masked(&state);
        if !self.type_once(&process, &id, &with_line_end(text, state.unwrap_or_default())).await? {
            return Ok(());
        }
        let change = self.note_typed(text);
        let input = new_event(kind::RUN_INPUT, &self.input_event(by, id.clone(), (text, is_masked)));
        self.append_input(input.map(|event| NewEvent { input: Some(id), ..event }), change).await;
        Ok(())
    }

    /// Types the decision about a prompt, if the prompt still waits for it.
    async fn write_decision(
        self: &Arc<Run>,
        decision: PromptDecision,
        text: String,
        by: Typist,
    ) -> Result<(), Error> {
        let id = decision.request_id;
        let is_pending = |prompt: &&StoredPrompt| prompt.request_id.as_deref() == Some(&*id);
        let Some(prompt) = self.journal().prompt().filter(is_pending).cloned() else {
            return Err(Error::NoSuchApproval(id));
        };
        let process = self.running()?;
        let state = self.terminal_state(&process).await.unwrap_or_default();
        let current = self.screen().as_ref().and_then(|screen| screen.current(state));
        let Some(current) = current else {
            self.end_prompt().await;
            return Err(Error::NoSuchApproval(id));
        };
        let own = if decision.is_approved { current.approve_text } else { current.deny_text };
        let text = Some(text).filter(|text| !text.is_empty()).or(own).unwrap_or_default();
        self.type_once(&process, &id, &with_line_end(&text, state)).await?;
        let answered_at = self.screen().as_mut().map(|screen| screen.note_answer());
        let decided = PermissionDecided {
            request_id: id.clone(),
            decision: decision.word.to_owned(),
            actor: Some(by.actor.clone()),
            user: by.user.clone(),
            reason: decision.reason,
        };
        let change = PromptChange::Shown(StoredPrompt { answered_at, request_id: None, ..prompt });
        let input = new_event(kind::RUN_INPUT, &self.input_event(by, id.clone(), (&text, false)));
        let input = input.map(|event| NewEvent { input: Some(id), prompt: Some(change), ..event });
        self.append_all(new_event(kind::RUN_PERMISSION_DECIDED, &decided).into_iter().chain(input).collect())
            .await;
        Ok(())
    }

    /// Types a text unless its id is known; returns false for a repetition that has its event.
    async fn type_once(self: &Arc<Run>, process: &Process, id: &str, text: &str) -> Result<bool, Error> {
        if let Some(keepers) = self.context.keepers.as_ref().filter(|_| self.record.is_kept)
            && text.len() <= MAX_INPUT_BYTES
        {
            let digest = || hex::encode(Sha256::digest(id));
            let key = if id.len() <= MAX_KEY_BYTES { id.to_owned() } else { digest() };
            let process = ProcessId(self.record.process.clone());
            match keepers.input_once(&process, &key, text.as_bytes()).await {
                // A repetition is one whose event an earlier daemon could not write any more.
                Ok(_written_or_repeated) => return Ok(true),
                // An older keeper: the journal remembers the id before the input is written.
                Err(Error::Unsupported { what: "input with a key", .. }) => {}
                Err(error) => return Err(error),
            }
        }
        let (run, key) = (self.clone(), id.to_owned());
        let remembered = tokio::task::spawn_blocking(move || run.journal().remember_input(&key)).await;
        let failed = |source| Error::File { action: "write", path: "the journal".into(), source };
        if !remembered.map_err(|_stopped| Error::Gone)?.map_err(failed)? {
            return Ok(false);
        }
        process.input(Bytes::copy_from_slice(text.as_bytes()), false).await?;
        Ok(true)
    }

    /// The state of the terminal; `None` if its keeper cannot examine it.
    pub(super) async fn terminal_state(&self, process: &Process) -> Result<Option<TerminalState>, Error> {
        match process.terminal_state().await {
            Ok(state) => Ok(Some(state)),
            Err(Error::Unsupported { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The state of the terminal that input goes to; `None` also without a terminal.
    async fn input_state(&self, process: &Process) -> Result<Option<TerminalState>, Error> {
        if self.record.has_terminal { self.terminal_state(process).await } else { Ok(None) }
    }

    /// Whether what is typed now is a secret. Input whose terminal cannot be examined for the moment counts as one.
    fn is_masked(&self, state: &Result<Option<TerminalState>, Error>) -> bool {
        let hides = |state| self.screen().as_ref().is_some_and(|screen| screen.hides_input(state));
        self.record.has_terminal && state.as_ref().map_or(true, |state| hides(*state))
    }

    fn input_event(&self, by: Typist, input_id: String, (text, masked): (&str, bool)) -> RunInput {
        let stored = |text: String| if masked { String::new() } else { text };
        RunInput {
            actor: by.actor,
            input_id,
            text_redacted: stored(self.context.redaction.text(text)),
            text_sha256: stored(hex::encode(Sha256::digest(text))),
            masked,
            user: by.user,
        }
    }

    /// A viewer's terminal has answered the queries of the program.
    fn note_reply(&self, text: &str) {
        if text.starts_with("\x1b[")
            && let Some(screen) = &mut *self.screen()
        {
            screen.take_replies();
        }
    }

    /// What typed text changes about the prompt on the screen.
    fn note_typed(&self, text: &str) -> Option<TypedPrompt> {
        let prompt = self.journal().prompt().cloned()?;
        let mut screen = self.screen();
        let screen = screen.as_mut()?;
        let answered_at = screen.note_input(text);
        if answered_at.is_none() {
            // Text without an end leaves a prompt as it is, but a hub takes it for the answer to a request.
            prompt.request_id.as_ref()?;
            screen.forget_prompt();
        }
        let change = match answered_at {
            Some(_) => PromptChange::Shown(StoredPrompt { answered_at, request_id: None, ..prompt.clone() }),
            None => PromptChange::Over,
        };
        Some(TypedPrompt { change, settled: prompt.request_id })
    }

    /// Appends the event of an input, and what it changes about the prompt.
    async fn append_input(self: &Arc<Run>, input: Option<NewEvent>, change: Option<TypedPrompt>) {
        let (change, settled) = change.map(|typed| (typed.change, typed.settled)).unzip();
        let mut events: Vec<NewEvent> = input.into_iter().collect();
        events.extend(settled.flatten().and_then(|request_id| {
            let decision = "input".to_owned();
            let decided = PermissionDecided { request_id, decision, actor: None, user: None, reason: None };
            new_event(kind::RUN_PERMISSION_DECIDED, &decided)
        }));
        if let Some(last) = events.last_mut() {
            last.prompt = change;
        }
        self.append_all(events).await;
    }
}

/// A text as a person would type it: outside line mode, the key Return sends a carriage return, and a program that edits its
/// lines itself takes a newline for text.
fn with_line_end(text: &str, state: Option<TerminalState>) -> Cow<'_, str> {
    let is_line_mode = state.is_none_or(|state| state.is_canonical);
    match text.strip_suffix("\r\n").or_else(|| text.strip_suffix('\n')) {
        Some(line) if !is_line_mode => Cow::Owned(format!("{line}\r")),
        _ => Cow::Borrowed(text),
    }
}

/// What typed text changes about a prompt.
#[derive(Debug)]
struct TypedPrompt {
    change: PromptChange,
    /// The request for permission that it settles.
    settled: Option<String>,
}
