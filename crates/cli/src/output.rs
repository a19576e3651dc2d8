//! Output: results on stdout, everything else on stderr, colours only on a terminal.

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use anstyle::{AnsiColor, Style};
use serde::Serialize;

use crate::escape;
use crate::failure::Failure;

const ERROR: Style = AnsiColor::Red.on_default().bold();
const HINT: Style = AnsiColor::Cyan.on_default();

/// Said after a kill whose result is incomplete.
pub const INCOMPLETE_KILL: &str =
    "processes that the target cannot track may still be running (no cgroups; see `rexd doctor`)";

/// Prints one line of JSON on stdout.
pub fn json_line(value: &impl Serialize) -> Result<(), Failure> {
    let mut line =
        serde_json::to_vec(value).map_err(|error| Failure::new(format!("cannot encode JSON: {error}")))?;
    line.push(b'\n');
    write_json(&line)
}

/// Writes lines of JSON to stdout.
pub fn write_json(lines: &[u8]) -> Result<(), Failure> {
    match (io::stdout().is_terminal(), std::str::from_utf8(lines)) {
        // The line ends of the lines themselves stay.
        (true, Ok(text)) => {
            let escaped = text.lines().map(|line| format!("{}\n", escape::json(line))).collect::<String>();
            write_out(escaped.as_bytes())
        }
        _ => write_out(lines),
    }
}

/// Writes bytes to stdout as they are: the output of commands and the contents of files. If the reader has closed the
/// pipe, `rex` exits quietly, like other filters.
pub fn write_out(bytes: &[u8]) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(bytes).and_then(|()| stdout.flush()).map_err(write_error)
}

/// Prints text on stdout, escaped on a terminal.
pub fn print(text: &str) -> Result<(), Failure> {
    match io::stdout().is_terminal() {
        true => write_out(escape::text(text).as_bytes()),
        false => write_out(text.as_bytes()),
    }
}

/// Prints a line of text on stdout, escaped on a terminal.
pub fn line(text: impl std::fmt::Display) -> Result<(), Failure> {
    print(&format!("{text}\n"))
}

/// Prints a styled line of text on stdout, escaped.
pub fn styled_line(style: Style, text: &str) -> Result<(), Failure> {
    write_out(format!("{style}{}{style:#}\n", escape::line(text)).as_bytes())
}

/// A name from a target, for a line of a list: unchanged in a pipe, escaped on a terminal.
pub fn name(text: &str) -> Cow<'_, str> {
    match io::stdout().is_terminal() {
        true => escape::line(text),
        false => Cow::Borrowed(text),
    }
}

/// Text for stderr, escaped on a terminal. Further lines are indented, so that text from a target cannot look like a
/// message of `rex`.
fn message(text: &str) -> String {
    let indented = text.trim_end().replace('\n', "\n  ");
    match io::stderr().is_terminal() {
        true => escape::text(&indented).into_owned(),
        false => indented,
    }
}

/// The failure for output that could not be written.
pub fn write_error(error: io::Error) -> Failure {
    // 128 + SIGPIPE, the status of a program that writes to a closed pipe.
    let status = if error.kind() == io::ErrorKind::BrokenPipe { 141 } else { 255 };
    Failure::new(format!("cannot write output: {error}")).status(status)
}

/// Prints a note for people on stderr.
pub fn note(text: impl std::fmt::Display) {
    // If stderr is closed, there is nowhere to report it.
    let end = crate::terminal::line_end();
    write!(io::stderr().lock(), "rex: {}{end}", message(&text.to_string())).ok();
}

/// Prints a failure as JSON on stderr.
pub fn json_failure(failure: &Failure) {
    let line = failure.to_json().to_string();
    // If stderr is closed, there is nowhere to report it.
    writeln!(io::stderr().lock(), "{}", escape::json(&line)).ok();
}

/// Draws a line on the terminal behind stderr, over the one drawn before.
pub fn draw_line(line: &str) {
    let mut stderr = io::stderr().lock();
    // If stderr is closed, there is nowhere to report it.
    write!(stderr, "\r\x1b[2K{}", escape::line(line)).and_then(|()| stderr.flush()).ok();
}

/// Prints a hint on stderr.
pub fn hint(text: &str) {
    // If stderr is closed, there is nowhere to report it.
    writeln!(io::stderr().lock(), "hint: {}", message(text)).ok();
}

/// Ends a drawn line, so that the next output is below it.
pub fn end_line() {
    // If stderr is closed, there is nowhere to report it.
    writeln!(io::stderr().lock()).ok();
}

/// Prints the failure and its hint on stderr; returns the exit status.
pub fn report(failure: &Failure, wants_json: bool) -> ExitCode {
    if failure.status == 141 {
        return ExitCode::from(failure.status);
    }
    if wants_json {
        json_failure(failure);
        return ExitCode::from(failure.status);
    }
    let (error, hint) = match io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none() {
        true => (ERROR, HINT),
        false => (Style::new(), Style::new()),
    };
    let mut lines = format!("{error}rex:{error:#} {}\n", message(&failure.message));
    if let Some(text) = &failure.hint {
        lines.push_str(&format!("{hint}hint:{hint:#} {}\n", message(text)));
    }
    // If stderr is closed, there is nowhere to report it.
    io::stderr().lock().write_all(lines.as_bytes()).ok();
    ExitCode::from(failure.status)
}
