//! The default token: created in the state directory when none is configured, and reused afterwards.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::token_file::TokenFile;
use super::{AuthError, Secret, TokenFileError};
use crate::config::Paths;

/// The file of the default token.
pub fn own_token_file(paths: &Paths) -> Option<PathBuf> {
    paths.state.as_ref().map(|state| state.join("token"))
}

/// Opens the token file, and creates it if it is missing. Two daemons that start at once end with the same token.
pub(super) fn open_or_create(path: &Path) -> Result<TokenFile, AuthError> {
    if std::fs::symlink_metadata(path).is_err_and(|error| error.kind() == ErrorKind::NotFound) {
        let unwritable = |source| AuthError::Unwritable { path: path.to_owned(), source };
        let token = Secret::random().map_err(|error| unwritable(std::io::Error::other(error)))?;
        create(path, &token).map_err(unwritable)?;
    }
    let file = TokenFile::open(path)?;
    match file.digest() {
        Some(_) => Ok(file),
        None => Err(AuthError::File { path: path.to_owned(), cause: TokenFileError::Missing }),
    }
}

/// Writes the whole file under another name and then links it into place, so that no reader sees half of it. If two
/// daemons do so, the first link stays.
fn create(path: &Path, token: &Secret) -> std::io::Result<()> {
    if let Some(directory) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    }
    let unique = Secret::random().map_err(std::io::Error::other)?;
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
