//! One run: its journal, its process while that runs, and the tasks that turn output and input into events.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use engine::Error;
use engine::process::{ExitStatus, Item, LogReader, Process, Signal, TerminalSize};
use serde::Serialize;
use serde_json::value::to_raw_value;
use sha2::{Digest as _, Sha256};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout, timeout_at};
use wire::hub::v1::{RunExited, RunInput, RunLost, kind};

use super::journal::{EventContent, OutputRange, RunJournal, RunRecord};
use super::output::{MAX_EVENT_BYTES, PendingOutput};
use super::recent::RecentOutput;
use super::redaction::Redaction;
use super::runs::ChangeSignal;

/// How long output is collected before it becomes an event.
const COLLECT: Duration = Duration::from_millis(15);
/// How long an incomplete character waits for its rest.
const CHARACTER_WAIT: Duration = Duration::from_millis(50);
/// Inputs that wait for the program to read; one more is refused.
const MAX_INPUTS_WAITING: usize = 64;

/// The pause in typing after which keys become an event.
const KEYS_PAUSE: Duration = Duration::from_secs(1);
/// How long the exit waits for the event of an input that is being written.
const INPUT_WAIT: Duration = Duration::from_secs(5);
/// Keys in one event.
const MAX_KEYS_BYTES: usize = 4 * 1024;

/// One run. Its journal is the only state that other tasks change.
#[derive(Debug)]
pub(crate) struct Run {
    /// What it is.
    pub(super) record: RunRecord,
    journal: Mutex<RunJournal>,
    recent: Mutex<RecentOutput>,
    /// The process, while this daemon is attached to it.
    process: Mutex<Option<Process>>,
    inputs: mpsc::Sender<InputCommand>,
    /// Keys without an event; locked while an input is written, so that its event comes before the exit that it causes.
    typed: tokio::sync::Mutex<Option<TypedKeys>>,
    changed: ChangeSignal,
    redaction: Arc<Redaction>,
}

/// Keys that were typed and have no event yet.
#[derive(Debug)]
struct TypedKeys {
    text: String,
    /// The actor and the user.
    by: (String, Option<String>),
}

/// Input for a run, in the order of arrival.
#[derive(Debug)]
pub(super) struct InputCommand {
    /// The id under which it takes effect once; keys have none.
    pub(super) input_id: Option<String>,
    /// What is typed.
    pub(super) text: String,
    pub(super) actor: String,
    pub(super) user: Option<String>,
    pub(super) done: oneshot::Sender<Result<(), Error>>,
}

impl Run {
    /// A run and its inputs, which [`Run::write_inputs`] handles.
    pub(super) fn new(
        journal: RunJournal,
        changed: ChangeSignal,
        redaction: Arc<Redaction>,
    ) -> (Arc<Run>, mpsc::Receiver<InputCommand>) {
        let (inputs, commands) = mpsc::channel(MAX_INPUTS_WAITING);
        let run = Run {
            record: journal.record().clone(),
            journal: Mutex::new(journal),
            recent: Mutex::default(),
            process: Mutex::default(),
            inputs,
            typed: tokio::sync::Mutex::default(),
            changed,
            redaction,
        };
        (Arc::new(run), commands)
    }

    /// The journal, for a short moment. Its functions block.
    pub(super) fn journal(&self) -> MutexGuard<'_, RunJournal> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the run has ended.
    pub(super) fn is_over(&self) -> bool {
        self.journal().ended().is_some()
    }

    /// The process, while this daemon is attached to it.
    pub(super) fn process(&self) -> Result<Process, Error> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner).clone().ok_or(Error::Gone)
    }

    /// The process, if the run has not ended.
    fn running(&self) -> Result<Process, Error> {
        // The journal has the end before any hub has it, so that a later request finds it.
        if self.is_over() { Err(Error::Gone) } else { self.process() }
    }

    /// Attaches to the process, or detaches from it.
    pub(super) fn set_process(&self, process: Option<Process>) {
        *self.process.lock().unwrap_or_else(PoisonError::into_inner) = process;
    }

    /// Output that was read a moment ago.
    pub(super) fn recent_output(&self, range: OutputRange) -> Option<Bytes> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner).get(range)
    }

    /// Appends an event to the journal, on a worker thread, and wakes the connections to the hubs.
    pub(super) async fn append(self: &Arc<Run>, kind: &'static str, data: &(impl Serialize + Sync)) -> i64 {
        self.append_with(kind, data, None).await
    }

    async fn append_with(
        self: &Arc<Run>,
        kind: &'static str,
        data: &(impl Serialize + Sync),
        exit: Option<i64>,
    ) -> i64 {
        match to_raw_value(data) {
            Ok(data) => self.append_content(EventContent::Data { kind, data }, exit).await,
            Err(error) => {
                tracing::error!(%error, kind, "an event cannot be encoded");
                self.journal().last()
            }
        }
    }

    async fn append_content(self: &Arc<Run>, content: EventContent, exit: Option<i64>) -> i64 {
        let (run, ts) = (self.clone(), now());
        let appended =
            tokio::task::spawn_blocking(move || run.journal().append(&ts, content, exit)).await.unwrap_or(0);
        self.changed.notify();
        appended
    }

    /// Turns the log of the process into events until its end, or until this daemon detaches.
    pub(super) async fn follow(self: Arc<Run>, mut reader: LogReader) {
        reader.ignore_exit();
        let mut pending = PendingOutput::default();
        loop {
            let item = match pending.is_empty() {
                true => reader.next(MAX_EVENT_BYTES).await,
                false => match self.collect(&mut reader, &mut pending).await {
                    Some(item) => item,
                    None => continue,
                },
            };
            match item {
                Item::Output { stream, bytes, next } => {
                    let start = next.0 - bytes.len() as u64;
                    if !pending.continues(stream, start) {
                        self.flush(&mut pending, true).await;
                    }
                    pending.push(stream, start, &bytes);
                }
                Item::Lost { bytes, .. } => {
                    self.flush(&mut pending, true).await;
                    self.append_lost(bytes).await;
                }
                Item::Closed(closed) => {
                    self.flush(&mut pending, true).await;
                    // A program that is gone takes no input; a keeper that does not respond delays the exit no longer.
                    if let Ok(mut typed) = timeout(INPUT_WAIT, self.typed.lock()).await {
                        self.append_keys(&mut typed).await;
                    }
                    self.append_exit(closed.exit).await;
                    if self.record.is_kept {
                        self.set_process(None);
                    }
                    return;
                }
                Item::Exited { .. } => {}
                // The daemon ends; the next one continues after the last event.
                Item::Disconnected => return,
            }
        }
    }

    /// Waits a moment for more output; then writes what there is. Returns an item that does not belong to it.
    async fn collect(self: &Arc<Run>, reader: &mut LogReader, pending: &mut PendingOutput) -> Option<Item> {
        let wait = if pending.is_part_of_character() { CHARACTER_WAIT } else { COLLECT };
        let deadline = Instant::now() + wait;
        while !pending.is_full() {
            match timeout_at(deadline, reader.next(MAX_EVENT_BYTES)).await {
                Ok(Item::Output { stream, bytes, next })
                    if pending.continues(stream, next.0 - bytes.len() as u64) =>
                {
                    pending.push(stream, next.0 - bytes.len() as u64, &bytes);
                }
                Ok(item) => return Some(item),
                Err(_quiet) => {
                    // A character whose rest has not come by now is no text.
                    let is_late = pending.is_part_of_character() && wait == CHARACTER_WAIT;
                    self.flush(pending, is_late).await;
                    return None;
                }
            }
        }
        self.flush(pending, false).await;
        None
    }

    /// Writes pending output as events.
    async fn flush(self: &Arc<Run>, pending: &mut PendingOutput, takes_all: bool) {
        while let Some((range, bytes)) = pending.take(takes_all) {
            self.recent.lock().unwrap_or_else(PoisonError::into_inner).push(range, bytes);
            self.append_content(EventContent::Output(range), None).await;
        }
    }

    /// Output that was dropped before it became an event: an event of its own.
    pub(super) async fn append_lost(self: &Arc<Run>, bytes: u64) {
        let run = self.clone();
        let append = move || {
            let mut journal = run.journal();
            let seq = journal.last() + 1;
            let lost = RunLost { first_seq: seq, last_seq: seq, bytes };
            match to_raw_value(&lost) {
                Ok(data) => {
                    journal.append(&now(), EventContent::Data { kind: kind::RUN_LOST, data }, None);
                }
                Err(error) => tracing::error!(%error, "an event cannot be encoded"),
            }
        };
        // Fails only while the runtime ends.
        tokio::task::spawn_blocking(append).await.ok();
        self.changed.notify();
    }

    pub(super) async fn append_exit(self: &Arc<Run>, exit: ExitStatus) {
        let (exit_code, signal) = match exit {
            ExitStatus::Code(code) => (i64::from(code), None),
            ExitStatus::Signal(signal) => (128 + i64::from(signal.number()), Some(signal.to_string())),
        };
        self.append_with(kind::RUN_EXITED, &RunExited { exit_code, signal }, Some(exit_code)).await;
    }

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
            let InputCommand { input_id, text, actor, user, done } = command;
            let (by, mut typed) = ((actor, user), self.typed.lock().await);
            if input_id.is_some() || typed.as_ref().is_some_and(|keys| keys.by != by) {
                self.append_keys(&mut typed).await;
            }
            let written = self.write_input(input_id.as_deref(), &text).await;
            let is_written = matches!(written, Ok(true));
            // The requester may have stopped waiting.
            done.send(written.map(drop)).ok();
            match input_id.filter(|_| is_written) {
                Some(id) => {
                    self.append(kind::RUN_INPUT, &self.input_event(by, id, &text)).await;
                }
                None if is_written => {
                    let keys = typed.get_or_insert_with(|| TypedKeys { text: String::new(), by });
                    keys.text.push_str(&text);
                    if keys.text.len() > MAX_KEYS_BYTES || text.contains(['\r', '\n']) {
                        self.append_keys(&mut typed).await;
                    }
                }
                None => {}
            }
        }
    }

    /// Appends the event of the keys that were typed.
    async fn append_keys(self: &Arc<Run>, typed: &mut Option<TypedKeys>) {
        if let Some(TypedKeys { text, by }) = typed.take() {
            self.append(kind::RUN_INPUT, &self.input_event(by, String::new(), &text)).await;
        }
    }

    /// Writes an input unless its id is known; returns whether it did. A keeper that remembers ids replaces the journal's
    /// memory here, so that an input whose write was interrupted can be repeated.
    async fn write_input(self: &Arc<Run>, input_id: Option<&str>, text: &str) -> Result<bool, Error> {
        let process = self.running()?;
        if let Some(id) = input_id.map(str::to_owned) {
            let run = self.clone();
            let remembered = tokio::task::spawn_blocking(move || run.journal().remember_input(&id)).await;
            let failed = |source| Error::File { action: "write", path: "the journal".into(), source };
            if !remembered.map_err(|_stopped| Error::Gone)?.map_err(failed)? {
                return Ok(false);
            }
        }
        process.input(Bytes::copy_from_slice(text.as_bytes()), false).await?;
        Ok(true)
    }

    fn input_event(&self, (actor, user): (String, Option<String>), input_id: String, text: &str) -> RunInput {
        RunInput {
            actor,
            input_id,
            text_redacted: self.redaction.text(text),
            text_sha256: hex::encode(Sha256::digest(text)),
            user,
        }
    }

    /// Ends the run, or signals it once.
    pub(super) async fn stop(&self, signal: Signal) -> Result<(), Error> {
        match self.running()?.kill(signal).await {
            // It ended before the outcome arrived.
            Err(Error::Gone) if signal.ends() => Ok(()),
            outcome => outcome.map(drop),
        }
    }

    /// Changes the size of its terminal.
    pub(super) async fn resize(&self, size: TerminalSize) -> Result<(), Error> {
        self.running()?.resize(size).await
    }
}

/// The time of an event.
pub(super) fn now() -> String {
    format!("{:.9}", jiff::Timestamp::now())
}
