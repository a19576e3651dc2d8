//! The terminal of `rexd run`: its size, and raw mode while the run has it.

use std::io;

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

/// Columns and rows of the terminal on standard output or input; `None` without one.
pub(super) fn terminal_size() -> Option<(u16, u16)> {
    let size = tcgetwinsize(io::stdout()).or_else(|_| tcgetwinsize(io::stdin())).ok()?;
    (size.ws_col > 0 && size.ws_row > 0).then_some((size.ws_col, size.ws_row))
}

/// Raw mode of the terminal on standard input; dropping this restores it.
pub(super) struct RawMode(Termios);

impl RawMode {
    pub(super) fn enter() -> io::Result<RawMode> {
        let before = tcgetattr(io::stdin())?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(io::stdin(), OptionalActions::Drain, &raw)?;
        Ok(RawMode(before))
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        // A terminal that is gone needs no mode.
        tcsetattr(io::stdin(), OptionalActions::Drain, &self.0).ok();
    }
}
