//! The token of the HTTP server: from the environment, or from a file that only its owner can read.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use link::listen::Secret;

use crate::failure::Failure;
use crate::output;

const VARIABLE: &str = "REX_MCP_TOKEN";

/// The token. Prints the path of its file on stderr, unless it comes from the environment.
pub(super) fn token() -> Result<String, Failure> {
    if let Some(token) = std::env::var(VARIABLE).ok().filter(|token| !token.is_empty()) {
        return Ok(token);
    }
    let file = file()?;
    let token = open_or_create(&file).map_err(|error| {
        Failure::new(format!("token file {}: {error}", file.display()))
            .hint(format!("set {VARIABLE} to a token"))
    })?;
    output::note(format_args!("the token is in {}", file.display()));
    Ok(token)
}

fn file() -> Result<PathBuf, Failure> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let state = set("XDG_STATE_HOME").or_else(|| set("HOME").map(|home| home.join(".local/state")));
    state.map(|state| state.join("rex/mcp-token")).ok_or_else(|| {
        Failure::new("no directory for the token file: neither XDG_STATE_HOME nor HOME is set")
            .hint(format!("set {VARIABLE} to a token"))
    })
}

/// Reads the token from a file, and creates it with a new token if it does not exist.
fn open_or_create(file: &Path) -> std::io::Result<String> {
    if let Some(directory) = file.parent() {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    }
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(file) {
        Ok(mut created) => {
            let token = Secret::random().map_err(std::io::Error::other)?.expose().to_owned();
            created.write_all(format!("{token}\n").as_bytes())?;
            Ok(token)
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            if fs::metadata(file)?.permissions().mode() & 0o077 != 0 {
                return Err(std::io::Error::other(
                    "other users can read it; run chmod 600 on it, or remove it",
                ));
            }
            let token = fs::read_to_string(file)?.trim().to_owned();
            match token.len() < 16 {
                true => {
                    Err(std::io::Error::other("the token is shorter than 16 characters; remove the file"))
                }
                false => Ok(token),
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
        assert_eq!(token.len(), 64);
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(open_or_create(&file).unwrap(), token);
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(open_or_create(&file).is_err());
    }
}
