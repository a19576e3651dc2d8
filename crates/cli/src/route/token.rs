//! Reads the token file of the chosen target, and of no other.

use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use client::Target;
use client::target::BearerToken;

use super::decide::{Credential, Decision};
use super::{Choice, Paths};
use crate::failure::Failure;
use crate::hub::logins::{self, HubToken};

/// The maximum size of a token file.
const SIZE_LIMIT: u64 = 16 * 1024;

/// Adds the token to the choice, or the stored sign-in to a hub.
pub(super) fn admit(decision: Decision, paths: &Paths) -> Result<Choice, Failure> {
    let Decision { mut choice, token } = decision;
    let token = match token {
        None => return Ok(choice),
        Some(Credential::Token(token)) => HubToken::Own(token),
        Some(Credential::File(file)) => {
            let (token, warning) = read(&file)?;
            choice.warnings.extend(warning);
            HubToken::Own(token)
        }
        Some(Credential::SignIn(fallback)) => HubToken::SignIn(fallback),
    };
    match (&mut choice.target, token) {
        (Target::Hub(target), token) => logins::add_sign_in(target, token, paths)?,
        (Target::Url(url) | Target::ExecServer(url), HubToken::Own(token)) => url.token = Some(token),
        (Target::Url(_) | Target::ExecServer(_), HubToken::SignIn(_)) => {}
        (Target::Local(_) | Target::Ssh(_) | Target::Unix(_), _) => {}
    }
    Ok(choice)
}

/// Reads a token file; also returns a warning if others can read it.
fn read(file: &Path) -> Result<(BearerToken, Option<String>), Failure> {
    let wrong = |problem: &dyn std::fmt::Display| {
        Failure::new(format!("cannot read the token file {}: {problem}", file.display()))
            .hint("write the token of the daemon to it, on one line, with mode 600")
    };
    let opened = std::fs::File::open(file).map_err(|error| wrong(&error))?;
    let about = opened.metadata().map_err(|error| wrong(&error))?;
    let mut text = String::new();
    opened.take(SIZE_LIMIT).read_to_string(&mut text).map_err(|error| wrong(&error))?;
    let token = text.lines().next().unwrap_or_default().trim();
    if token.is_empty() {
        return Err(wrong(&"the file is empty"));
    }
    let is_open = about.mode() & 0o077 != 0;
    let warning = is_open
        .then(|| format!("other users can read the token file {0}: run `chmod 600 {0}`", file.display()));
    Ok((BearerToken(token.to_owned()), warning))
}
