//! The model of a terminal: applies the output of a program and shows the screen that a person would see.
//!
//! A model is fed with the log of a process that has a terminal. It returns the screen as escape sequences for a viewer
//! that comes late, and as rows of text, from which [`PromptDetector`] recognises a prompt.

mod charset;
mod menu;
mod prompt;
mod question;
mod replay;
mod rows;
#[cfg(test)]
mod tests;

use std::fmt;
use std::num::NonZero;

use charset::CharsetFilter;
use engine::process::TerminalSize;

pub use prompt::{
    Evidence, IDLE_WHILE_POLLING, IDLE_WHILE_READING, Prompt, PromptDetector, PromptKind, PromptMark,
    PromptOption, hides_input,
};
pub use replay::{RETAINED_BYTES, SCREEN_BYTES, screen_at};

/// Columns of a model: 1,000; a wider terminal is shown in this width.
const MAX_COLS: u16 = 1000;
/// Rows of a model: 500; a higher terminal is shown in this height.
const MAX_ROWS: u16 = 500;
/// Bytes of replies that wait to be taken: 4 KiB; further queries of the program are not answered.
const MAX_REPLY_BYTES: usize = 4096;

/// The screen of one terminal. Its memory is bounded by its size; it keeps no scrollback.
pub struct TerminalModel {
    parser: vt100::Parser<Replies>,
    /// The beginning of a character whose remaining bytes have not arrived: at most 3 bytes.
    partial: Vec<u8>,
    charset: CharsetFilter,
}

/// A screen that can be shown on another terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RenderedScreen {
    /// Columns and rows.
    pub size: TerminalSize,
    /// Escape sequences that reproduce the screen on an empty terminal of this size: text, attributes, cursor, alternate
    /// screen, and the modes of keys, mouse and paste.
    pub text: String,
}

impl TerminalModel {
    /// An empty screen. A side of 0 is 1.
    pub fn new(size: TerminalSize) -> TerminalModel {
        let (rows, cols) = sides(size);
        let parser = vt100::Parser::new_with_callbacks(rows, cols, 0, Replies::default());
        TerminalModel { parser, partial: Vec::new(), charset: CharsetFilter::default() }
    }

    /// Applies output. It may begin and end anywhere, also within a character or an escape sequence.
    pub fn feed(&mut self, bytes: &[u8]) {
        let mut joined = std::mem::take(&mut self.partial);
        let bytes = match joined.is_empty() {
            true => bytes,
            false => {
                joined.extend_from_slice(bytes);
                &joined
            }
        };
        let (mut rest, mut translated) = (bytes, String::new());
        for chunk in bytes.utf8_chunks() {
            translated.clear();
            self.charset.translate(chunk.valid(), &mut translated);
            self.parser.process(translated.as_bytes());
            rest = rest.get(chunk.valid().len() + chunk.invalid().len()..).unwrap_or_default();
            if rest.is_empty() && is_beginning(chunk.invalid()) {
                self.partial = chunk.invalid().to_owned();
            } else {
                self.parser.process(chunk.invalid());
            }
        }
    }

    /// Changes the size, as after a resize of the real terminal.
    pub fn resize(&mut self, size: TerminalSize) {
        let (rows, cols) = sides(size);
        self.parser.screen_mut().set_size(rows, cols);
    }

    /// The columns and rows of the screen.
    pub fn size(&self) -> TerminalSize {
        let (rows, cols) = self.parser.screen().size();
        TerminalSize { cols: cols.get(), rows: rows.get() }
    }

    /// The screen as escape sequences.
    pub fn screen(&self) -> RenderedScreen {
        let screen = self.parser.screen();
        let below = if screen.alternate_screen() { self.below_alternate() } else { String::new() };
        let charset = self.charset.designations();
        RenderedScreen { size: self.size(), text: format!("{below}{}{charset}", screen.state_formatted()) }
    }

    /// The screen that returns when the program leaves the alternate one, and the switch to that.
    fn below_alternate(&self) -> String {
        let (rows, cols) = self.parser.screen().size();
        let mut main = vt100::Parser::new(rows, cols, 0);
        *main.screen_mut() = self.parser.screen().clone();
        main.process(b"\x1b[?47l");
        format!("{}\x1b[0m\x1b[?1049h", main.screen().contents_formatted())
    }

    /// The length of the longest beginning of `bytes` after which the model is between sequences.
    fn complete_length(&self, bytes: &[u8]) -> usize {
        let mut charset = self.charset.clone();
        let (mut at, mut complete) = (0, 0);
        for chunk in bytes.utf8_chunks() {
            for symbol in chunk.valid().chars() {
                charset.advance(symbol);
                at += symbol.len_utf8();
                complete = if charset.is_in_text() { at } else { complete };
            }
            at += chunk.invalid().len();
            let is_partial = at == bytes.len() && is_beginning(chunk.invalid());
            complete = if charset.is_in_text() && !is_partial { at } else { complete };
        }
        complete
    }

    /// Whether the output so far ends between two characters and escape sequences, so that an equal screen can continue.
    pub fn is_between_sequences(&self) -> bool {
        self.partial.is_empty() && self.charset.is_in_text()
    }

    /// The text of each row from the top, without trailing spaces.
    pub fn rows(&self) -> Vec<String> {
        let rows = self.parser.screen().rows(0, self.size().cols);
        rows.map(|row| row.trim_end().to_owned()).collect()
    }

    /// Takes the replies to queries in the output so far: a program may ask its terminal for its kind, its state or the
    /// position of the cursor, and wait for the answer. Type them only if no real terminal answers.
    pub fn take_replies(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.parser.callbacks_mut().bytes)
    }

    fn vt(&self) -> &vt100::Screen {
        self.parser.screen()
    }
}

impl fmt::Debug for TerminalModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TerminalModel").field("size", &self.size()).finish_non_exhaustive()
    }
}

/// Whether these bytes are the beginning of a character.
fn is_beginning(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}

fn sides(size: TerminalSize) -> (NonZero<u16>, NonZero<u16>) {
    let side = |cells: u16, most: u16| NonZero::new(cells.min(most)).unwrap_or(NonZero::<u16>::MIN);
    (side(size.rows, MAX_ROWS), side(size.cols, MAX_COLS))
}

/// Answers the queries that programs send to their terminal, as a terminal of the kind VT220 with colours.
#[derive(Debug, Default)]
struct Replies {
    bytes: Vec<u8>,
}

impl vt100::Callbacks for Replies {
    fn unhandled_csi(
        &mut self,
        screen: &mut vt100::Screen,
        first: Option<u8>,
        _second: Option<u8>,
        params: &[&[u16]],
        command: char,
    ) {
        let param = params.first().and_then(|param| param.first()).copied().unwrap_or(0);
        let reply = match (first, command, param) {
            (None, 'c', 0) => "\x1b[?62;22c".to_owned(),
            (None, 'n', 5) => "\x1b[0n".to_owned(),
            (None, 'n', 6) => {
                let (row, col) = screen.cursor_position();
                let last = screen.size().1.get().saturating_sub(1);
                format!("\x1b[{};{}R", u32::from(row) + 1, u32::from(col.min(last)) + 1)
            }
            _ => return,
        };
        if self.bytes.len() + reply.len() <= MAX_REPLY_BYTES {
            self.bytes.extend_from_slice(reply.as_bytes());
        }
    }
}
