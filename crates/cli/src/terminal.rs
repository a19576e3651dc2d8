//! The local terminal: raw mode, its size, and the escape sequence.

use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};

use client::TerminalSize;
use rustix::termios::{OptionalActions, Termios, isatty, tcgetattr, tcgetwinsize, tcsetattr};

use crate::failure::Failure;

/// The size that is used when the terminal does not report one.
const DEFAULT_SIZE: TerminalSize = TerminalSize { cols: 80, rows: 24 };

/// Raw mode of the terminal; dropping it restores the previous mode.
#[derive(Debug)]
pub struct RawMode {
    before: Termios,
}

impl RawMode {
    /// Switches stdin to raw mode; `None` if it is not a terminal.
    pub fn enter() -> Result<Option<RawMode>, Failure> {
        let stdin = rustix::stdio::stdin();
        if !isatty(stdin) {
            return Ok(None);
        }
        let before = tcgetattr(stdin).map_err(std::io::Error::from)?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(stdin, OptionalActions::Now, &raw).map_err(std::io::Error::from)?;
        IS_RAW.store(true, Ordering::Relaxed);
        Ok(Some(RawMode { before }))
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        // A closed terminal needs no restoring.
        tcsetattr(rustix::stdio::stdin(), OptionalActions::Drain, &self.before).ok();
        IS_RAW.store(false, Ordering::Relaxed);
    }
}

/// Whether the terminal is in raw mode.
static IS_RAW: AtomicBool = AtomicBool::new(false);

/// The end of a line on stderr; in raw mode the terminal does not move to the first column by itself.
pub fn line_end() -> &'static str {
    match IS_RAW.load(Ordering::Relaxed) {
        true => "\r\n",
        false => "\n",
    }
}

/// Resets the modes that a program which still runs may have set: alternate screen, mouse, bracketed paste, hidden
/// cursor.
const RESET_SCREEN: &[u8] =
    b"\x1b[?1049l\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?2004l\x1b[?1l\x1b>\x1b[?25h\x1b[0m\r\n";

/// Resets the screen after detaching.
pub fn restore_screen() {
    // A closed terminal needs no restoring.
    crate::output::write_out(RESET_SCREEN).ok();
}

/// The size of the terminal on stdout, stdin or stderr.
pub fn size() -> TerminalSize {
    let reported =
        |stream: BorrowedFd<'_>| tcgetwinsize(stream).ok().filter(|size| size.ws_col > 0 && size.ws_row > 0);
    let streams = [rustix::stdio::stdout(), rustix::stdio::stdin(), rustix::stdio::stderr()];
    match streams.into_iter().find_map(reported) {
        Some(size) => TerminalSize { cols: size.ws_col, rows: size.ws_row },
        None => DEFAULT_SIZE,
    }
}

/// Finds the escape sequence in typed input, as ssh does: `~.` at the start of a line detaches, `~~` sends one `~`.
#[derive(Debug, Default)]
pub struct Escape {
    state: State,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    #[default]
    LineStart,
    AfterTilde,
    Within,
}

/// Typed input without the escape sequence.
#[derive(Debug, PartialEq, Eq)]
pub struct TypedInput {
    /// The bytes for the process.
    pub bytes: Vec<u8>,
    /// Whether `~.` was typed.
    pub detaches: bool,
}

impl Escape {
    /// Processes the next typed bytes.
    pub fn take(&mut self, typed: &[u8]) -> TypedInput {
        let mut bytes = Vec::with_capacity(typed.len());
        for &byte in typed {
            self.state = match (self.state, byte) {
                (State::LineStart, b'~') => State::AfterTilde,
                (State::AfterTilde, b'.') => return TypedInput { bytes, detaches: true },
                (before, byte) => {
                    if before == State::AfterTilde {
                        bytes.push(b'~');
                    }
                    if !(before == State::AfterTilde && byte == b'~') {
                        bytes.push(byte);
                    }
                    match byte {
                        b'\r' | b'\n' => State::LineStart,
                        _ => State::Within,
                    }
                }
            };
        }
        TypedInput { bytes, detaches: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_escape_is_recognised_only_at_the_start_of_a_line_in_any_chunking() {
        for (typed, sent, detaches) in [
            ("ls\r~.", "ls\r", true),
            ("~.", "", true),
            ("a~.", "a~.", false),
            ("~~.\r", "~.\r", false),
            ("~x\r~~\r~.", "~x\r~\r", true),
        ] {
            let whole = Escape::default().take(typed.as_bytes());
            assert_eq!((whole.bytes, whole.detaches), (sent.as_bytes().to_vec(), detaches), "{typed}");
            let mut escape = Escape::default();
            let mut bytes = Vec::new();
            let left = typed.bytes().any(|byte| {
                let piece = escape.take(&[byte]);
                bytes.extend(piece.bytes);
                piece.detaches
            });
            assert_eq!((bytes, left), (sent.as_bytes().to_vec(), detaches), "{typed} by the byte");
        }
    }
}
