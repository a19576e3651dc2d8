//! The registered users, in memory and in `users.json`.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use engine::files::Durability;
use serde_json::Value;
use wire::stringd::v0_1::{User, UserItem};

use crate::core::state::{private_dir_builder, replace_private_file};

/// A user as commands see it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RegisteredUser {
    /// Its name.
    pub id: String,
    /// Its home directory, absolute.
    pub home: PathBuf,
    /// Directories beside the home that workspace mode allows.
    pub allowed_paths: Vec<PathBuf>,
}

impl RegisteredUser {
    /// Where workspace mode allows access.
    pub(super) fn workspace(&self) -> Vec<PathBuf> {
        std::iter::once(&self.home).chain(&self.allowed_paths).cloned().collect()
    }
}

/// A user to register.
#[derive(Debug, Clone)]
pub(super) struct Registration {
    pub(super) id: String,
    pub(super) home: String,
    /// `None` keeps what is registered.
    pub(super) allowed_paths: Option<Vec<String>>,
}

/// How a registration changed the users.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Registered {
    /// The user is new.
    Created,
    /// The user was known, with the same home and paths.
    Unchanged,
    /// The user was known, and its topics are those of another home.
    Moved,
}

/// Every registered user, in the order of registration.
#[derive(Debug)]
pub(super) struct Users {
    file: PathBuf,
    durability: Durability,
    known: Mutex<Vec<UserEntry>>,
}

/// An entry of the file, read once. What is no user is kept as it is.
#[derive(Debug)]
struct UserEntry {
    value: Value,
    user: Option<(User, Arc<RegisteredUser>)>,
}

impl UserEntry {
    fn new(value: Value) -> UserEntry {
        let user: Option<User> = serde_json::from_value(value.clone()).ok();
        let registered = |user: User| {
            let registered = RegisteredUser {
                id: user.id.clone(),
                home: PathBuf::from(&user.home),
                allowed_paths: user.allowed_paths.iter().map(PathBuf::from).collect(),
            };
            (user, Arc::new(registered))
        };
        UserEntry { value, user: user.map(registered) }
    }

    fn is_of(&self, id: &str) -> bool {
        self.user.as_ref().is_some_and(|(user, _)| user.id == id)
    }
}

impl Users {
    /// Reads the users of an earlier daemon. A missing file has none, and one without JSON is kept aside; one that cannot
    /// be read is an error, because the next change would replace it. Blocks.
    pub(super) fn load(dir: &Path, durability: Durability) -> io::Result<Users> {
        private_dir_builder().recursive(true).create(dir)?;
        let file = dir.join("users.json");
        let known: Vec<Value> = match std::fs::read(&file) {
            Ok(text) => serde_json::from_slice(&text).unwrap_or_else(|error| {
                let aside = dir.join("users.json.corrupt");
                tracing::warn!(%error, "{} cannot be read; moved to {}", file.display(), aside.display());
                if let Err(error) = std::fs::rename(&file, &aside) {
                    tracing::warn!(%error, "cannot move it");
                }
                Vec::new()
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => {
                return Err(io::Error::new(error.kind(), format!("cannot read {}: {error}", file.display())));
            }
        };
        let known = known.into_iter().map(UserEntry::new).collect();
        Ok(Users { file, durability, known: Mutex::new(known) })
    }

    /// The file that holds them.
    pub(super) fn file(&self) -> &Path {
        &self.file
    }

    fn known(&self) -> MutexGuard<'_, Vec<UserEntry>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.known().iter().filter(|entry| entry.user.is_some()).count()
    }

    /// All users, as they are listed.
    pub(super) fn list(&self) -> Vec<UserItem> {
        let item = |(user, _): &(User, _)| UserItem {
            id: user.id.clone(),
            home: user.home.clone(),
            allowed_paths: user.allowed_paths.clone(),
            created_at: user.created_at.clone(),
        };
        self.known().iter().filter_map(|entry| entry.user.as_ref()).map(item).collect()
    }

    /// The user with this name.
    pub(super) fn get(&self, id: &str) -> Option<Arc<RegisteredUser>> {
        let known = self.known();
        let entry = known.iter().find(|entry| entry.is_of(id))?;
        entry.user.as_ref().map(|(_, registered)| registered.clone())
    }

    /// Adds or updates a user and stores all of them. Blocks.
    pub(super) fn register(&self, new: &Registration) -> Registered {
        let mut known = self.known();
        let found = known.iter_mut().find_map(|entry| {
            let user = entry.user.as_ref().map(|(user, _)| user).filter(|user| user.id == new.id).cloned()?;
            Some((entry, user))
        });
        let registered = match found {
            Some((entry, mut user)) => {
                let paths = new.allowed_paths.clone().unwrap_or_else(|| user.allowed_paths.clone());
                let is_moved = user.home != new.home || user.allowed_paths != paths;
                (user.home, user.allowed_paths) = (new.home.clone(), paths);
                if let Some(value) = serde_json::to_value(user).ok().filter(|_| is_moved) {
                    *entry = UserEntry::new(value);
                }
                if is_moved { Registered::Moved } else { Registered::Unchanged }
            }
            None => {
                let user = User {
                    id: new.id.clone(),
                    home: new.home.clone(),
                    allowed_paths: new.allowed_paths.clone().unwrap_or_default(),
                    created_at: now(),
                    other: Default::default(),
                };
                known.extend(serde_json::to_value(user).map(UserEntry::new));
                Registered::Created
            }
        };
        if registered != Registered::Unchanged {
            self.store(&known);
        }
        registered
    }

    /// Removes a user; false if there was none. Blocks.
    pub(super) fn remove(&self, id: &str) -> bool {
        let mut known = self.known();
        let before = known.len();
        known.retain(|entry| !entry.is_of(id));
        let is_removed = known.len() < before;
        if is_removed {
            self.store(&known);
        }
        is_removed
    }

    /// Writes the file under the lock, so that the last change is the one on disk. A failure is only logged.
    fn store(&self, known: &[UserEntry]) {
        let values: Vec<&Value> = known.iter().map(|entry| &entry.value).collect();
        let written = serde_json::to_string_pretty(&values)
            .map_err(io::Error::other)
            .and_then(|text| replace_private_file(&self.file, (text + "\n").as_bytes(), self.durability));
        if let Err(error) = written {
            tracing::error!(%error, "cannot write {}", self.file.display());
        }
    }
}

/// Creates a missing home, which would fail every command; the public client creates it itself.
pub(super) fn create_home(home: &Path) {
    if let Err(error) = private_dir_builder().recursive(true).create(home) {
        tracing::debug!(%error, "cannot create {}", home.display());
    }
}

/// The time as the protocol writes it.
pub(super) fn now() -> String {
    let now = jiff::Timestamp::try_from(SystemTime::now()).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    format!("{now:.3}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn registration(id: &str, home: &str) -> Registration {
        Registration { id: id.to_owned(), home: home.to_owned(), allowed_paths: None }
    }

    #[test]
    fn users_survive_a_restart_with_keys_and_entries_of_other_versions() {
        let dir = tempfile::tempdir().unwrap();
        let (home, other) = (dir.path().join("h"), dir.path().join("i"));
        let (home, other) = (home.to_str().unwrap(), other.to_str().unwrap());
        let entry =
            serde_json::json!([{ "id": "a", "home": home, "allowedPaths": [], "createdAt": "x", "k": 1 }, 7]);
        std::fs::write(dir.path().join("users.json"), entry.to_string()).unwrap();
        let users = Users::load(dir.path(), Durability::Relaxed).unwrap();
        assert_eq!(users.register(&registration("a", home)), Registered::Unchanged);
        assert_eq!(users.register(&registration("a", other)), Registered::Moved);
        assert_eq!(users.register(&registration("b", home)), Registered::Created);
        let users = Users::load(dir.path(), Durability::Relaxed).unwrap();
        let ids: Vec<String> = users.list().into_iter().map(|user| user.id).collect();
        assert_eq!(ids, ["a", "b"]);
        let text = std::fs::read_to_string(users.file()).unwrap();
        let stored: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            (&stored[0]["k"], &stored[0]["createdAt"], &stored[1]),
            (&1.into(), &"x".into(), &7.into())
        );
        assert!(text.starts_with("[\n  {\n") && text.ends_with("]\n"), "{text}");
        assert!(users.remove("a") && !users.remove("a"));
        assert_eq!(users.get("a"), None);
    }

    #[test]
    fn a_half_written_file_counts_as_empty_and_is_kept_aside() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("users.json"), "[{\"id\":").unwrap();
        assert_eq!(Users::load(dir.path(), Durability::Relaxed).unwrap().len(), 0);
        assert!(dir.path().join("users.json.corrupt").exists());
    }

    #[test]
    fn a_file_that_cannot_be_read_is_an_error_and_stays() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("users.json")).unwrap();
        let error = Users::load(dir.path(), Durability::Relaxed).unwrap_err();
        assert!(error.to_string().contains("users.json"), "{error}");
        assert!(dir.path().join("users.json").is_dir());
    }

    #[test]
    fn an_entry_without_a_home_hides_no_user() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("users.json"), r#"[{"id":"a"}]"#).unwrap();
        let users = Users::load(dir.path(), Durability::Relaxed).unwrap();
        assert!(!users.remove("a"), "it is no user");
        assert_eq!(users.register(&registration("a", "/h")), Registered::Created);
        assert_eq!(users.register(&registration("a", "/h")), Registered::Unchanged);
        let found = users.get("a").unwrap();
        assert_eq!((found.home.as_path(), users.len()), (Path::new("/h"), 1));
        assert!(Arc::ptr_eq(&found, &users.get("a").unwrap()), "an entry is read once");
        assert!(users.remove("a"));
        let text = std::fs::read_to_string(users.file()).unwrap();
        let stored: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(stored, serde_json::json!([{ "id": "a" }]));
    }

    #[test]
    fn times_have_milliseconds() {
        let now = now();
        assert_eq!((now.len(), &now[19..20], &now[23..]), (24, ".", "Z"), "{now}");
    }
}
