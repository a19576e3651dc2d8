//! Changes of files: the old content is kept once, beside the file, for `/undo`.

use std::path::{Path, PathBuf};

use sfmd::command::CommandLine;
use sfmd::diff::DiffOptions;
use sfmd::{edit, uri};

use crate::faces::stringd::commands::{CommandContext, CommandResult, WriteFile};
use crate::faces::stringd::documents::state::DocumentState;
use crate::faces::stringd::documents::{failed, file_failure, paths, work};
use crate::faces::stringd::errors::OperationError;

/// The file, block and content that an editing command names.
pub(super) struct EditTarget<'a> {
    /// The path as typed, without the block.
    pub(super) typed: &'a str,
    pub(super) path: PathBuf,
    pub(super) block: Option<&'a str>,
    /// The body, or the rest of the line.
    pub(super) content: Option<&'a str>,
}

/// Reads the arguments of an editing command.
pub(super) fn target<'a>(
    state: &DocumentState,
    context: &CommandContext,
    line: &CommandLine<'a>,
) -> Option<EditTarget<'a>> {
    let (target, rest) = line.args.split_once(char::is_whitespace).unwrap_or((line.args, ""));
    let (typed, block) = uri::split_fragment(target);
    if typed.is_empty() {
        return None;
    }
    let content = line.body.or(Some(rest.trim()).filter(|rest| !rest.is_empty()));
    let block = block.filter(|block| !block.is_empty());
    Some(EditTarget { typed, path: paths::absolute(state, context, typed), block, content })
}

/// The content of a file, `None` if it does not exist.
pub(super) async fn content(
    context: &CommandContext,
    target: &EditTarget<'_>,
    what: &str,
) -> Result<Option<String>, CommandResult> {
    match context.read(&target.path).await {
        Ok(text) => Ok(Some(text)),
        Err(OperationError::NotFound(_)) => Ok(None),
        Err(error) => Err(file_failure(&error, target.typed, "INTERNAL_ERROR", &format!("{what} failed"))),
    }
}

/// Where the content before the last change is kept.
pub(super) fn backup(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".undo");
    PathBuf::from(name)
}

/// A new content for a file.
pub(super) struct FileChange<'a> {
    pub(super) target: &'a EditTarget<'a>,
    pub(super) old: Option<&'a str>,
    pub(super) new: &'a str,
    pub(super) creates_parents: bool,
    /// The word in a failure: `Write`, `Append` or `Edit`.
    pub(super) what: &'a str,
}

/// Keeps the old content, writes the new one, and returns the end of the confirmation.
pub(super) async fn apply(
    state: &mut DocumentState,
    context: &CommandContext,
    change: FileChange<'_>,
) -> Result<String, CommandResult> {
    let FileChange { target, old, new, creates_parents, what } = change;
    let failure = |error: OperationError| {
        file_failure(&error, target.typed, "INTERNAL_ERROR", &format!("{what} failed"))
    };
    let old = old.unwrap_or_default();
    let kept = backup(&target.path);
    // The exact bytes: the text of a file that is not UTF-8 would not restore it.
    let before = match context.read_bytes(&target.path).await {
        Err(OperationError::NotFound(_)) => Vec::new(),
        before => before.map_err(failure)?,
    };
    let copy = WriteFile { path: &kept, content: &before, creates_parents, is_private: false };
    context.write(copy).await.map_err(failure)?;
    let file = WriteFile { path: &target.path, content: new.as_bytes(), creates_parents, is_private: false };
    context.write(file).await.map_err(failure)?;
    state.last_change = Some(target.path.clone());
    let options = DiffOptions::from_variables(|name| state.variable(name));
    let (old, new) = (old.to_owned(), new.to_owned());
    Ok(work(old.len() + new.len(), move || edit::tail(&old, &new, &options)).await)
}

/// The failure for a file that must exist.
pub(super) fn missing_file(target: &EditTarget<'_>) -> CommandResult {
    failed("NOT_FOUND", format!("File not found: {}", target.typed))
}
