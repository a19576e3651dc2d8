//! The own token: made in the state folder when nobody configured one, and taken again the next time.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::secret::{Secret, random_token};
use super::token_file::TokenFile;
use super::{AuthError, Trouble};
use crate::config::Paths;

/// Where the own token lies.
pub fn own_token_file(paths: &Paths) -> Option<PathBuf> {
    paths.state.as_ref().map(|state| state.join("token"))
}

/// Takes the token that is there or makes one. Two daemons that start at once end with the same one.
pub(super) fn make_or_take(path: &Path) -> Result<TokenFile, AuthError> {
    if std::fs::symlink_metadata(path).is_err_and(|error| error.kind() == ErrorKind::NotFound) {
        let unwritable = |source| AuthError::Unwritable { path: path.to_owned(), source };
        let token = random_token().map_err(|error| unwritable(std::io::Error::other(error)))?;
        make(path, &token).map_err(unwritable)?;
    }
    let file = TokenFile::open(path)?;
    match file.digest() {
        Some(_) => Ok(file),
        None => Err(AuthError::File { path: path.to_owned(), trouble: Trouble::Missing }),
    }
}

/// Writes the whole file under another name and then links it into place, so that nobody ever reads half of it;
/// whoever was first has won.
fn make(path: &Path, token: &Secret) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    let unique = random_token().map_err(std::io::Error::other)?;
    let draft = path.with_extension(format!("new-{:.16}", unique.expose()));
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
    let written = writeln!(file, "{}", token.expose()).and_then(|()| file.sync_all());
    let linked = written.and_then(|()| std::fs::hard_link(&draft, path));
    std::fs::remove_file(&draft)?;
    match linked {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        result => result,
    }
}
