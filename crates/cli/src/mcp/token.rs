//! The tokens of the HTTP server: from the environment, or from a file that only its owner can read.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use link::listen::Secret;

use crate::failure::Failure;
use crate::output;

const VARIABLE: &str = "REX_MCP_TOKEN";

/// The tokens, one per caller. Prints the path of their file on stderr, unless they come from the environment.
pub(super) fn tokens() -> Result<Vec<Secret>, Failure> {
    let given = list(&std::env::var(VARIABLE).unwrap_or_default());
    if !given.is_empty() {
        return Ok(given);
    }
    let file = file()?;
    let tokens = open_or_create(&file).map_err(|error| {
        Failure::new(format!("token file {}: {error}", file.display()))
            .hint(format!("set {VARIABLE} to a token"))
    })?;
    output::note(format_args!("the token is in {}", file.display()));
    Ok(tokens)
}

/// The tokens of a text, separated by commas or white space.
fn list(text: &str) -> Vec<Secret> {
    let separates = |character: char| character == ',' || character.is_whitespace();
    text.split(separates).filter(|token| !token.is_empty()).map(Secret::new).collect()
}

fn file() -> Result<PathBuf, Failure> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let state = set("XDG_STATE_HOME").or_else(|| set("HOME").map(|home| home.join(".local/state")));
    state.map(|state| state.join("rex/mcp-token")).ok_or_else(|| {
        Failure::new("no directory for the token file: neither XDG_STATE_HOME nor HOME is set")
            .hint(format!("set {VARIABLE} to a token"))
    })
}

/// Reads the tokens from a file, and creates it with a new token if it does not exist.
fn open_or_create(file: &Path) -> std::io::Result<Vec<Secret>> {
    if let Some(directory) = file.parent() {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    }
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(file) {
        Ok(mut created) => {
            let token = Secret::random().map_err(std::io::Error::other)?;
            created.write_all(format!("{}\n", token.expose()).as_bytes())?;
            Ok(vec![token])
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            if fs::metadata(file)?.permissions().mode() & 0o077 != 0 {
                return Err(std::io::Error::other(
                    "other users can read it; run chmod 600 on it, or remove it",
                ));
            }
            let tokens = list(&fs::read_to_string(file)?);
            match tokens.is_empty() || tokens.iter().any(|token| token.expose().len() < 16) {
                true => Err(std::io::Error::other("a token is shorter than 16 characters; remove the file")),
                false => Ok(tokens),
            }
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_created_once_and_only_its_owner_can_read_it() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("a/b/token");
        let token = open_or_create(&file).unwrap();
        assert_eq!(token.iter().map(|token| token.expose().len()).collect::<Vec<_>>(), [64]);
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(open_or_create(&file).unwrap(), token);
        fs::write(&file, "a-token-of-one-caller\na-token-of-another\n").unwrap();
        assert_eq!(open_or_create(&file).unwrap().len(), 2);
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(open_or_create(&file).is_err());
    }
}
