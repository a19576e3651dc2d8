//! What rex remembers: the target of `rex target use`, and what each session of a runtime asked for last.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use sha2::{Digest as _, Sha256};

use crate::failure::Failure;
use crate::route::registry::write_atomically;

/// The longest name of a target that is believed.
const NAME_LIMIT: u64 = 4096;
/// How long a session is remembered that nobody has used.
const SESSION_KEPT: Duration = Duration::from_secs(90 * 24 * 3600);

/// The target of `rex target use`.
pub(crate) fn used(state: &Path) -> Result<Option<String>, Failure> {
    read(&used_file(state), "rex target use NAME   sets it again, `-` for none")
}

/// Sets the target of `rex target use`; nothing takes it back.
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
        Failure::new(format!("cannot remember the target in {}: {error}", file.display()))
            .hint("XDG_STATE_HOME names another folder for it; REX_TARGET works without one")
    })
}

/// What a session asked for last.
pub(crate) fn carried(state: &Path, session: &str) -> Result<Option<String>, Failure> {
    read(&session_file(state, session), "name the target with -t")
}

/// Remembers what a session asked for.
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

/// Sessions come and go with every conversation: what nobody has used for long goes when a new one comes.
fn forget_old_sessions(newest: &Path) {
    let Some(Ok(files)) = newest.parent().map(std::fs::read_dir) else { return };
    let now = SystemTime::now();
    for file in files.flatten() {
        let changed = file.metadata().and_then(|about| about.modified());
        let is_old = changed.is_ok_and(|time| now.duration_since(time).is_ok_and(|age| age > SESSION_KEPT));
        if is_old {
            // Another rex may have been quicker.
            std::fs::remove_file(file.path()).ok();
        }
    }
}

fn read(file: &Path, hint: &str) -> Result<Option<String>, Failure> {
    let wrong = |problem: &str| {
        Failure::new(format!("cannot read the remembered target in {}: {problem}", file.display())).hint(hint)
    };
    let about = match std::fs::metadata(file) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        about => about.map_err(|error| wrong(&error.to_string()))?,
    };
    if about.len() > NAME_LIMIT || !about.is_file() {
        return Err(wrong("it is no file with one name"));
    }
    let text = std::fs::read_to_string(file).map_err(|error| wrong(&error.to_string()))?;
    match text.trim() {
        "" => Err(wrong("it is empty")),
        name => Ok(Some(name.to_owned())),
    }
}

fn used_file(state: &Path) -> PathBuf {
    state.join("target")
}

/// A runtime may call its session anything: only a hash of that becomes a file's name.
fn session_file(state: &Path, session: &str) -> PathBuf {
    let hash = Sha256::digest(session.as_bytes());
    let name: String = hash.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    state.join("sessions").join(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_remembered_is_found_again_and_sessions_do_not_mix() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("rex");
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
    fn a_half_written_memory_is_an_error_and_not_another_target() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("target"), "\n").unwrap();
        let failure = used(folder.path()).unwrap_err();
        assert!(failure.message.contains("it is empty") && failure.hint.is_some(), "{failure:?}");
    }

    #[test]
    fn sessions_that_nobody_uses_are_forgotten_when_a_new_one_comes() {
        let folder = tempfile::tempdir().unwrap();
        carry(folder.path(), "old", "web").unwrap();
        carry(folder.path(), "young", "web").unwrap();
        let past = SystemTime::now() - SESSION_KEPT - Duration::from_secs(60);
        std::fs::File::open(session_file(folder.path(), "old")).unwrap().set_modified(past).unwrap();
        carry(folder.path(), "new", "web").unwrap();
        assert_eq!(carried(folder.path(), "old").unwrap(), None);
        assert_eq!(carried(folder.path(), "young").unwrap().as_deref(), Some("web"));
    }
}
