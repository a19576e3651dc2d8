//! One run: its journal, its screen, its process while that runs, and the task that turns output into events.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use engine::Error;
use engine::process::{ExitStatus, Item, LogReader, Process, Signal, TerminalSize};
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, timeout, timeout_at};
use wire::hub::v1::{RunExited, RunLost, RunScreenResult, kind};

use super::input::{InputCommand, MAX_INPUTS_WAITING, TypedKeys};
use super::journal::{EventContent, NewEvent, OutputRange, RunJournal, RunRecord};
use super::output::{MAX_EVENT_BYTES, PendingOutput};
use super::prompts::PromptWatch;
use super::recent::RecentOutput;
use super::runs::RunContext;
use super::screen::{RunScreen, ended_screen};

/// How long output is collected before it becomes an event.
const COLLECT: Duration = Duration::from_millis(15);
/// The same for output soon after input, which may be its echo.
const COLLECT_ECHO: Duration = Duration::from_millis(1);
/// How long output counts as the echo of an input.
const ECHO_WINDOW: Duration = Duration::from_millis(100);
/// How long an incomplete character waits for its rest.
const CHARACTER_WAIT: Duration = Duration::from_millis(50);
/// How long the exit waits for the event of an input that is being written.
const INPUT_WAIT: Duration = Duration::from_secs(5);

/// One run. Its journal and its screen are the only state that other tasks change.
#[derive(Debug)]
pub(crate) struct Run {
    /// What it is.
    pub(super) record: RunRecord,
    journal: Mutex<RunJournal>,
    recent: Mutex<RecentOutput>,
    /// The process, while this daemon is attached to it.
    process: Mutex<Option<Process>>,
    screen: Mutex<Option<RunScreen>>,
    /// The copy of its screen.
    screen_file: Option<PathBuf>,
    pub(super) inputs: mpsc::Sender<InputCommand>,
    /// Keys without an event; locked while an input is written, so that its event comes before the exit that it causes.
    pub(super) typed: tokio::sync::Mutex<Option<TypedKeys>>,
    /// Notified when an input was written, because its program may show a prompt without further output.
    pub(super) has_typed: Notify,
    /// When an input was written.
    typed_at: Mutex<Option<Instant>>,
    pub(super) context: RunContext,
}

impl Run {
    /// A run and its inputs, which [`Run::write_inputs`] handles.
    pub(super) fn new(
        journal: RunJournal,
        screen_file: Option<PathBuf>,
        context: RunContext,
    ) -> (Arc<Run>, mpsc::Receiver<InputCommand>) {
        let (inputs, commands) = mpsc::channel(MAX_INPUTS_WAITING);
        let run = Run {
            record: journal.record().clone(),
            journal: Mutex::new(journal),
            recent: Mutex::default(),
            process: Mutex::default(),
            screen: Mutex::default(),
            screen_file,
            inputs,
            typed: tokio::sync::Mutex::default(),
            has_typed: Notify::new(),
            typed_at: Mutex::default(),
            context,
        };
        (Arc::new(run), commands)
    }

    /// The journal, for a short moment. Its functions block.
    pub(super) fn journal(&self) -> MutexGuard<'_, RunJournal> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The model of its screen, for a short moment; `None` without a terminal, and after its end.
    pub(super) fn screen(&self) -> MutexGuard<'_, Option<RunScreen>> {
        self.screen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to model the screen. Blocks.
    pub(super) fn open_screen(&self, open: impl FnOnce(PathBuf) -> RunScreen) {
        let file = self.screen_file.clone().filter(|_| self.record.has_terminal);
        *self.screen() = file.map(open);
    }

    /// The screen for a viewer, also after the end; `None` without a terminal. Blocks.
    pub(super) fn rendered_screen(&self) -> Option<RunScreenResult> {
        let rendered = self.screen().as_ref().map(RunScreen::rendered);
        rendered.or_else(|| ended_screen(self.screen_file.as_deref()?))
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
    pub(super) fn running(&self) -> Result<Process, Error> {
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

    /// Appends an event of a request once, whichever daemon tries to. Its line in the journal says that it was.
    pub(super) async fn append_once(
        self: &Arc<Run>,
        kind: &'static str,
        request_id: &str,
        data: &(impl Serialize + Sync),
    ) {
        let Ok(data) = to_raw_value(data) else {
            return tracing::error!(kind, "an event cannot be encoded");
        };
        let (run, id) = (self.clone(), request_id.to_owned());
        // Fails only while the runtime ends.
        tokio::task::spawn_blocking(move || run.append_encoded_once(kind, &id, data)).await.ok();
    }

    /// The same for encoded data. Blocks.
    pub(super) fn append_encoded_once(&self, kind: &'static str, request_id: &str, data: Box<RawValue>) {
        // No id of an input begins with this character.
        let key = format!("\0{kind} {request_id}");
        self.journal().append_once(&key, &now(), EventContent::Data { kind, data });
        self.context.changed.notify();
    }

    async fn append_with(
        self: &Arc<Run>,
        kind: &'static str,
        data: &(impl Serialize + Sync),
        exit: Option<i64>,
    ) -> i64 {
        self.append_all(new_event(kind, data).map(|event| NewEvent { exit, ..event }).into_iter().collect())
            .await
    }

    /// Appends events with one write.
    pub(super) async fn append_all(self: &Arc<Run>, events: Vec<NewEvent>) -> i64 {
        let (run, ts) = (self.clone(), now());
        self.change(move || run.journal().append(&ts, events)).await.unwrap_or(0)
    }

    /// Changes the journal on a worker thread, and wakes the connections to the hubs.
    async fn change<T: Send + 'static>(&self, change: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        // Fails only while the runtime ends.
        let changed = tokio::task::spawn_blocking(change).await.ok();
        self.context.changed.notify();
        changed
    }

    /// Turns the log of the process into events until its end, or until this daemon detaches.
    pub(super) async fn follow(self: Arc<Run>, mut reader: LogReader) {
        reader.ignore_exit();
        let (mut pending, mut watch) = (PendingOutput::default(), PromptWatch::default());
        loop {
            let item = match pending.is_empty() {
                true => self.watch(&mut reader, &mut watch).await,
                false => self.collect(&mut reader, &mut pending).await,
            };
            let Some(item) = item else { continue };
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
                    self.end_prompt().await;
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
        let wait = match pending.is_part_of_character() {
            true => CHARACTER_WAIT,
            false if self.may_be_echo() => COLLECT_ECHO,
            false => COLLECT,
        };
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

    /// Notes that an input is written: its echo is sent at once.
    pub(super) fn note_typing(&self) {
        *self.typed_at.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    fn may_be_echo(&self) -> bool {
        let typed_at = *self.typed_at.lock().unwrap_or_else(PoisonError::into_inner);
        typed_at.is_some_and(|at| at.elapsed() < ECHO_WINDOW)
    }

    /// Writes pending output as events.
    async fn flush(self: &Arc<Run>, pending: &mut PendingOutput, takes_all: bool) {
        while let Some((range, bytes)) = pending.take(takes_all) {
            self.recent.lock().unwrap_or_else(PoisonError::into_inner).push(range, bytes.clone());
            let (run, ts) = (self.clone(), now());
            let append = move || {
                let seq = run.journal().append(&ts, vec![EventContent::Output(range).into()]);
                if let Some(screen) = &mut *run.screen() {
                    screen.feed(seq, range.to, &bytes);
                }
            };
            self.change(append).await;
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
                    journal.append(&now(), vec![EventContent::Data { kind: kind::RUN_LOST, data }.into()]);
                }
                Err(error) => tracing::error!(%error, "an event cannot be encoded"),
            }
        };
        self.change(append).await;
    }

    /// Appends the end of the run. From then on its screen is the copy on disk.
    pub(super) async fn append_exit(self: &Arc<Run>, exit: ExitStatus) {
        let (exit_code, signal) = match exit {
            ExitStatus::Code(code) => (i64::from(code), None),
            ExitStatus::Signal(signal) => (128 + i64::from(signal.number()), Some(signal.to_string())),
        };
        let run = self.clone();
        let copy = move || {
            if let Some(mut screen) = run.screen().take() {
                screen.copy();
            }
        };
        self.change(copy).await;
        self.append_with(kind::RUN_EXITED, &RunExited { exit_code, signal }, Some(exit_code)).await;
        self.journal().close();
    }

    /// Frees the copy of output in memory, once the run has ended: events that a hub does not have yet are read from the log.
    pub(super) fn release_output(&self) {
        if self.is_over() {
            *self.recent.lock().unwrap_or_else(PoisonError::into_inner) = RecentOutput::default();
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
    pub(super) async fn resize(self: &Arc<Run>, size: TerminalSize) -> Result<(), Error> {
        self.running()?.resize(size).await?;
        let run = self.clone();
        let resize = move || run.screen().as_mut().map(|screen| screen.resize(size));
        // Fails only while the runtime ends.
        tokio::task::spawn_blocking(resize).await.ok();
        Ok(())
    }
}

/// An event with its data.
pub(super) fn new_event(kind: &'static str, data: &impl Serialize) -> Option<NewEvent> {
    match to_raw_value(data) {
        Ok(data) => Some(EventContent::Data { kind, data }.into()),
        Err(error) => {
            tracing::error!(%error, kind, "an event cannot be encoded");
            None
        }
    }
}

/// The time of an event.
pub(super) fn now() -> String {
    format!("{:.9}", jiff::Timestamp::now())
}
