//! The screen of a run: a terminal model that its output is applied to, the prompt on it, and a copy on disk.
//!
//! The copy is written with every MiB of output, on a resize and at the end. A restarted host therefore applies little of
//! the log again, and an ended run has a screen even if its log is gone.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use engine::files::Durability;
use engine::process::{Cursor, TerminalSize, TerminalState};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;
use wire::hub::v1::RunScreenResult;

use super::journal::{RunJournal, StoredPrompt};
use crate::core::state::replace_private_file;
use crate::core::terminal::{Evidence, Prompt, PromptDetector, PromptMark, TerminalModel, hides_input};
use crate::keeper::StoredOutput;

/// Output after which the copy on disk is written again.
const COPY_EVERY: u64 = 1024 * 1024;
/// Output that is applied at once when the model is built from the log.
const READ_BYTES: u64 = 64 * 1024;

/// Answers to queries that wait to be typed; further queries are not answered.
const MAX_REPLY_BYTES: usize = 4096;

/// The screen of a run that has not ended. Its memory is bounded by the size of the terminal.
#[derive(Debug)]
pub(super) struct RunScreen {
    model: TerminalModel,
    detector: PromptDetector,
    /// The last event that the model contains.
    seq: i64,
    /// The cursor behind the output that the model contains.
    cursor: u64,
    last_output: Instant,
    /// The menu that the last observations have found, and since when.
    menu: Option<(String, Instant)>,
    /// Answers to queries of the program that no viewer's terminal has given yet, and the time of the first query.
    replies: Vec<u8>,
    asked_at: Option<Instant>,
    file: PathBuf,
    /// The cursor of the copy on disk.
    copied: u64,
}

/// The copy of a screen on disk.
#[derive(Debug, Serialize, Deserialize)]
struct ScreenCopy {
    cursor: u64,
    seq: i64,
    cols: u16,
    rows: u16,
    text: String,
}

/// What an observation of the screen has found.
#[derive(Debug, Default)]
pub(super) struct Observation {
    /// A prompt that is to be reported.
    pub(super) new: Option<Prompt>,
    /// Whether the prompt that was reported before is not shown any more.
    pub(super) is_over: bool,
}

impl RunScreen {
    /// The file with the copy of a run's screen.
    pub(super) fn file_of(dir: &Path, run_id: &str) -> Option<PathBuf> {
        RunJournal::file_of(dir, run_id).map(|journal| journal.with_extension("screen"))
    }

    /// The empty screen of a new run, with its copy on disk. Blocks.
    pub(super) fn create(file: PathBuf, size: TerminalSize) -> RunScreen {
        let mut screen = RunScreen::empty(file, size, PromptDetector::default());
        screen.copy();
        screen
    }

    fn empty(file: PathBuf, size: TerminalSize, detector: PromptDetector) -> RunScreen {
        let (model, last_output) = (TerminalModel::new(size), Instant::now());
        let (replies, asked_at) = (Vec::new(), None);
        let (seq, cursor, copied, menu) = (0, 0, 0, None);
        RunScreen { model, detector, seq, cursor, last_output, menu, replies, asked_at, file, copied }
    }

    /// The screen after all output in a journal: the copy on disk, and the log behind it. Blocks.
    pub(super) fn restore(file: PathBuf, journal: &RunJournal, log: Option<StoredOutput>) -> RunScreen {
        let detector = PromptDetector::restore(journal.prompt().map(mark));
        let copy = ScreenCopy::read(&file).unwrap_or_else(|_missing| ScreenCopy::default());
        let mut screen = RunScreen::empty(file, TerminalSize { cols: copy.cols, rows: copy.rows }, detector);
        screen.model.feed(copy.text.as_bytes());
        (screen.cursor, screen.copied) = (copy.cursor, copy.cursor);
        screen.seq = journal.last();
        if let Some(mut log) = log {
            screen.feed_log(&mut log, journal.cursor());
        }
        // What was asked before the restart was answered, or its program has stopped waiting.
        screen.model.take_replies();
        screen
    }

    /// Applies the log up to a cursor; a part that was dropped is skipped.
    fn feed_log(&mut self, log: &mut StoredOutput, end: u64) {
        while self.cursor < end {
            let to = (self.cursor + READ_BYTES).min(end);
            if let Some(bytes) = log.read(Cursor(self.cursor), Cursor(to)) {
                self.model.feed(&bytes);
            }
            self.cursor = to;
        }
    }

    /// Applies the output of an event. Blocks if the copy on disk is due.
    pub(super) fn feed(&mut self, seq: i64, end: u64, bytes: &[u8]) {
        self.model.feed(bytes);
        let mut replies = self.model.take_replies();
        if self.replies.len() + replies.len() <= MAX_REPLY_BYTES {
            self.replies.append(&mut replies);
        }
        self.asked_at = self.asked_at.or_else(|| (!self.replies.is_empty()).then(Instant::now));
        (self.seq, self.cursor, self.last_output) = (seq, end, Instant::now());
        if self.cursor - self.copied >= COPY_EVERY && self.model.is_between_sequences() {
            self.copy();
        }
    }

    /// Changes the size. Blocks.
    pub(super) fn resize(&mut self, size: TerminalSize) {
        if size != self.model.size() {
            self.model.resize(size);
            if self.model.is_between_sequences() {
                self.copy();
            }
        }
    }

    /// Writes the copy on disk. A copy that cannot be written only makes the next start longer. Blocks.
    pub(super) fn copy(&mut self) {
        let RunScreenResult { seq, cols, rows, text } = self.rendered();
        let copy = ScreenCopy { cursor: self.cursor, seq, cols, rows, text };
        let written = serde_json::to_vec(&copy)
            .map_err(io::Error::from)
            .and_then(|text| replace_private_file(&self.file, &text, Durability::Relaxed));
        match written {
            Ok(()) => self.copied = self.cursor,
            Err(error) => tracing::warn!(%error, "cannot write {}", self.file.display()),
        }
    }

    /// The screen for a viewer.
    pub(super) fn rendered(&self) -> RunScreenResult {
        let screen = self.model.screen();
        RunScreenResult { seq: self.seq, cols: screen.size.cols, rows: screen.size.rows, text: screen.text }
    }

    /// Since when a query of the program has no answer.
    pub(super) fn asked_at(&self) -> Option<Instant> {
        self.asked_at
    }

    /// Takes the answers to the queries of the program.
    pub(super) fn take_replies(&mut self) -> Vec<u8> {
        self.asked_at = None;
        std::mem::take(&mut self.replies)
    }

    /// The time since the last output.
    pub(super) fn idle(&self) -> Duration {
        self.last_output.elapsed()
    }

    /// Looks for a prompt. `state` was examined when output had paused for `idle`.
    pub(super) fn observe(&mut self, state: Option<TerminalState>, idle: Duration) -> Observation {
        let had_one = self.detector.mark().is_some();
        let idle = idle.max(self.stillness(state));
        let new = self.detector.observe(&self.model, Evidence { idle, state, position: self.cursor });
        Observation { is_over: had_one && (new.is_some() || self.detector.mark().is_none()), new }
    }

    /// How long the menu on the screen has not changed; agents animate a title or a mark beside it.
    fn stillness(&mut self, state: Option<TerminalState>) -> Duration {
        let shown = self.detector.unanswered_menu(&self.model, state);
        if shown.as_ref() != self.menu.as_ref().map(|(menu, _)| menu) {
            self.menu = shown.map(|menu| (menu, Instant::now()));
        }
        self.menu.as_ref().map_or(Duration::ZERO, |(_, since)| since.elapsed())
    }

    /// The reported prompt with the keys that are valid now; `None` if it is gone.
    pub(super) fn current(&self, state: Option<TerminalState>) -> Option<Prompt> {
        self.detector.current(&self.model, state)
    }

    /// Whether what is typed now must not be stored.
    pub(super) fn hides_input(&self, state: Option<TerminalState>) -> bool {
        hides_input(&self.model, state)
    }

    /// Notes input, and returns when a prompt was answered by it.
    pub(super) fn note_input(&mut self, text: &str) -> Option<u64> {
        self.detector.note_input(text.as_bytes(), self.cursor).then_some(self.cursor)
    }

    /// Notes that the prompt was answered, and returns when.
    pub(super) fn note_answer(&mut self) -> u64 {
        self.detector.note_answer(self.cursor);
        self.cursor
    }

    /// The prompt is reported again if it is still shown.
    pub(super) fn forget_prompt(&mut self) {
        self.detector.forget();
    }
}

impl ScreenCopy {
    fn read(file: &Path) -> io::Result<ScreenCopy> {
        Ok(serde_json::from_slice(&std::fs::read(file)?)?)
    }
}

impl Default for ScreenCopy {
    fn default() -> ScreenCopy {
        ScreenCopy { cursor: 0, seq: 0, cols: 80, rows: 24, text: String::new() }
    }
}

/// The last screen of a run that has ended; `None` if it has none. Blocks.
pub(super) fn ended_screen(file: &Path) -> Option<RunScreenResult> {
    let ScreenCopy { seq, cols, rows, text, .. } = ScreenCopy::read(file).ok()?;
    Some(RunScreenResult { seq, cols, rows, text })
}

fn mark(prompt: &StoredPrompt) -> PromptMark {
    PromptMark {
        identity: prompt.identity.clone(),
        takes_keys: prompt.takes_keys,
        answered_at: prompt.answered_at,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_screen_is_copied_now_and_then_and_continued_from_its_copy() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("run-1.screen");
        let size = TerminalSize { cols: 20, rows: 5 };
        let mut screen = RunScreen::create(file.clone(), size);
        assert_eq!(ended_screen(&file).unwrap().seq, 0);
        let line = "a line of output\r\n".repeat(1000);
        for seq in 1..=60 {
            screen.feed(seq, seq as u64 * line.len() as u64, line.as_bytes());
        }
        let copied = ended_screen(&file).unwrap();
        assert!(copied.seq > 50 && copied.seq < 60, "{}", copied.seq);
        screen.feed(61, 2_000_000, b"\x1b[2J\x1b[H\x1b[1mtitle\x1b[");
        assert!(ended_screen(&file).unwrap().seq < 61, "not within an escape sequence");
        screen.resize(TerminalSize { cols: 30, rows: 6 });
        screen.feed(62, 2_000_009, b"0m\r\ntext");
        screen.copy();
        let copied = ended_screen(&file).unwrap();
        assert_eq!((copied.seq, copied.cols, copied.rows), (62, 30, 6));
        assert_eq!(copied, screen.rendered());
        let mut again = TerminalModel::new(TerminalSize { cols: 30, rows: 6 });
        again.feed(copied.text.as_bytes());
        assert_eq!(again.rows(), screen.model.rows());
        let text: Vec<String> = again.rows().into_iter().filter(|row| !row.is_empty()).collect();
        assert_eq!(text, ["title", "text"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_menu_is_found_beside_an_animation_and_not_again_while_its_answer_is_handled() {
        let dir = tempfile::tempdir().unwrap();
        let size = TerminalSize { cols: 40, rows: 10 };
        let mut screen = RunScreen::create(dir.path().join("run-1.screen"), size);
        let wait = Some(engine::process::TerminalWait::Poll);
        let state = TerminalState { size, echoes: false, is_canonical: false, wait };
        screen.feed(1, 1, "\x1b[?25l\r\nRun it?\r\n❯ 1. Yes\r\n  2. No\r\n".as_bytes());
        let mut found = Vec::new();
        for tick in 0..8 {
            screen.feed(2 + tick, 2 + tick as u64, format!("\x1b]0;{tick}\x07").as_bytes());
            tokio::time::advance(Duration::from_millis(600)).await;
            let idle = screen.idle().min(Duration::from_millis(100));
            found.push(screen.observe(Some(state), idle).new.is_some());
            if found.last() == Some(&true) {
                screen.note_answer();
            }
        }
        assert_eq!(found, [false, false, true, false, false, false, false, false]);
        screen.feed(10, 20, b"\x1b[H\x1b[Jrunning");
        tokio::time::advance(Duration::from_millis(600)).await;
        assert!(screen.observe(Some(state), screen.idle()).is_over);
    }
}
