//! Prints the results of checks as text and as JSON.

use std::io::{self, Write};

use serde_json::json;

use super::{Check, CheckStatus};

impl CheckStatus {
    fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Fail => "fail",
        }
    }

    fn colour(self) -> &'static str {
        match self {
            Self::Ok => "\x1b[32m",
            Self::Warn => "\x1b[33m",
            Self::Fail => "\x1b[31m",
        }
    }
}

/// Prints one line per check, its advice on the next line, and a summary.
pub(super) fn lines(checks: &[Check], colours: bool, out: &mut dyn Write) -> io::Result<()> {
    let width = checks.iter().map(|check| check.name.len()).max().unwrap_or(0);
    for check in checks {
        let word = format!("{:<4}", check.status.word());
        let word = if colours { format!("{}{word}\x1b[0m", check.status.colour()) } else { word };
        writeln!(out, "{word}  {:<width$}  {}", check.name, check.found)?;
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
    let checks: Vec<_> = checks
        .iter()
        .map(|check| {
            json!({
                "name": check.name,
                "status": check.status.word(),
                "found": check.found,
                "advice": check.advice,
            })
        })
        .collect();
    writeln!(out, "{}", json!({ "usable": usable, "checks": checks }))
}
