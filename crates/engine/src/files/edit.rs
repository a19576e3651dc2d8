//! Edits: replaces text in a file and preserves its line endings.

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

/// The largest file that can be edited or patched: the old and the new content are in memory.
pub(super) const MAX_BYTES: u64 = 256 * 1024 * 1024;

/// Lines that are named if the text to replace is ambiguous.
const MAX_LINES: usize = 20;

/// The text to replace in a file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Edit {
    /// The text to find. If empty, the whole file is replaced, or created with its directories.
    pub old: String,
    /// The new text.
    pub new: String,
    /// Whether to replace every occurrence; otherwise there must be exactly one.
    pub replace_all: bool,
    /// If above zero, the required modification time of the file, in milliseconds since the epoch.
    pub expected_mtime_ms: Option<i64>,
    /// The durability of the write.
    pub durability: Durability,
}

/// The result of an edit.
#[derive(Debug, Clone)]
pub struct EditResult {
    /// The write.
    pub written: WriteResult,
    /// The number of replaced occurrences.
    pub replacements: usize,
    /// The whole text before; `None` if there was no file, or it was not text.
    pub before: Option<Arc<str>>,
    /// The whole text after.
    pub after: Arc<str>,
}

/// An edit that is computed but not applied, as an approver sees it.
#[derive(Debug)]
pub struct PlannedEdit {
    path: RootedPath,
    seen: Option<Stat>,
    options: WriteOptions,
    /// The number of occurrences to replace.
    pub replacements: usize,
    /// The whole text before; `None` if there is no file, or it is not text.
    pub before: Option<Arc<str>>,
    /// The whole text after.
    pub after: Arc<str>,
}

/// Edits a file: [`plan_edit`] and [`PlannedEdit::apply`].
pub fn edit(path: &RootedPath, edit: &Edit) -> Result<EditResult, Error> {
    plan_edit(path, edit)?.apply()
}

/// Computes an edit without applying it.
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
    /// The file to edit.
    pub fn path(&self) -> &RootedPath {
        &self.path
    }

    /// Applies the edit, unless the file has changed since it was computed.
    pub fn apply(self) -> Result<EditResult, Error> {
        let bytes = self.after.as_bytes();
        let (resolved, _) = destination(&self.path, &self.options)?;
        let (path, durability) = (self.path.as_path(), self.options.durability);
        let create = CreateOptions {
            path,
            durability,
            mode: NewMode::Kept,
            unnamed: self.path.roots().unnamed(),
            guarded: true,
            steps: &NoObserver,
        };
        let target = (resolved, self.seen);
        let (mtime_ms, created) =
            replace(&self.path, target, false, &create, &mut |file| write_all(file, bytes))?;
        let written = WriteResult { bytes: bytes.len() as u64, mtime_ms, created };
        Ok(EditResult { written, replacements: self.replacements, before: self.before, after: self.after })
    }
}

/// The file that a path resolves to, with its content; `None` if there is none.
pub(super) fn read_present(path: &RootedPath) -> Result<Option<(Stat, Vec<u8>)>, Error> {
    let resolved = match path.target(Access::Read) {
        Err(Error::File { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        found => found?,
    };
    let Some(stat) = resolved.stat(path.as_path())? else { return Ok(None) };
    super::resolve::require_regular(&stat, path.as_path())?;
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | SAFE_FLAGS;
    let file = rustix::fs::openat(&resolved.dir, &resolved.name, flags, Mode::empty());
    let file = file.map_err(refused("open", path.as_path()))?;
    let stat = rustix::fs::fstat(&file).map_err(refused("stat", path.as_path()))?;
    super::resolve::require_regular(&stat, path.as_path())?;
    let content = read_open(&file, &stat, ReadRange::whole(MAX_BYTES), path.as_path())?;
    if content.more {
        return Err(Error::LimitReached { what: "edited file size", limit: MAX_BYTES });
    }
    Ok(Some((stat, content.bytes)))
}

/// The text after the edit, and the number of replaced occurrences.
fn replaced(text: &str, edit: &Edit) -> Result<(String, usize), EditError> {
    let has_crlf = text.contains("\r\n");
    let all_crlf =
        has_crlf && memchr::memchr_iter(b'\n', text.as_bytes()).count() == text.matches("\r\n").count();
    // Text without `\r\n` gets the line endings of the file; text with `\r\n` is used as given.
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
        count if count > 1 && !all => Err(EditError::Ambiguous { count, lines: lines_of(text, old) }),
        count => Ok((text.replace(old, new), count)),
    }
}

/// The lines on which the first occurrences start, from 1.
fn lines_of(text: &str, sought: &str) -> Vec<usize> {
    let starts = memmem::find_iter(text.as_bytes(), sought.as_bytes()).take(MAX_LINES);
    let (mut line, mut counted) = (1, 0);
    starts
        .map(|start| {
            line += memchr::memchr_iter(b'\n', &text.as_bytes()[counted..start]).count();
            counted = start;
            line
        })
        .collect()
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
        assert_eq!(
            check("aX\naX\n\na", "a", "b").unwrap_err(),
            EditError::Ambiguous { count: 3, lines: vec![1, 2, 4] }
        );
        assert_eq!(check("abc", "z", "b").unwrap_err(), EditError::NotFound);
    }
}
