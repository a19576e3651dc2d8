//! Prints the results of checks as text and as JSON.

use std::io::{self, Write};

use serde_json::json;

use super::{Check, CheckStatus};

/// Prints one line per check, its advice on the next line, and a summary.
pub(super) fn lines(checks: &[Check], colours: bool, out: &mut dyn Write) -> io::Result<()> {
    let width = checks.iter().map(|check| check.name.len()).max().unwrap_or(0);
    for check in checks {
        let (word, colour) = match check.status {
            CheckStatus::Ok => ("ok  ", "\x1b[32m"),
            CheckStatus::Warn => ("warn", "\x1b[33m"),
            CheckStatus::Fail => ("fail", "\x1b[31m"),
        };
        let (colour, reset) = if colours { (colour, "\x1b[0m") } else { ("", "") };
        writeln!(out, "{colour}{word}{reset}  {:<width$}  {}", check.name, check.found)?;
        if let Some(advice) = &check.advice {
            writeln!(out, "      {:<width$}  -> {advice}", "")?;
        }
    }
    let count = |status| checks.iter().filter(|check| check.status == status).count();
    match (count(CheckStatus::Fail), count(CheckStatus::Warn)) {
        (0, 0) => writeln!(out, "\nrexd is ready."),
        (0, warnings) => writeln!(out, "\nrexd is usable; {warnings} warnings."),
        (failures, _) => writeln!(out, "\nrexd is not usable; {failures} errors."),
    }
}

/// Prints one JSON object on one line.
pub(super) fn json(checks: &[Check], out: &mut dyn Write) -> io::Result<()> {
    let usable = checks.iter().all(|check| check.status != CheckStatus::Fail);
    writeln!(out, "{}", json!({ "usable": usable, "checks": checks }))
}
