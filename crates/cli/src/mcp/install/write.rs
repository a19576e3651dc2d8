//! Reads a configuration and replaces it atomically.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// The contents of a file; `None` if it does not exist.
pub(super) fn read(file: &Path) -> Result<Option<String>, Failure> {
    match fs::read(file) {
        Ok(bytes) => match String::from_utf8(bytes) {
            Ok(text) => Ok(Some(text)),
            Err(_) => Err(Failure::new(format!("cannot read {}: it is not UTF-8", file.display()))),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Failure::new(format!("cannot read {}: {error}", file.display()))),
    }
}

/// Replaces a file atomically. A symbolic link stays, and its target is replaced.
pub(super) fn replace(file: &Path, text: &str) -> Result<(), Failure> {
    replace_by_rename(file, text)
        .map_err(|error| Failure::new(format!("cannot write {}: {error}", file.display())))
}

fn replace_by_rename(file: &Path, text: &str) -> io::Result<()> {
    let real = fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
    let dir = real.parent().ok_or_else(|| io::Error::other("it has no parent directory"))?;
    fs::create_dir_all(dir)?;
    let draft = draft(&real)?;
    let written = (|| {
        // Such files may contain keys: a new one is private.
        let mut made = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
        made.write_all(text.as_bytes())?;
        if let Ok(old) = fs::metadata(&real) {
            made.set_permissions(old.permissions())?;
        }
        made.sync_all()?;
        fs::rename(&draft, &real)
    })();
    if written.is_err() {
        // The temporary file may not exist.
        fs::remove_file(&draft).ok();
    }
    written
}

fn draft(real: &Path) -> io::Result<PathBuf> {
    let name = real.file_name().ok_or_else(|| io::Error::other("it has no file name"))?.to_string_lossy();
    Ok(real.with_file_name(format!(".{name}.rex-{}", std::process::id())))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn a_file_is_replaced_through_its_link_and_keeps_its_mode() {
        let dir = tempfile::tempdir().unwrap();
        let (real, link) = (dir.path().join("real"), dir.path().join("link"));
        fs::write(&real, "old").unwrap();
        fs::set_permissions(&real, fs::Permissions::from_mode(0o640)).unwrap();
        symlink(&real, &link).unwrap();
        replace(&link, "new").unwrap();
        assert!(link.is_symlink());
        assert_eq!(fs::read_to_string(&real).unwrap(), "new");
        assert_eq!(fs::metadata(&real).unwrap().permissions().mode() & 0o777, 0o640);
        replace(&dir.path().join("a/b"), "made").unwrap();
        assert_eq!(read(&dir.path().join("a/b")).unwrap().as_deref(), Some("made"));
        assert_eq!(read(&dir.path().join("none")).unwrap(), None);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 3, "no temporary file is left");
    }
}
