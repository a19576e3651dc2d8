//! What people and programs get to see: results on stdout, everything else on stderr, colours only on a terminal.

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use anstyle::{AnsiColor, Style};
use serde::Serialize;

use crate::failure::Failure;

const ERROR: Style = AnsiColor::Red.on_default().bold();
const HINT: Style = AnsiColor::Cyan.on_default();

/// One line of JSON on stdout.
pub fn json_line(value: &impl Serialize) -> Result<(), Failure> {
    let mut line = serde_json::to_vec(value).map_err(|error| Failure::new(format!("no JSON: {error}")))?;
    line.push(b'\n');
    write_out(&line)
}

/// Bytes on stdout. A reader that has gone ends us quietly, as it ends every filter.
pub fn write_out(bytes: &[u8]) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(bytes).and_then(|()| stdout.flush()).map_err(gone)
}

/// A line of text on stdout.
pub fn line(text: impl std::fmt::Display) -> Result<(), Failure> {
    write_out(format!("{text}\n").as_bytes())
}

/// A name from elsewhere: as it is for programs, without anything that a terminal would obey for people.
pub fn name(text: &str) -> String {
    match io::stdout().is_terminal() {
        true => crate::table::plain(text),
        false => text.to_owned(),
    }
}

/// Why output could not be written; who reads it may have gone.
pub fn gone(error: io::Error) -> Failure {
    // 128 and SIGPIPE, as a program ends that writes into a closed pipe.
    let status = if error.kind() == io::ErrorKind::BrokenPipe { 141 } else { 255 };
    Failure::new(format!("cannot write the output: {error}")).status(status)
}

/// A remark on stderr.
pub fn remark(text: impl std::fmt::Display) {
    // Nobody is left to tell if stderr is gone.
    writeln!(io::stderr().lock(), "rex: {text}").ok();
}

/// A line on stderr that programs read.
pub fn complain(text: impl std::fmt::Display) {
    // Nobody is left to tell if stderr is gone.
    writeln!(io::stderr().lock(), "{text}").ok();
}

/// A line on the terminal behind stderr, in place of the one that was drawn before.
pub fn draw(line: &str) {
    let mut stderr = io::stderr().lock();
    // Nobody is left to tell if stderr is gone.
    write!(stderr, "\r\x1b[2K{line}").and_then(|()| stderr.flush()).ok();
}

/// Says what failed and what to do next; the status to end with.
pub fn report(failure: &Failure, wants_json: bool) -> ExitCode {
    let mut stderr = io::stderr().lock();
    if failure.status == 141 {
        return ExitCode::from(failure.status);
    }
    let written = match wants_json {
        true => writeln!(stderr, "{}", failure.to_json()),
        false => {
            let (error, hint) = match stderr.is_terminal() && std::env::var_os("NO_COLOR").is_none() {
                true => (ERROR, HINT),
                false => (Style::new(), Style::new()),
            };
            let said = writeln!(stderr, "{error}rex:{error:#} {}", failure.message);
            match &failure.hint {
                Some(text) => said.and_then(|()| writeln!(stderr, "{hint}next:{hint:#} {text}")),
                None => said,
            }
        }
    };
    // Nobody is left to tell if stderr is gone.
    written.ok();
    ExitCode::from(failure.status)
}
