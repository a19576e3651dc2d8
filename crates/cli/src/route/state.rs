//! State of `rex`: the target of `rex target use`, and the last target of each agent session.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use sha2::{Digest as _, Sha256};

use crate::failure::Failure;
use crate::route::registry::write_atomically;

/// The maximum length of a stored target.
const NAME_LIMIT: u64 = 4096;
/// Session files that are unused for this time are removed.
const SESSION_KEPT: Duration = Duration::from_secs(90 * 24 * 3600);

/// The target that `rex target use` set.
pub(crate) fn used(state: &Path) -> Result<Option<String>, Failure> {
    read(&used_file(state), "`rex target use NAME` sets it again, `rex target use -` clears it")
}

/// Sets the target of `rex target use`; `None` clears it.
pub(crate) fn set_used(state: &Path, name: Option<&str>) -> Result<(), Failure> {
    let file = used_file(state);
    let done = match name {
        Some(name) => write_atomically(&file, format!("{name}\n").as_bytes(), 0o600),
        None => match std::fs::remove_file(&file) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        },
    };
    done.map_err(|error| {
        Failure::new(format!("cannot store the target in {}: {error}", file.display()))
            .hint("set XDG_STATE_HOME to a writable directory, or set REX_TARGET")
    })
}

/// The target that an agent session used last.
pub(crate) fn carried(state: &Path, session: &str) -> Result<Option<String>, Failure> {
    read(&session_file(state, session), "choose the target with -t")
}

/// Stores the target that an agent session used.
pub(crate) fn carry(state: &Path, session: &str, name: &str) -> std::io::Result<()> {
    let file = session_file(state, session);
    if carried(state, session).ok().flatten().as_deref() == Some(name) {
        return Ok(());
    }
    let is_new = !file.exists();
    write_atomically(&file, format!("{name}\n").as_bytes(), 0o600)?;
    if is_new {
        forget_old_sessions(&file);
    }
    Ok(())
}

/// Every conversation has its own session, so unused files are removed when a new one is created.
fn forget_old_sessions(newest: &Path) {
    let Some(Ok(files)) = newest.parent().map(std::fs::read_dir) else { return };
    let now = SystemTime::now();
    for file in files.flatten() {
        let changed = file.metadata().and_then(|about| about.modified());
        let is_old = changed.is_ok_and(|time| now.duration_since(time).is_ok_and(|age| age > SESSION_KEPT));
        if is_old {
            // Another process may have removed it first.
            std::fs::remove_file(file.path()).ok();
        }
    }
}

fn read(file: &Path, hint: &str) -> Result<Option<String>, Failure> {
    let wrong = |problem: &str| {
        Failure::new(format!("cannot read the stored target in {}: {problem}", file.display())).hint(hint)
    };
    let about = match std::fs::metadata(file) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        about => about.map_err(|error| wrong(&error.to_string()))?,
    };
    if about.len() > NAME_LIMIT || !about.is_file() {
        return Err(wrong("not a file with one target name"));
    }
    let text = std::fs::read_to_string(file).map_err(|error| wrong(&error.to_string()))?;
    match text.trim() {
        "" => Err(wrong("the file is empty")),
        name => Ok(Some(name.to_owned())),
    }
}

fn used_file(state: &Path) -> PathBuf {
    state.join("target")
}

/// The session id is arbitrary text, so its hash is the file name.
fn session_file(state: &Path, session: &str) -> PathBuf {
    let hash = Sha256::digest(session.as_bytes());
    state.join("sessions").join(hex::encode(&hash[..16]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stored_target_is_read_back_and_sessions_are_separate() {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("rex");
        assert_eq!(used(&state).unwrap(), None);
        set_used(&state, Some("web")).unwrap();
        set_used(&state, Some("ssh:other")).unwrap();
        assert_eq!(used(&state).unwrap().as_deref(), Some("ssh:other"));
        set_used(&state, None).unwrap();
        set_used(&state, None).unwrap();
        assert_eq!(used(&state).unwrap(), None);

        carry(&state, "../../etc/passwd", "web").unwrap();
        assert_eq!(carried(&state, "../../etc/passwd").unwrap().as_deref(), Some("web"));
        assert_eq!(carried(&state, "another").unwrap(), None);
    }

    #[test]
    fn a_truncated_file_is_an_error_and_selects_no_other_target() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("target"), "\n").unwrap();
        let failure = used(dir.path()).unwrap_err();
        assert!(failure.message.contains("the file is empty") && failure.hint.is_some(), "{failure:?}");
    }

    #[test]
    fn unused_sessions_are_removed_when_a_new_one_is_stored() {
        let dir = tempfile::tempdir().unwrap();
        carry(dir.path(), "old", "web").unwrap();
        carry(dir.path(), "young", "web").unwrap();
        let past = SystemTime::now() - SESSION_KEPT - Duration::from_secs(60);
        std::fs::File::open(session_file(dir.path(), "old")).unwrap().set_modified(past).unwrap();
        carry(dir.path(), "new", "web").unwrap();
        assert_eq!(carried(dir.path(), "old").unwrap(), None);
        assert_eq!(carried(dir.path(), "young").unwrap().as_deref(), Some("web"));
    }
}
