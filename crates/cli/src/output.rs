//! Output: results on stdout, everything else on stderr, colours only on a terminal.

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use anstyle::{AnsiColor, Style};
use serde::Serialize;

use crate::failure::Failure;

const ERROR: Style = AnsiColor::Red.on_default().bold();
const HINT: Style = AnsiColor::Cyan.on_default();

/// Prints one line of JSON on stdout.
pub fn json_line(value: &impl Serialize) -> Result<(), Failure> {
    let mut line =
        serde_json::to_vec(value).map_err(|error| Failure::new(format!("cannot encode JSON: {error}")))?;
    line.push(b'\n');
    write_out(&line)
}

/// Writes bytes to stdout. If the reader has closed the pipe, `rex` exits quietly, like other filters.
pub fn write_out(bytes: &[u8]) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(bytes).and_then(|()| stdout.flush()).map_err(write_error)
}

/// Prints a line of text on stdout.
pub fn line(text: impl std::fmt::Display) -> Result<(), Failure> {
    write_out(format!("{text}\n").as_bytes())
}

/// A name from a target: unchanged in a pipe, without control characters on a terminal.
pub fn display_name(text: &str) -> String {
    match io::stdout().is_terminal() {
        true => crate::table::sanitize(text),
        false => text.to_owned(),
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
    writeln!(io::stderr().lock(), "rex: {text}").ok();
}

/// Prints a line for programs on stderr.
pub fn stderr_line(text: impl std::fmt::Display) {
    // If stderr is closed, there is nowhere to report it.
    writeln!(io::stderr().lock(), "{text}").ok();
}

/// Draws a line on the terminal behind stderr, over the one drawn before.
pub fn draw_line(line: &str) {
    let mut stderr = io::stderr().lock();
    // If stderr is closed, there is nowhere to report it.
    write!(stderr, "\r\x1b[2K{line}").and_then(|()| stderr.flush()).ok();
}

/// Prints the failure and its hint on stderr; returns the exit status.
pub fn report(failure: &Failure, wants_json: bool) -> ExitCode {
    let mut stderr = io::stderr().lock();
    if failure.status == 141 {
        return ExitCode::from(failure.status);
    }
    let result = match wants_json {
        true => writeln!(stderr, "{}", failure.to_json()),
        false => {
            let (error, hint) = match stderr.is_terminal() && std::env::var_os("NO_COLOR").is_none() {
                true => (ERROR, HINT),
                false => (Style::new(), Style::new()),
            };
            let written = writeln!(stderr, "{error}rex:{error:#} {}", failure.message);
            match &failure.hint {
                Some(text) => written.and_then(|()| writeln!(stderr, "{hint}hint:{hint:#} {text}")),
                None => written,
            }
        }
    };
    // If stderr is closed, there is nowhere to report it.
    result.ok();
    ExitCode::from(failure.status)
}
