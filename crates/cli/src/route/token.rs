//! Tokens: read from their files only for the target that was chosen.

use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use client::Target;
use client::target::BearerToken;

use super::Choice;
use super::decide::{Decision, Proof};
use crate::failure::Failure;

/// No token is longer.
const SIZE_LIMIT: u64 = 16 * 1024;

/// The choice with its token.
pub(super) fn admit(decision: Decision) -> Result<Choice, Failure> {
    let Decision { mut choice, token } = decision;
    let token = match token {
        None => return Ok(choice),
        Some(Proof::Token(token)) => token,
        Some(Proof::File(file)) => {
            let (token, warning) = read(&file)?;
            choice.warnings.extend(warning);
            token
        }
    };
    if let Target::Url(url) | Target::ExecServer(url) = &mut choice.target {
        url.token = Some(token);
    }
    Ok(choice)
}

/// The token in a file, and what is odd about the file.
fn read(file: &Path) -> Result<(BearerToken, Option<String>), Failure> {
    let wrong = |problem: &dyn std::fmt::Display| {
        Failure::new(format!("cannot read the token in {}: {problem}", file.display()))
            .hint("put the token of that daemon there, on one line, readable by you alone")
    };
    let opened = std::fs::File::open(file).map_err(|error| wrong(&error))?;
    let about = opened.metadata().map_err(|error| wrong(&error))?;
    let mut text = String::new();
    opened.take(SIZE_LIMIT).read_to_string(&mut text).map_err(|error| wrong(&error))?;
    let token = text.lines().next().unwrap_or_default().trim();
    if token.is_empty() {
        return Err(wrong(&"it is empty"));
    }
    let is_open = about.mode() & 0o077 != 0;
    let warning = is_open
        .then(|| format!("others on this machine may read the token in {0}: chmod 600 {0}", file.display()));
    Ok((BearerToken(token.to_owned()), warning))
}
