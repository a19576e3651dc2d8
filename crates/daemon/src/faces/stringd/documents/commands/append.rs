//! `/append`: adds to the end of a file.

use sfmd::command::CommandLine;
use sfmd::edit::appended;

use super::changes::{self, FileChange};
use crate::faces::stringd::commands::CommandContext;
use crate::faces::stringd::documents::state::DocumentState;
use crate::faces::stringd::documents::{DocumentResult, failed};

/// Appends the body, or the rest of the line, on a line of its own.
pub(in super::super) async fn run(
    state: &mut DocumentState,
    context: &CommandContext,
    line: &CommandLine<'_>,
) -> DocumentResult {
    let usage = || failed("INVALID_TARGET", "Usage: /append <path> with the content on the next lines");
    let target = changes::target(state, context, line).ok_or_else(usage)?;
    let addition = target.content.ok_or_else(usage)?;
    let old = changes::content(context, &target, "Append").await?;
    let old = old.ok_or_else(|| changes::missing_file(&target))?;
    let new = appended(&old, addition);
    let change =
        FileChange { target: &target, old: Some(&old), new: &new, creates_parents: false, what: "Append" };
    let tail = changes::apply(state, context, change).await?;
    Ok(format!("Appended to: {} (now {} bytes){tail}", target.typed, new.len()))
}
