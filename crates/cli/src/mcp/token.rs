//! The token of the HTTP server: from the environment, or kept in a file that only its owner can read.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use crate::failure::Failure;
use crate::output;

const VARIABLE: &str = "REX_MCP_TOKEN";

/// The token. Where it lies is told on stderr if it is not from the environment.
pub(super) fn token() -> Result<String, Failure> {
    if let Some(token) = std::env::var(VARIABLE).ok().filter(|token| !token.is_empty()) {
        return Ok(token);
    }
    let file = file()?;
    let token = kept_in(&file).map_err(|error| {
        Failure::new(format!("the token cannot be kept in {}: {error}", file.display()))
            .hint(format!("set {VARIABLE} to a token of your own"))
    })?;
    output::note(format_args!("the token is in {}", file.display()));
    Ok(token)
}

fn file() -> Result<PathBuf, Failure> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let state = set("XDG_STATE_HOME").or_else(|| set("HOME").map(|home| home.join(".local/state")));
    state.map(|state| state.join("rex/mcp-token")).ok_or_else(|| {
        Failure::new("there is no place for the token: neither XDG_STATE_HOME nor HOME is set")
            .hint(format!("set {VARIABLE} to a token of your own"))
    })
}

/// The token in a file; one is made if there is none.
fn kept_in(file: &Path) -> std::io::Result<String> {
    if let Some(dir) = file.parent() {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    }
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(file) {
        Ok(mut made) => {
            let token = random()?;
            made.write_all(format!("{token}\n").as_bytes())?;
            Ok(token)
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            if fs::metadata(file)?.permissions().mode() & 0o077 != 0 {
                return Err(std::io::Error::other("others may read it: chmod 600 it, or remove it"));
            }
            let token = fs::read_to_string(file)?.trim().to_owned();
            match token.len() < 16 {
                true => Err(std::io::Error::other("what is in it is too short for a token: remove it")),
                false => Ok(token),
            }
        }
        Err(error) => Err(error),
    }
}

fn random() -> std::io::Result<String> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(std::io::Error::other)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_made_once_for_its_owner_alone() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a/b/token");
        let token = kept_in(&file).unwrap();
        assert_eq!(token.len(), 64);
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(kept_in(&file).unwrap(), token);
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(kept_in(&file).is_err());
    }
}
