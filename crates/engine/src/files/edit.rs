//! Editing: one text in a file replaced by another, with the file's own line endings.

use std::sync::Arc;

use memchr::memmem;

use super::atomic::{CreateOptions, NewMode, NoObserver};
use super::guard::Access;
use super::path::RootedPath;
use super::read::{ReadRange, read_open};
use super::refused;
use super::resolve::SAFE_FLAGS;
use super::write::{Durability, WriteOptions, WriteResult, check_expected, destination, replace, write_all};
use crate::Error;
use crate::error::EditError;
use rustix::fs::{Mode, OFlags, Stat};

/// The largest file that is edited or patched: both are held in memory, old and new.
pub(super) const MAX_BYTES: u64 = 256 * 1024 * 1024;

/// The text to replace in a file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Edit {
    /// The text to find; empty to replace the whole file, or make it with its directories.
    pub old: String,
    /// The text to put there.
    pub new: String,
    /// Whether every occurrence is meant; otherwise there must be just one.
    pub replace_all: bool,
    /// If given and above zero, when the file must have been modified last, in milliseconds since the epoch.
    pub expected_mtime_ms: Option<i64>,
    /// How much the write withstands.
    pub durability: Durability,
}

/// What an edit did.
#[derive(Debug, Clone)]
pub struct EditResult {
    /// The write.
    pub written: WriteResult,
    /// How many occurrences were replaced.
    pub replacements: usize,
    /// The whole text before; none if there was no file, or it was not text.
    pub before: Option<Arc<str>>,
    /// The whole text after.
    pub after: Arc<str>,
}

/// An edit that was worked out but not made: what an approver is shown.
#[derive(Debug)]
pub struct PlannedEdit {
    path: RootedPath,
    seen: Option<Stat>,
    options: WriteOptions,
    /// How many occurrences would be replaced.
    pub replacements: usize,
    /// The whole text before; none if there is no file, or it is not text.
    pub before: Option<Arc<str>>,
    /// The whole text after.
    pub after: Arc<str>,
}

/// Edits a file: [`plan_edit`] and [`PlannedEdit::apply`] in one.
pub fn edit(path: &RootedPath, edit: &Edit) -> Result<EditResult, Error> {
    plan_edit(path, edit)?.apply()
}

/// Works out an edit without making it.
pub fn plan_edit(path: &RootedPath, edit: &Edit) -> Result<PlannedEdit, Error> {
    if edit.old == edit.new {
        return Err(EditError::Identical.into());
    }
    path.check_ahead(Access::Write)?;
    let whole = edit.old.is_empty();
    let found = read_present(path)?;
    check_expected(path.as_path(), found.as_ref().map(|(stat, _)| stat), edit.expected_mtime_ms)?;
    let (seen, text) = match found {
        Some((stat, bytes)) => (Some(stat), String::from_utf8(bytes).ok()),
        None if whole => (None, None),
        None => return Err(EditError::NoFile.into()),
    };
    let (after, replacements) = match &text {
        _ if whole => (edit.new.clone(), 1),
        Some(text) => replaced(text, edit)?,
        None => return Err(EditError::NotText.into()),
    };
    let durability = edit.durability;
    let options = WriteOptions { mkdir_parents: whole, durability, ..WriteOptions::default() };
    let before = text.map(Arc::from);
    Ok(PlannedEdit { path: path.clone(), seen, options, replacements, before, after: after.into() })
}

impl PlannedEdit {
    /// The file it is about.
    pub fn path(&self) -> &RootedPath {
        &self.path
    }

    /// Makes the edit, unless the file is no longer the one it was worked out for.
    pub fn apply(self) -> Result<EditResult, Error> {
        let bytes = self.after.as_bytes();
        let (place, _) = destination(&self.path, &self.options)?;
        let (path, durability) = (self.path.as_path(), self.options.durability);
        let create = CreateOptions {
            path,
            durability,
            mode: NewMode::Kept,
            unnamed: self.path.roots().unnamed(),
            guarded: true,
            steps: &NoObserver,
        };
        let target = (place, self.seen);
        let (mtime_ms, created) =
            replace(&self.path, target, false, &create, &mut |file| write_all(file, bytes))?;
        let written = WriteResult { bytes: bytes.len() as u64, mtime_ms, created };
        Ok(EditResult { written, replacements: self.replacements, before: self.before, after: self.after })
    }
}

/// The file a path leads to, with its whole content; nothing if there is none.
pub(super) fn read_present(path: &RootedPath) -> Result<Option<(Stat, Vec<u8>)>, Error> {
    let place = match path.target(Access::Read) {
        Err(Error::File { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        found => found?,
    };
    let Some(stat) = place.stat(path.as_path())? else { return Ok(None) };
    super::resolve::require_regular(&stat, path.as_path())?;
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | SAFE_FLAGS;
    let file = rustix::fs::openat(&place.dir, &place.name, flags, Mode::empty());
    let file = file.map_err(refused("open", path.as_path()))?;
    let stat = rustix::fs::fstat(&file).map_err(refused("stat", path.as_path()))?;
    super::resolve::require_regular(&stat, path.as_path())?;
    let content = read_open(&file, &stat, ReadRange::whole(MAX_BYTES), path.as_path())?;
    if content.more {
        return Err(Error::LimitReached { what: "edited file size", limit: MAX_BYTES });
    }
    Ok(Some((stat, content.bytes)))
}

/// The text after the edit, and how many occurrences were replaced.
fn replaced(text: &str, edit: &Edit) -> Result<(String, usize), EditError> {
    let has_crlf = text.contains("\r\n");
    let all_crlf =
        has_crlf && memchr::memchr_iter(b'\n', text.as_bytes()).count() == text.matches("\r\n").count();
    // Text given without line endings of its own gets the file's; text that names `\r\n` means it.
    let new = if all_crlf && !edit.old.contains('\r') { to_crlf(&edit.new) } else { edit.new.clone() };
    let mut found = substitute(text, &edit.old, &new, edit.replace_all);
    if found == Err(EditError::NotFound) && edit.old.contains('\n') {
        found = if has_crlf {
            substitute(text, &to_crlf(&edit.old), &to_crlf(&edit.new), edit.replace_all)
        } else {
            substitute(text, &to_lf(&edit.old), &to_lf(&edit.new), edit.replace_all)
        };
    }
    found
}

fn substitute(text: &str, old: &str, new: &str, all: bool) -> Result<(String, usize), EditError> {
    match memmem::find_iter(text.as_bytes(), old.as_bytes()).count() {
        0 => Err(EditError::NotFound),
        count if count > 1 && !all => Err(EditError::Ambiguous { count }),
        count => Ok((text.replace(old, new), count)),
    }
}

fn to_lf(text: &str) -> String {
    text.replace("\r\n", "\n")
}

fn to_crlf(text: &str) -> String {
    to_lf(text).replace('\n', "\r\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, old: &str, new: &str) -> Result<String, EditError> {
        replaced(text, &Edit { old: old.into(), new: new.into(), ..Edit::default() }).map(|(text, _)| text)
    }

    #[test]
    fn edits_keep_the_line_endings_of_the_file() {
        assert_eq!(check("a\r\nb\r\nc", "a\nb", "x\ny\nz").unwrap(), "x\r\ny\r\nz\r\nc");
        assert_eq!(check("a\r\nb\r\n", "b", "b\nc").unwrap(), "a\r\nb\r\nc\r\n");
        assert_eq!(check("a\nb\n", "a\r\nb", "x\r\ny").unwrap(), "x\ny\n");
        assert_eq!(check("a\nb\r\nc\nd", "b\nc", "x\ny").unwrap(), "a\nx\r\ny\nd");
        assert_eq!(check("a\r\nb\r\n", "a\r\nb", "a\nb").unwrap(), "a\nb\r\n");
    }

    #[test]
    fn an_edit_that_could_mean_two_places_is_refused_with_their_count() {
        assert_eq!(check("aXaXa", "a", "b").unwrap_err(), EditError::Ambiguous { count: 3 });
        assert_eq!(check("abc", "z", "b").unwrap_err(), EditError::NotFound);
    }
}
