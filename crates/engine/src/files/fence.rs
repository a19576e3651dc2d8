//! Fence: the guard of a sandbox profile, by the beginnings of real paths.

use std::path::{Path, PathBuf};

use super::guard::{Access, PathGuard};
use super::path::clean;
use crate::Error;

/// Places that may be written, may only be read, or may not be seen, with all that lies beneath them. What is hidden or
/// read-only is so inside a writable place too.
///
/// Each place is held as it was given and as it resolved when the fence was made, as far as it existed then. A part
/// that did not exist yet and is later made as a link is not followed.
#[derive(Debug, Clone, Default)]
pub struct Fence {
    /// None means everywhere.
    writable: Option<Vec<PathBuf>>,
    read_only: Vec<PathBuf>,
    hidden: Vec<PathBuf>,
    rule: String,
}

impl Fence {
    /// A fence that refuses nothing yet. `rule` names it to those it refuses.
    pub fn new(rule: impl Into<String>) -> Self {
        Self { rule: rule.into(), ..Self::default() }
    }

    /// Writing is permitted beneath these places and nowhere else.
    pub fn writable(self, places: &[PathBuf]) -> Self {
        Self { writable: Some(both_spellings(places)), ..self }
    }

    /// These places cannot be written.
    pub fn read_only(self, places: &[PathBuf]) -> Self {
        Self { read_only: both_spellings(places), ..self }
    }

    /// These places can be neither read nor written.
    pub fn hidden(self, places: &[PathBuf]) -> Self {
        Self { hidden: both_spellings(places), ..self }
    }

    fn reason(&self, real: &Path, access: Access) -> Option<&'static str> {
        let within = |places: &[PathBuf]| places.iter().any(|place| real.starts_with(place));
        if within(&self.hidden) {
            return Some("the place is hidden");
        }
        if access == Access::Read {
            return None;
        }
        if within(&self.read_only) {
            return Some("the place is read-only");
        }
        match &self.writable {
            Some(writable) if !within(writable) => Some("the place is outside what may be written"),
            _ => None,
        }
    }
}

impl PathGuard for Fence {
    fn check(&self, real: &Path, access: Access) -> Result<(), Error> {
        let Some(reason) = self.reason(real, access) else { return Ok(()) };
        let (path, rule, reason) = (real.to_owned(), self.rule.clone(), reason.to_owned());
        Err(Error::Guarded { path, access, rule, reason })
    }

    fn refused_beneath(&self, real: &Path, access: Access) -> Option<PathBuf> {
        let read_only = if access == Access::Write { self.read_only.as_slice() } else { &[] };
        self.hidden.iter().chain(read_only).find(|place| place.starts_with(real)).cloned()
    }

    fn needs_every_entry(&self) -> bool {
        false
    }
}

fn both_spellings(places: &[PathBuf]) -> Vec<PathBuf> {
    let mut both = Vec::with_capacity(places.len());
    for place in places {
        let given = clean(&std::path::absolute(place).unwrap_or_else(|_| place.clone()));
        let resolved = resolved(&given);
        if resolved != given {
            both.push(resolved);
        }
        both.push(given);
    }
    both
}

/// An absolute path with the links in its existing part resolved, and the rest as it is.
pub(super) fn resolved(path: &Path) -> PathBuf {
    for existing in path.ancestors() {
        if let Ok(real) = std::fs::canonicalize(existing) {
            return match path.strip_prefix(existing) {
                Ok(rest) if !rest.as_os_str().is_empty() => real.join(rest),
                _ => real,
            };
        }
    }
    path.to_owned()
}
