//! The terminal we sit at: raw while something there has it, and as it was afterwards.

use std::os::fd::BorrowedFd;

use client::TerminalSize;
use rustix::termios::{OptionalActions, Termios, isatty, tcgetattr, tcgetwinsize, tcsetattr};

use crate::failure::Failure;

/// The size of a terminal that does not tell it.
const USUAL: TerminalSize = TerminalSize { cols: 80, rows: 24 };

/// Our terminal in raw mode; it is put back when this is dropped.
#[derive(Debug)]
pub struct Raw {
    before: Termios,
}

impl Raw {
    /// Makes stdin raw; nothing if it is no terminal.
    pub fn enter() -> Result<Option<Raw>, Failure> {
        let stdin = rustix::stdio::stdin();
        if !isatty(stdin) {
            return Ok(None);
        }
        let before = tcgetattr(stdin).map_err(std::io::Error::from)?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(stdin, OptionalActions::Now, &raw).map_err(std::io::Error::from)?;
        Ok(Some(Raw { before }))
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        // A terminal that is gone needs nothing.
        tcsetattr(rustix::stdio::stdin(), OptionalActions::Drain, &self.before).ok();
    }
}

/// What a program that still runs there may have switched on here: the other screen, mouse, paste marks, a hidden
/// cursor. Whoever leaves it gets the plain screen back.
const PLAIN_SCREEN: &[u8] =
    b"\x1b[?1049l\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?2004l\x1b[?1l\x1b>\x1b[?25h\x1b[0m\r\n";

/// Makes our screen plain again.
pub fn restore_screen() {
    // A terminal that is gone needs nothing.
    crate::output::write_out(PLAIN_SCREEN).ok();
}

/// The size of our terminal, whichever of our streams is one.
pub fn size() -> TerminalSize {
    let told =
        |stream: BorrowedFd<'_>| tcgetwinsize(stream).ok().filter(|size| size.ws_col > 0 && size.ws_row > 0);
    let streams = [rustix::stdio::stdout(), rustix::stdio::stdin(), rustix::stdio::stderr()];
    match streams.into_iter().find_map(told) {
        Some(size) => TerminalSize { cols: size.ws_col, rows: size.ws_row },
        None => USUAL,
    }
}

/// Looks for the escape in what is typed: `~.` at the start of a line leaves, `~~` types one `~`, as with ssh.
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

/// What was typed, without the escape.
#[derive(Debug, PartialEq, Eq)]
pub struct Typed {
    /// What goes to the program.
    pub bytes: Vec<u8>,
    /// Whether the person leaves.
    pub leaves: bool,
}

impl Escape {
    /// Takes what was typed.
    pub fn take(&mut self, typed: &[u8]) -> Typed {
        let mut bytes = Vec::with_capacity(typed.len());
        for &byte in typed {
            self.state = match (self.state, byte) {
                (State::LineStart, b'~') => State::AfterTilde,
                (State::AfterTilde, b'.') => return Typed { bytes, leaves: true },
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
        Typed { bytes, leaves: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_escape_is_seen_at_the_start_of_a_line_only_however_it_is_cut() {
        for (typed, sent, leaves) in [
            ("ls\r~.", "ls\r", true),
            ("~.", "", true),
            ("a~.", "a~.", false),
            ("~~.\r", "~.\r", false),
            ("~x\r~~\r~.", "~x\r~\r", true),
        ] {
            let whole = Escape::default().take(typed.as_bytes());
            assert_eq!((whole.bytes, whole.leaves), (sent.as_bytes().to_vec(), leaves), "{typed}");
            let mut escape = Escape::default();
            let mut bytes = Vec::new();
            let left = typed.bytes().any(|byte| {
                let piece = escape.take(&[byte]);
                bytes.extend(piece.bytes);
                piece.leaves
            });
            assert_eq!((bytes, left), (sent.as_bytes().to_vec(), leaves), "{typed} by the byte");
        }
    }
}
