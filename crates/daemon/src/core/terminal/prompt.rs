//! Finds out whether a program in a terminal waits for a person, and for what.
//!
//! Three kinds of evidence are combined: the screen around the cursor, the time since the last output, and the state of the
//! terminal (echo, line mode, and what the kernel shows about the foreground processes). No chunk of output is searched:
//! a line of a log that looks like a question is none, because its program does not read. See
//! docs/decisions/0021-prompts-from-the-screen.md.

use std::time::Duration;

use engine::process::{TerminalState, TerminalWait};

use super::TerminalModel;
use super::menu::Menu;
use super::question::{asks_for_secret, is_field_mark, looks_like_prompt, yes_no};
use super::rows::{ScreenRows, normalize};

/// How long output must have paused if a process is blocked in a read of the terminal: 100 ms.
pub const IDLE_WHILE_READING: Duration = Duration::from_millis(100);

/// How long output must have paused if a process waits for several events, or if the kernel does not show what it waits
/// for: 1,200 ms, more than the pause between two frames of an animation or two ticks of a clock.
pub const IDLE_WHILE_POLLING: Duration = Duration::from_millis(1200);

/// Characters of the text of a prompt: 2,000; the beginning is cut.
const MAX_TEXT_CHARS: usize = 2000;
/// Characters of a label: 200; the rest is cut.
const MAX_LABEL_CHARS: usize = 200;
/// Lines above a question that belong to it.
const CONTEXT_LINES: usize = 2;

/// What a program waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PromptKind {
    /// A yes or a no.
    Permission,
    /// One of several options.
    Choice,
    /// Text, also a command at the prompt of a shell.
    Prompt,
    /// The program reads its terminal; the screen does not show what it expects.
    Unknown,
}

/// A prompt that waits for a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    /// What is expected.
    pub kind: PromptKind,
    /// The relevant lines of the screen, without escape sequences.
    pub text: String,
    /// The options of a menu.
    pub options: Vec<PromptOption>,
    /// What to type for yes; only for a permission.
    pub approve_text: Option<String>,
    /// What to type for no; only for a permission.
    pub deny_text: Option<String>,
    /// Whether the typed text is shown; false for a secret. `None` if it is not known.
    pub echoes: Option<bool>,
    /// Identifies the prompt, for [`PromptDetector::restore`].
    pub mark: PromptMark,
}

/// One option of a menu.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptOption {
    /// The text on the screen.
    pub label: String,
    /// What to type to select it. In a menu with arrows this depends on the highlighted option, so it is valid for the
    /// screen that was observed: use [`PromptDetector::current`] before typing it later.
    pub text: String,
}

/// The identity of a prompt that was found, to be stored with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptMark {
    /// The normalised text of the prompt.
    pub identity: String,
    /// Whether a single key answers it, as in most menus; otherwise only the end of a line does.
    pub takes_keys: bool,
    /// The end of the log when the prompt was answered.
    pub answered_at: Option<u64>,
}

/// The evidence beside the screen.
#[derive(Debug, Clone, Copy)]
pub struct Evidence {
    /// The time since the last output, or since the prompt is shown without a change.
    pub idle: Duration,
    /// The state of the terminal, examined after the last output; `None` if it cannot be examined.
    pub state: Option<TerminalState>,
    /// The end of the log that the model was fed with.
    pub position: u64,
}

/// Reports each prompt once.
#[derive(Debug, Default)]
pub struct PromptDetector {
    last: Option<PromptMark>,
}

impl PromptDetector {
    /// Continues after a restart, with the mark of the last reported prompt.
    pub fn restore(last: Option<PromptMark>) -> PromptDetector {
        PromptDetector { last }
    }

    /// Reports the prompt on the screen if it was not reported before. A redraw, a resize, a moved highlight and text typed
    /// into a field leave a prompt the same; an answer that the program reacted to, or another screen, does not.
    pub fn observe(&mut self, model: &TerminalModel, evidence: Evidence) -> Option<Prompt> {
        let found = recognize(model, evidence.state);
        if let Some(last) = &self.last
            && !found.as_ref().is_some_and(|found| found.is(last))
            && evidence.idle >= IDLE_WHILE_READING
        {
            self.last = None;
        }
        let prompt = found.filter(|_| is_waiting(evidence))?;
        if let Some(last) = &self.last {
            // The same prompt again, after an answer and a reaction to it.
            let is_repeated = last.answered_at.is_some_and(|answered| evidence.position > answered);
            if !is_repeated {
                return None;
            }
        }
        self.last = Some(prompt.mark.clone());
        Some(prompt)
    }

    /// The last reported prompt as the screen shows it now, with the keys that are valid now; `None` if it is gone.
    pub fn current(&self, model: &TerminalModel, state: Option<TerminalState>) -> Option<Prompt> {
        let last = self.last.as_ref()?;
        recognize(model, state).filter(|found| found.is(last))
    }

    /// The identity of the menu on the screen that waits for an answer. A menu that stays the same for a while is waited for,
    /// even if the program animates another part of the screen; an answered one may stay until the program reacts.
    pub fn unanswered_menu(&self, model: &TerminalModel, state: Option<TerminalState>) -> Option<String> {
        let is_answered = self.last.as_ref().is_some_and(|last| last.answered_at.is_some());
        let found = recognize(model, state).filter(|found| !is_answered && !found.options.is_empty())?;
        Some(found.mark.identity)
    }

    /// Notes input that was typed when the log ended at `position`; returns whether it may be an answer. The same prompt is
    /// reported again once the program has reacted to an answer; keys that only move a highlight or fill a field are none.
    pub fn note_input(&mut self, bytes: &[u8], position: u64) -> bool {
        let is_answer = self.last.as_ref().is_some_and(|last| is_answer(bytes, last.takes_keys));
        if is_answer {
            self.note_answer(position);
        }
        is_answer
    }

    /// Notes that the prompt was answered when the log ended at `position`.
    pub fn note_answer(&mut self, position: u64) {
        if let Some(last) = &mut self.last {
            last.answered_at = Some(position);
        }
    }

    /// Forgets the last prompt, so that it is reported again if it is still shown.
    pub fn forget(&mut self) {
        self.last = None;
    }

    /// The mark of the last reported prompt, to be stored.
    pub fn mark(&self) -> Option<&PromptMark> {
        self.last.as_ref()
    }
}

impl Prompt {
    /// Whether this is the prompt of a mark, perhaps with text typed into its field.
    fn is(&self, mark: &PromptMark) -> bool {
        let (own, other) = (&self.mark.identity, &mark.identity);
        own == other || (self.options.is_empty() && own.starts_with(other.as_str()))
    }
}

/// Whether what is typed now is hidden from the screen because it is a secret: the terminal delivers lines without showing
/// them, or the program draws its own input and the line at the cursor asks for a secret.
pub fn hides_input(model: &TerminalModel, state: Option<TerminalState>) -> bool {
    let asks = || asks_for_secret(&ScreenRows::of(model).line_at_cursor().1);
    match state {
        Some(state) if state.echoes => false,
        Some(state) => state.is_canonical || asks(),
        None => asks(),
    }
}

/// Whether input may answer a prompt: more than arrows, tabs and text without an end.
fn is_answer(bytes: &[u8], takes_keys: bool) -> bool {
    let ends_line = |byte: &u8| matches!(byte, b'\r' | b'\n' | 3 | 4);
    bytes.iter().any(ends_line) || (takes_keys && bytes.len() == 1 && bytes != b"\t")
}

fn is_waiting(evidence: Evidence) -> bool {
    let asks_for_secret = evidence.state.is_some_and(|state| !state.echoes && state.is_canonical);
    match evidence.state.map(|state| state.wait) {
        Some(Some(TerminalWait::Read)) => evidence.idle >= IDLE_WHILE_READING,
        Some(Some(TerminalWait::Elsewhere)) => false,
        // A program that turned the echo off and keeps the line mode asks for a secret, even if it is hidden as `sudo` is.
        Some(None) if asks_for_secret => evidence.idle >= IDLE_WHILE_READING,
        Some(Some(TerminalWait::Poll) | None) | None => evidence.idle >= IDLE_WHILE_POLLING,
    }
}

/// The prompt that the screen shows, whether or not a program waits.
fn recognize(model: &TerminalModel, state: Option<TerminalState>) -> Option<Prompt> {
    let screen = ScreenRows::of(model);
    let is_line_mode = state.is_some_and(|state| state.is_canonical);
    let hides = state.is_some_and(|state| !state.echoes && state.is_canonical);
    match Menu::find(&screen, is_line_mode).filter(|_| !hides) {
        Some(menu) => Some(menu_prompt(&screen, &menu)),
        None => line_prompt(&screen, state),
    }
}

fn menu_prompt(screen: &ScreenRows, menu: &Menu) -> Prompt {
    let decision = menu.approving().zip(menu.denying());
    let cut = |label: &str| label.chars().take(MAX_LABEL_CHARS).collect::<String>();
    let options: Vec<PromptOption> = menu
        .entries
        .iter()
        .map(|entry| PromptOption { label: cut(&entry.label), text: entry.keys.clone() })
        .collect();
    let mut text = menu.question.clone();
    if menu.is_typed {
        text = format!("{text}\n{}", screen.line_at_cursor().1.trim());
    }
    let text = shorten(text.trim());
    let labels: Vec<&str> = options.iter().map(|option| option.label.as_str()).collect();
    let identity = normalize(&format!("{text} {}", labels.join(" ")));
    Prompt {
        kind: if decision.is_some() { PromptKind::Permission } else { PromptKind::Choice },
        approve_text: decision.map(|(yes, _)| yes.keys.clone()),
        deny_text: decision.map(|(_, no)| no.keys.clone()),
        text,
        options,
        echoes: Some(true),
        mark: PromptMark { identity, takes_keys: !menu.is_typed, answered_at: None },
    }
}

/// A prompt at the cursor without a menu.
fn line_prompt(screen: &ScreenRows, state: Option<TerminalState>) -> Option<Prompt> {
    let (first, line) = screen.line_at_cursor();
    let above: Vec<String> = (0..first).rev().map(|row| screen.content(row)).take(CONTEXT_LINES).collect();
    let question = yes_no(&line);
    let end = line_end(screen, state);
    let kind = match state {
        // The terminal delivers lines: the next read returns this one.
        Some(state) if state.is_canonical => line_kind(&line, state),
        _ => key_kind(screen, &line, state),
    }?;
    let decision = question.filter(|_| kind == PromptKind::Prompt);
    let kind = if decision.is_some() { PromptKind::Permission } else { kind };
    let context = match kind {
        PromptKind::Permission | PromptKind::Unknown => above.as_slice(),
        PromptKind::Choice | PromptKind::Prompt => &[],
    };
    let context = context.iter().rev().filter(|row| !row.is_empty()).cloned();
    let lines: Vec<String> = context.chain([line.trim().to_owned()]).filter(|row| !row.is_empty()).collect();
    let before = above.first().map(String::as_str).unwrap_or_default();
    let hides = state.map(|state| !state.echoes && (state.is_canonical || asks_for_secret(&line)));
    Some(Prompt {
        kind,
        text: shorten(&lines.join("\n")),
        options: Vec::new(),
        approve_text: decision.as_ref().map(|answers| format!("{}{end}", answers.yes)),
        deny_text: decision.as_ref().map(|answers| format!("{}{end}", answers.no)),
        echoes: hides.map(|hides| !hides),
        mark: PromptMark {
            identity: format!("{}\n{}", normalize(before), normalize(&line)),
            takes_keys: end.is_empty(),
            answered_at: None,
        },
    })
}

/// What a program that reads lines expects. Without kernel evidence, only a line that looks like a prompt is one.
fn line_kind(line: &str, state: TerminalState) -> Option<PromptKind> {
    let is_shown = state.wait.is_some() || !state.echoes;
    match line.trim().is_empty() {
        true => is_shown.then_some(PromptKind::Unknown),
        false if is_shown || looks_like_prompt(line) => Some(PromptKind::Prompt),
        false => None,
    }
}

/// What a program that reads single keys expects: `None` for one that merely accepts commands, such as a pager, an editor
/// or a monitor.
fn key_kind(screen: &ScreenRows, line: &str, state: Option<TerminalState>) -> Option<PromptKind> {
    if is_field_mark(line) {
        return Some(PromptKind::Prompt);
    }
    let row = screen.row(screen.cursor_row)?;
    let is_at_end = row.text(screen.cursor_col, usize::MAX).trim().is_empty();
    // Pagers write their status inverse.
    let is_status = row.content_style().is_some_and(|style| !style.is_plain());
    let is_question = yes_no(line).is_some();
    let reads = state.is_some_and(|state| state.wait == Some(TerminalWait::Read));
    let is_full_screen = screen.is_alternate || screen.is_cursor_hidden;
    let is_prompt = match is_full_screen {
        // An editor shows any text; only a question in front of the cursor of a program that blocks is one.
        true => is_question && reads,
        false => looks_like_prompt(line),
    };
    (is_at_end && !is_status && is_prompt).then_some(PromptKind::Prompt)
}

/// What ends an answer: a newline in line mode, Return for a program that edits its line itself, nothing for one that reads a
/// single key.
fn line_end(screen: &ScreenRows, state: Option<TerminalState>) -> &'static str {
    match state {
        None => "\n",
        Some(state) if state.is_canonical => "\n",
        Some(state) if screen.has_bracketed_paste || state.wait != Some(TerminalWait::Read) => "\r",
        Some(_) => "",
    }
}

/// The last characters of a text that is too long.
fn shorten(text: &str) -> String {
    let count = text.chars().count();
    text.chars().skip(count.saturating_sub(MAX_TEXT_CHARS)).collect()
}
