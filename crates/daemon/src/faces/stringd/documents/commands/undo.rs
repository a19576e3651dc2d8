//! `/undo`: the content of a file before its last change.

use sfmd::edit::{line_count, preview};

use super::changes;
use crate::faces::stringd::commands::{CommandContext, WriteFile};
use crate::faces::stringd::documents::state::DocumentState;
use crate::faces::stringd::documents::{DocumentResult, failed, file_failure, paths};

/// Restores the file that was changed last; a file that was new is deleted.
pub(in super::super) async fn run(state: &mut DocumentState, context: &CommandContext) -> DocumentResult {
    let nothing = || failed("NOT_FOUND", "Nothing to undo.");
    let path = state.last_change.clone().ok_or_else(nothing)?;
    let backup = changes::backup(&path);
    let old = context.read_bytes(&backup).await.map_err(|_| nothing())?;
    let shown = paths::shown_path(context, &path);
    let failure = |error| file_failure(&error, &shown, "INTERNAL_ERROR", "Undo failed");
    if old.is_empty() {
        context.remove(&path, false).await.map_err(failure)?;
    } else {
        let file = WriteFile { path: &path, content: &old, creates_parents: false, is_private: false };
        context.write(file).await.map_err(failure)?;
    }
    context.remove(&backup, false).await.map_err(failure)?;
    state.last_change = None;
    let old = String::from_utf8_lossy(&old);
    Ok(match old.is_empty() {
        true => format!("Undo: deleted {shown} (was newly created)"),
        false => format!("Undo: reverted {shown} ({} lines)\n{}", line_count(&old), preview(&old)),
    })
}
