//! The identity of the host: its id and its token, created at the first start.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::core::state::create_private_dir;
use crate::net::auth::Secret;

/// The file in the state directory.
const FILE: &str = "host.json";

/// The id and the token with which the host connects to every hub.
#[derive(Debug, Clone)]
pub struct HostIdentity {
    /// The id.
    pub id: String,
    /// The token.
    pub token: Secret,
}

/// Why there is no identity.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// There is no place for it.
    #[error("there is no state directory: set HOME or XDG_STATE_HOME")]
    NoState,
    /// The file cannot be read, written or parsed.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// An id or token that cannot be sent.
    #[error("the {0} of the host must be printable ASCII without blanks")]
    Invalid(&'static str),
}

#[derive(Serialize, Deserialize)]
struct IdentityFile {
    host_id: String,
    host_token: String,
}

impl HostIdentity {
    /// The identity in the state directory, created if there is none. A given id or token takes precedence; the file is not
    /// changed by it.
    pub fn load(
        state: Option<&Path>,
        id: Option<String>,
        token: Option<Secret>,
    ) -> Result<HostIdentity, IdentityError> {
        let (id, token) = match (id, token) {
            (Some(id), Some(token)) => (id, token),
            (id, token) => {
                let state = state.ok_or(IdentityError::NoState)?;
                let path = state.join(FILE);
                let failed = |source| IdentityError::File { path: path.clone(), source };
                let stored = stored(state, &path).map_err(failed)?;
                (id.unwrap_or(stored.host_id), token.unwrap_or_else(|| Secret::new(stored.host_token)))
            }
        };
        let is_sendable = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
        match (is_sendable(&id), is_sendable(token.expose())) {
            (false, _) => Err(IdentityError::Invalid("id")),
            (_, false) => Err(IdentityError::Invalid("token")),
            _ => Ok(HostIdentity { id, token }),
        }
    }
}

/// The identity in the file. Of two hosts that create it at the same time, one reads that of the other.
fn stored(state: &Path, path: &Path) -> io::Result<IdentityFile> {
    match read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        found => return found,
    }
    create_private_dir(state)?;
    let new =
        IdentityFile { host_id: format!("host-{}", uuid()?), host_token: new_token()?.expose().to_owned() };
    let draft = path.with_extension(format!("draft-{}", std::process::id()));
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
    let written = file
        .write_all(&serde_json::to_vec_pretty(&new)?)
        .and_then(|()| file.sync_data())
        .and_then(|()| std::fs::hard_link(&draft, path));
    // The file has its name, or the error is the one to report.
    let _removed = std::fs::remove_file(&draft);
    match written {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => read(path),
    }
}

fn read(path: &Path) -> io::Result<IdentityFile> {
    serde_json::from_slice(&std::fs::read(path)?).map_err(io::Error::from)
}

fn new_token() -> io::Result<Secret> {
    Secret::random().map_err(|error| io::Error::other(error.to_string()))
}

/// A random UUID, version 4.
pub(super) fn uuid() -> io::Result<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| io::Error::other(error.to_string()))?;
    Ok(to_uuid(bytes))
}

/// Sixteen bytes as the text of a UUID, version 4.
pub(super) fn to_uuid(mut bytes: [u8; 16]) -> String {
    bytes[6] = (bytes[6] & 0x0f) | 0x40;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    let text = hex::encode(bytes);
    let parts = [(0, 8), (8, 12), (12, 16), (16, 20), (20, 32)];
    parts.map(|(from, to)| text.get(from..to).unwrap_or_default()).join("-")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn the_identity_is_created_once_and_only_its_owner_can_read_it() {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("state");
        let first = HostIdentity::load(Some(&state), None, None).unwrap();
        assert!(first.id.starts_with("host-") && first.id.len() == 41, "{}", first.id);
        assert_eq!(first.token.expose().len(), 64);
        let mode = std::fs::metadata(state.join(FILE)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let again = HostIdentity::load(Some(&state), None, None).unwrap();
        assert_eq!((again.id, again.token.expose()), (first.id.clone(), first.token.expose()));
        let named = HostIdentity::load(Some(&state), Some("mine".to_owned()), None).unwrap();
        assert_eq!((named.id.as_str(), named.token.expose()), ("mine", first.token.expose()));
        assert!(!format!("{named:?}").contains(first.token.expose()));
    }

    #[test]
    fn an_id_or_token_that_no_request_can_carry_is_refused() {
        let load =
            |id: &str, token: &str| HostIdentity::load(None, Some(id.to_owned()), Some(Secret::new(token)));
        assert!(matches!(load("a b", "t"), Err(IdentityError::Invalid("id"))));
        assert!(matches!(load("a", "t\r\nx: y"), Err(IdentityError::Invalid("token"))));
        assert!(matches!(HostIdentity::load(None, None, None), Err(IdentityError::NoState)));
    }
}
